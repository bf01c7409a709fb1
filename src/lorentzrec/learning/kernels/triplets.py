"""One triplet at a time: the symmetric model with BPR."""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import inlined, kernel
from lorentzrec.learning.kernels.numbers import GOLDEN, below, cosh_and_sinhc, mix
from lorentzrec.learning.kernels.scores import offset_of, score_of
from lorentzrec.learning.kernels.steps import dot, lift, pull_to_origin, row_step, step_factor
from lorentzrec.learning.kernels.structures import ADAM, SATURATED

f32, u32, u64 = np.float32, np.uint32, np.uint64
_ZERO, _ONE, _TWO = f32(0), f32(1), f32(2)


@inlined
def unseen(state, bits, items, item_count, settings):
    """A random item whose bit is clear: tries, and after 64 of them the next clear one from a random start. Also the
    new state."""
    for _ in range(64):
        state += GOLDEN
        drawn = np.int64(items[below(state, items.shape[0])]) if settings.popular else below(state, item_count)
        if (bits[drawn >> 5] >> u32(drawn & 31)) & u32(1) == 0:
            return drawn, state
    state += GOLDEN
    drawn = below(state, item_count)
    while (bits[drawn >> 5] >> u32(drawn & 31)) & u32(1) != 0:
        drawn = drawn + 1 if drawn + 1 < item_count else 0
    return drawn, state


@kernel
def triplet_steps(order, start, stop, events, users, items, settings, key, workspace):
    """Symmetric BPR over the customers order[start:stop], one step of three points per (customer, item, unseen item);
    the summed loss.

    Every tangent gradient is a combination of the three points, so its length follows from their inner products, and
    projection plus exponential map is x' = a x + b (others) with scalars a and b: three dot products and one fused
    loop per triplet.
    """
    _, negatives, _, _, vectors, counters = workspace
    bits = negatives.bits
    item_count = items.points.shape[0]
    weighted = events.weights.shape[0] > 1
    total = 0.0
    for place in range(start, stop):
        user = order[place]
        first, last = events.offsets[user], events.offsets[user + 1]
        distinct = 0
        for t in range(first, last):
            item = events.items[t]
            distinct += 1 - ((bits[item >> 5] >> u32(item & 31)) & u32(1))
            bits[item >> 5] |= u32(1) << u32(item & 31)
        if distinct == item_count:
            counters[SATURATED] += 1
        else:
            state = mix(key + u64(user) * GOLDEN)
            for t in range(first, last):
                weight = events.weights[t] if weighted else _ONE
                for _ in range(settings.negative_count):
                    other, state = unseen(state, bits, events.items, item_count, settings)
                    total += _triplet_step(
                        user, events.items[t], other, weight, users, items, settings, vectors, counters
                    )
        for t in range(first, last):
            bits[events.items[t] >> 5] = u32(0)
    return total


