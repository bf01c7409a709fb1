"""Scores of pairs and losses of positives against negatives, with their derivatives."""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import call_loss, inlined, kernel
from lorentzrec.learning.kernels.numbers import fast_exp, fast_log
from lorentzrec.learning.kernels.steps import dot
from lorentzrec.learning.kernels.structures import COINCIDENT, COINCIDENT_DISTANCE, NEAR, Loss

f32 = np.float32
_ZERO, _ONE, _TWO = f32(0), f32(1), f32(2)
_NEAR = f32(NEAR)
MASKED = f32(-1e30)
"""The score of a negative that does not count: below every real one, and finite."""
FAR = f32(-1e12)
"""An inner product that no two points have."""
_HALF_MASKED = f32(-5e29)


@kernel
def find_score(product, left, i, right, j, settings, counters):
    """The score of row i and row j, and its derivative by their inner product, which is given.

    Distance: d = arccosh(z) with z = -<u, v>, derivative 1 / sinh d. For near points z has lost the digits that
    matter, and the difference of the points is used: q = |u - v|^2, d = 2 asinh(sqrt(q) / 2), sinh d = sqrt(q (1 + q /
    4)). At d = 0 there is no direction.
    """
    if not settings.distance:
        return product, _ONE
    if settings.curved and -product - _ONE >= _NEAR * left[i, 0] * right[j, 0]:
        sinh = np.sqrt(product * product - _ONE)
        distance = np.log(sinh - product)
    else:
        squared = _ZERO
        squares = _ZERO
        for k in range(1, left.shape[1]):
            difference = left[i, k] - right[j, k]
            squared += difference * difference
            squares += difference * (left[i, k] + right[j, k])
        if settings.curved:
            times = left[i, 0] + right[j, 0]
            time = squares / times
            squared = max(squared - time * time, _ZERO)
            if times > f32(4):
                # far out, that is the small difference of two large numbers for points one behind the other. With
                # m = (x + y) / (x0 + y0), q is also |x - y - t / (1 + |m|') m|^2, |m|'^2 = 1 - |m|^2 = (4 + q) /
                # (x0 + y0)^2: a sum of squares, in which the q on the right need not be exact.
                for _ in range(2):
                    share = time / (times + np.sqrt(f32(4) + squared))
                    squared = _ZERO
                    for k in range(1, left.shape[1]):
                        part = left[i, k] - right[j, k] - share * (left[i, k] + right[j, k])
                        squared += part * part
            sinh = np.sqrt(squared * (_ONE + f32(0.25) * squared))
            distance = np.log1p(f32(0.5) * squared + sinh)
        else:
            distance = np.sqrt(squared)
            sinh = distance
    if sinh < f32(COINCIDENT_DISTANCE):
        counters[COINCIDENT] += 1
        return -distance, _ZERO
    return -distance, _ONE / sinh


@inlined
def find_offset(product, settings):
    """The k of the tangent gradient u + k v that a score has at v: the projection on the hyperboloid, u - v for flat
    distances."""
    if settings.curved:
        return product
    return -_ONE if settings.distance else _ZERO


@kernel
def find_distances(scores, slopes, queries, negatives, sizes, settings, counters):
    """Turn the inner products of queries and negatives into minus distances in place, and write their derivatives by
    the inner product.

    `sizes` holds each negative's time coordinate, in flat space its squared length. Near pairs get a slope of
    zero and are computed again from the difference of their points.
    """
    for t in range(queries.shape[0]):
        near = 0
        if settings.curved:
            limit = _NEAR * queries[t, 0]
            for k in range(negatives.shape[0]):
                z = -scores[t, k]
                is_near = z - _ONE < limit * sizes[k]
                near += is_near
                sinh = np.sqrt(max(z * z - _ONE, f32(1e-12)))
                slopes[t, k] = _ZERO if is_near else _ONE / sinh
                scores[t, k] = scores[t, k] if is_near else -fast_log(z + sinh)
        else:
            own = dot(queries, t, queries, t)
            for k in range(negatives.shape[0]):
                squared = own + sizes[k] - _TWO * scores[t, k]
                is_near = squared < _NEAR * (own + sizes[k])
                near += is_near
                distance = np.sqrt(max(squared, f32(1e-12)))
                slopes[t, k] = _ZERO if is_near else _ONE / distance
                scores[t, k] = scores[t, k] if is_near else -distance
        if near > 0:
            for k in range(negatives.shape[0]):
                if slopes[t, k] == _ZERO:
                    scores[t, k], slopes[t, k] = find_score(scores[t, k], queries, t, negatives, k, settings, counters)


