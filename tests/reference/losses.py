"""Scores, losses and the penalty of one example, with their gradients: what the kernels compute, written to be read.

A gradient is a Minkowski gradient (see `reference.hyperboloid`): a multiple of the point it belongs to may be
added, and falls away in the projection of the step. In flat space it is the ordinary gradient.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.learning.kernels.structures import COINCIDENT_DISTANCE
from tests.reference import euclidean, hyperboloid

Geometry = Literal["hyperboloid", "euclidean"]
ScoreKind = Literal["inner", "distance"]
LossName = Literal["bpr", "wmrb", "softmax"]


def score(geometry: Geometry, kind: ScoreKind, customer: FloatArray, item: FloatArray) -> FloatArray:
    """s(u, v) = <u, v> or -d(u, v): higher is nearer. One customer, one item or rows of them."""
    if kind == "distance":
        apart = hyperboloid.distance if geometry == "hyperboloid" else euclidean.distance
        return -apart(customer, item)
    return hyperboloid.minkowski_dot(customer, item) if geometry == "hyperboloid" else euclidean.dot(customer, item)


def score_gradients(
    geometry: Geometry, kind: ScoreKind, customer: FloatArray, item: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The gradients of s(u, v) in u and in v, a row for each item.

    <u, v> has v and u. -d(u, v) has the unit vectors towards the other point (paper equation 18 with its sign
    corrected); where the two coincide there is no direction, and both are zero.
    """
    if kind == "inner":
        return np.broadcast_to(item, item.shape), np.broadcast_to(customer, item.shape)
    space = hyperboloid if geometry == "hyperboloid" else euclidean
    towards = np.where(coincide(geometry, kind, customer, item), 0.0, -1.0)[..., None]
    return towards * space.distance_gradient(customer, item), towards * space.distance_gradient(item, customer)


def coincide(geometry: Geometry, kind: ScoreKind, customer: FloatArray, item: FloatArray) -> NDArray[np.bool_]:
    """Whether a pair is too near for its distance to have a direction; inner products always have one."""
    return -score(geometry, "distance", customer, item) < (COINCIDENT_DISTANCE if kind == "distance" else 0)


def bpr(gaps: FloatArray) -> tuple[float, FloatArray]:
    """Bayesian personalised ranking: L = mean_k ln(1 + e^z_k) = -mean_k ln sigma(-z_k), dL/dz_k = sigma(z_k) / K.

    Paper equation 13, which has one negative. `gaps` are z_k = scale (s_k - s_+): higher is worse.
    """
    count = max(len(gaps), 1)
    return float(np.logaddexp(0, gaps).sum()) / count, np.exp(-np.logaddexp(0, -gaps)) / count


def wmrb(gaps: FloatArray, margin: float) -> tuple[float, FloatArray]:
    """Weighted margin-rank batch: L = ln(1 + r), r = sum_k |margin + z_k|_+, dL/dz_k = [margin + z_k > 0] / (1 + r).

    Paper equations 15 and 16: r approximates the rank of the target, and the logarithm makes places near the top worth
    more.
    """
    excess = np.maximum(margin + gaps, 0)
    rank = float(excess.sum())
    return float(np.log1p(rank)), (excess > 0) / (1 + rank)


def softmax(gaps: FloatArray) -> tuple[float, FloatArray]:
    """Sampled softmax: L = ln(1 + sum_k e^z_k), minus the logarithm of the target's share; dL/dz_k = the share of k."""
    value = float(np.logaddexp.reduce(np.concatenate([[0.0], gaps])))
    return value, np.exp(gaps - value)


def loss(
    name: LossName, scores: FloatArray, *, scale: float = 1.0, margin: float = 1.0, weight: float = 1.0
) -> tuple[float, FloatArray]:
    """The loss of an event of this weight, and its derivatives by all scores: the target's first, then the negatives'.

    With z_k = scale (s_k - s_+) the loss depends on differences only: dL/ds_k = scale dL/dz_k, and dL/ds_+ is minus
    the sum of these.
    """
    gaps = scale * (scores[1:] - scores[0])
    value, slopes = wmrb(gaps, margin) if name == "wmrb" else bpr(gaps) if name == "bpr" else softmax(gaps)
    return weight * value, weight * scale * np.concatenate([[-slopes.sum()], slopes])


def penalty(geometry: Geometry, strength: float, point: FloatArray) -> tuple[FloatArray, FloatArray]:
    """strength d(x, origin)^2 and its gradient: ||Theta||^2 of paper equation 13, read as a distance, since the
    Minkowski norm of every point is -1."""
    space = hyperboloid if geometry == "hyperboloid" else euclidean
    return (
        strength * space.squared_distance_to_origin(point),
        strength * space.squared_distance_to_origin_gradient(point),
    )
