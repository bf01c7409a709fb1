"""What a customer dislikes pushes their midpoint away: a sum of points, less as much of another sum as it can bear.

P is the weighted sum of the points of what a customer likes, N that of what they dislike, with positive weights. The
midpoint is that of S = P - t N, and t is 1 unless S would then be shorter than half of P; t is smaller in that case,
so that S has half the length of P. On the hyperboloid the length of a sum is sqrt(-<S, S>), so S stays inside the cone
of times and has a midpoint, at most log 2 from that of P. In flat space the length is the sum of the weights, which is
the time coordinate of points (1, x); there the midpoint moves by no more than the distance of P's from N's.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import minkowski_dot, minkowski_squared_norm

LEAST_LENGTH = 0.5
"""Of the length of P, what the sum has at least. With less, a dislike would count for more than all that is liked."""


def find_share(liked: FloatArray, disliked: FloatArray) -> FloatArray:
    """t of sums P and N on the hyperboloid, one per row; 0 where N is.

    Half of the length is left at the smaller root of n^2 t^2 - 2 c t + (1 - 1/4) p^2 = 0, with p and n the lengths of P
    and N, and c = -<P, N>, which is at least p n.
    """
    squared, other = -minkowski_squared_norm(liked), -minkowski_squared_norm(disliked)
    product = -minkowski_dot(liked, disliked)
    lost = (1 - LEAST_LENGTH**2) * squared
    root = np.sqrt(np.maximum(product * product - lost * other, 0))
    share = np.divide(lost, product + root, out=np.zeros_like(product), where=product > 0)
    bounded: FloatArray = np.minimum(share, 1)
    return bounded


def find_flat_share(liked_weight: FloatArray, disliked_weight: FloatArray) -> FloatArray:
    """t in flat space, from the sums of the weights; 0 where nothing is disliked."""
    lost = (1 - LEAST_LENGTH) * liked_weight
    share = np.divide(lost, disliked_weight, out=np.zeros_like(lost), where=disliked_weight > 0)
    bounded: FloatArray = np.minimum(share, 1)
    return bounded