@kernel
def losses_of_row(scores, t, first, last, positives, tile, settings):
    """The summed loss of the positives first..last-1 against the negatives of their query, row t of `scores`.

    The negatives' scores are overwritten with the loss's derivatives by them. The losses of this module depend on
    differences of scores alone, so the derivative by a positive's score, its pull, is minus the sum of those by the
    negatives'. BPR: mean_k ln(1 + e^x_k); WMRB: ln(1 + sum_k max(0, margin + x_k)); softmax: ln(1 + sum_k e^x_k), with
    x_k = scale (s_k - positive).
    """
    if settings.loss == Loss.SOFTMAX:
        return _softmax_of_row(scores, t, first, last, positives, settings)
    sums = tile.sums
    for k in range(sums.shape[0]):
        sums[k] = _ZERO
    total = 0.0
    for p in range(first, last):
        if settings.loss == Loss.OWN:
            total += _own_of_positive(scores, t, p, positives, tile, settings)
        elif settings.loss == Loss.WMRB:
            total += _wmrb_of_positive(scores, t, p, positives, sums, settings)
        else:
            total += _bpr_of_positive(scores, t, p, positives, sums, settings)
    for k in range(sums.shape[0]):
        scores[t, k] = sums[k]
    return total


@kernel
def _own_of_positive(scores, t, p, positives, tile, settings):
    """A registered loss: it gets the scores of the positive and of the negatives that count, and writes derivatives."""
    weight, scale, compared, derivatives = positives.weights[p], settings.scale, tile.compared, tile.derivatives
    compared[0] = scale * positives.scores[p]
    count = 1
    for k in range(tile.sums.shape[0]):
        if scores[t, k] > _HALF_MASKED:
            compared[count] = scale * scores[t, k]
            count += 1
    for k in range(count):
        derivatives[k] = _ZERO
    loss = call_loss(settings.loss_address, compared, derivatives, count) if count > 1 else _ZERO
    positives.pulls[p] = weight * scale * derivatives[0]
    count = 1
    for k in range(tile.sums.shape[0]):
        if scores[t, k] > _HALF_MASKED:
            tile.sums[k] += weight * scale * derivatives[count]
            count += 1
    return weight * loss


@kernel
def _wmrb_of_positive(scores, t, p, positives, sums, settings):
    weight, scale, positive = positives.weights[p], settings.scale, positives.scores[p]
    rank = _ZERO
    for k in range(sums.shape[0]):
        x = settings.margin + scale * (scores[t, k] - positive)
        rank += x if x > _ZERO else _ZERO
    part = weight * scale / (_ONE + rank)
    pull = _ZERO
    for k in range(sums.shape[0]):
        x = settings.margin + scale * (scores[t, k] - positive)
        derivative = part if x > _ZERO else _ZERO
        sums[k] += derivative
        pull -= derivative
    positives.pulls[p] = pull
    return weight * np.log1p(rank)


@kernel
def _bpr_of_positive(scores, t, p, positives, sums, settings):
    weight, scale, positive = positives.weights[p], settings.scale, positives.scores[p]
    total = _ZERO
    counted = _ZERO
    for k in range(sums.shape[0]):
        x = scale * (scores[t, k] - positive)
        total += (x if x > _ZERO else _ZERO) + fast_log(_ONE + fast_exp(-abs(x)))
        counted += _ONE if scores[t, k] > _HALF_MASKED else _ZERO
    counted = max(counted, _ONE)
    part = weight * scale / counted
    pull = _ZERO
    for k in range(sums.shape[0]):
        x = scale * (scores[t, k] - positive)
        derivative = part / (_ONE + fast_exp(-x)) if scores[t, k] > _HALF_MASKED else _ZERO
        sums[k] += derivative
        pull -= derivative
    positives.pulls[p] = pull
    return weight * total / counted


@kernel
def _softmax_of_row(scores, t, first, last, positives, settings):
    """All positives share the exponentials of their negatives: each adds no more than its share of them."""
    scale = settings.scale
    highest = scores[t, 0]
    for k in range(scores.shape[1]):
        highest = max(highest, scores[t, k])
    total = _ZERO
    for k in range(scores.shape[1]):
        total += fast_exp(scale * (scores[t, k] - highest))
    part = _ZERO
    loss = 0.0
    for p in range(first, last):
        x = np.log(total) + scale * (highest - positives.scores[p])  # ln sum_k e^x_k
        share = _ONE / (_ONE + np.exp(-x))
        loss += positives.weights[p] * (max(x, _ZERO) + np.log1p(np.exp(-abs(x))))
        positives.pulls[p] = -positives.weights[p] * scale * share
        part -= positives.pulls[p] / total
    for k in range(scores.shape[1]):
        scores[t, k] = part * fast_exp(scale * (scores[t, k] - highest))
    return loss


@kernel
def chain(derivatives, slopes, t, settings):
    """The chain rule from scores to inner products, in place; their sum."""
    total = _ZERO
    for k in range(derivatives.shape[1]):
        if settings.distance:
            derivatives[t, k] *= slopes[t, k]
        total += derivatives[t, k]
    return total