@kernel
def _triplet_step(user, item, other, weight, users, items, settings, h, counters):
    u, v, w = users.points[user], items.points[item], items.points[other]
    width = u.shape[0]
    uv, uw, vw = _ZERO, _ZERO, _ZERO
    for k in range(1, width):
        uv += u[k] * v[k]
        uw += u[k] * w[k]
        vw += v[k] * w[k]
    uv -= u[0] * v[0]
    uw -= u[0] * w[0]
    vw -= v[0] * w[0]
    v_score, v_slope = score_of(uv, u, v, settings, counters)
    w_score, w_slope = score_of(uw, u, w, settings, counters)
    gap = settings.scale * (v_score - w_score)
    # L = ln(1 + e^-gap), -dL/dgap = 1 / (1 + e^gap)
    pull = weight * settings.scale / (_ONE + np.exp(min(gap, f32(80))))
    loss = weight * (np.log1p(np.exp(-abs(gap))) + max(-gap, _ZERO))
    v_part, w_part = -pull * v_slope, pull * w_slope
    v_offset, w_offset = offset_of(uv, settings), offset_of(uw, settings)
    u_home, v_home, w_home = pull_to_origin(u, settings), pull_to_origin(v, settings), pull_to_origin(w, settings)

    if settings.optimiser == ADAM:
        for k in range(width):
            h[0, k] = v_part * v[k] + w_part * w[k]
            h[1, k] = v_part * u[k]
            h[2, k] = w_part * u[k]
            if not settings.curved:
                h[0, k] += (v_part * v_offset + w_part * w_offset) * u[k]
                h[1, k] += v_part * v_offset * v[k]
                h[2, k] += w_part * w_offset * w[k]
        row_step(users, user, h[0], settings, counters)
        row_step(items, item, h[1], settings, counters)
        row_step(items, other, h[2], settings, counters)
        return loss

    uu, vv, ww = (-_ONE, -_ONE, -_ONE) if settings.curved else (dot(u, u), dot(v, v), dot(w, w))
    # squared lengths of the tangent vectors u + k v at v, and v + k u at u
    v_square = uu + v_offset * (_TWO * uv + v_offset * vv)
    w_square = uu + w_offset * (_TWO * uw + w_offset * ww)
    cross = vw + w_offset * uv + v_offset * uw + v_offset * w_offset * uu
    u_square = v_part * v_part * (vv + v_offset * (_TWO * uv + v_offset * uu))
    u_square += w_part * w_part * (ww + w_offset * (_TWO * uw + w_offset * uu)) + _TWO * v_part * w_part * cross
    v_square *= v_part * v_part
    w_square *= w_part * w_part
    if settings.regularisation != _ZERO:
        u_square += _home_square(u, uu, u_home, v_part * _home_cross(v, u, uv, uu, v_offset, settings), settings)
        u_square += _TWO * u_home * w_part * _home_cross(w, u, uw, uu, w_offset, settings)
        v_square += _home_square(v, vv, v_home, v_part * _home_cross(u, v, uv, vv, v_offset, settings), settings)
        w_square += _home_square(w, ww, w_home, w_part * _home_cross(u, w, uw, ww, w_offset, settings), settings)
    u_square, v_square, w_square = max(u_square, _ZERO), max(v_square, _ZERO), max(w_square, _ZERO)
    u_factor = step_factor(u_square, users, user, settings, counters)
    v_factor = step_factor(v_square, items, item, settings, counters)
    w_factor = step_factor(w_square, items, other, settings, counters)
    u_cosh, v_cosh, w_cosh = _ONE, _ONE, _ONE
    if settings.curved:
        u_cosh, u_sinhc = cosh_and_sinhc(u_factor * u_factor * u_square)
        v_cosh, v_sinhc = cosh_and_sinhc(v_factor * v_factor * v_square)
        w_cosh, w_sinhc = cosh_and_sinhc(w_factor * w_factor * w_square)
        u_factor, v_factor, w_factor = u_factor * u_sinhc, v_factor * v_sinhc, w_factor * w_sinhc
    u_own = u_cosh - u_factor * (v_part * v_offset + w_part * w_offset + u_home)
    v_own = v_cosh - v_factor * (v_part * v_offset + v_home)
    w_own = w_cosh - w_factor * (w_part * w_offset + w_home)
    u_v, u_w, v_u, w_u = -u_factor * v_part, -u_factor * w_part, -v_factor * v_part, -w_factor * w_part
    u_space, v_space, w_space = _ZERO, _ZERO, _ZERO
    for k in range(1, width):
        old_u, old_v, old_w = u[k], v[k], w[k]
        new_u = u_own * old_u + u_v * old_v + u_w * old_w
        new_v = v_own * old_v + v_u * old_u
        new_w = w_own * old_w + w_u * old_u
        u[k], v[k], w[k] = new_u, new_v, new_w
        u_space += new_u * new_u
        v_space += new_v * new_v
        w_space += new_w * new_w
    lift(u, u_space, user, settings, counters)
    lift(v, v_space, item, settings, counters)
    lift(w, w_space, other, settings, counters)
    return loss


@inlined
def _home_cross(u, v, product, square, offset, settings):
    """<u + k v, pull to the origin at v> for a pull of 1."""
    return u[0] / v[0] + offset if settings.curved else product + offset * square


@inlined
def _home_square(point, square, home, cross, settings):
    """What the pull to the origin adds to the squared length of a gradient; `cross`: its product with a pull of 1."""
    own = _ONE - _ONE / (point[0] * point[0]) if settings.curved else square
    return home * (home * own + _TWO * cross)
