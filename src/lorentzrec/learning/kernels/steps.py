"""One step of one point: gradient, tangent, exponential map; RSGD, Adagrad and Adam."""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import inlined, kernel
from lorentzrec.learning.kernels.numbers import cosh_and_sinhc, is_finite
from lorentzrec.learning.kernels.structures import (
    ADAM_DECAY,
    ADAM_EPSILON,
    ADAM_SQUARED_DECAY,
    BROKEN,
    CAPPED,
    CLIPPED,
    MAXIMUM_RADIUS,
    MAXIMUM_STEP,
    Optimiser,
)

f32 = np.float32
_ZERO, _ONE, _TWO = f32(0), f32(1), f32(2)
_LARGEST_STEP = f32(MAXIMUM_STEP)
_LARGEST_SPACE_SQUARED = f32(np.sinh(MAXIMUM_RADIUS) ** 2)
_TINY = f32(1e-30)
_LOG_DECAY, _LOG_SQUARED_DECAY = f32(np.log(ADAM_DECAY)), f32(np.log(ADAM_SQUARED_DECAY))


@kernel
def dot(left, i, right, j):
    """<x, y> of row i and row j: -x0 y0 + x1 y1 + ...; in flat space x0 and y0 are zero.

    Here and below, loops run over whole rows, whose width is a multiple of eight, and the time coordinate is corrected
    afterwards: a loop from 1 would leave a remainder that does not vectorise.
    """
    total = _ZERO
    for k in range(left.shape[1]):
        total += left[i, k] * right[j, k]
    return total - _TWO * left[i, 0] * right[j, 0]


@inlined
def pull_to_origin(time, settings):
    """What the regularisation adds to a tangent gradient: this times the space coordinates.

    Penalty: regularisation * d(origin, x)^2.
    """
    if settings.regularisation == _ZERO:
        return _ZERO
    if not settings.curved:
        return _TWO * settings.regularisation
    sinh = np.sqrt(max(time * time - _ONE, _ZERO))
    # d / sinh d with d = asinh(|space|); its limit at the origin is 1
    ratio = np.log(sinh + time) / sinh if sinh > f32(1e-3) else _ONE
    return _TWO * settings.regularisation * ratio * time


# --- optimisers


@inlined
def find_clipping(squared_norm, settings):
    """What shortens a gradient of this squared length to the clipping norm."""
    if squared_norm <= settings.clip_norm * settings.clip_norm:
        return _ONE
    return settings.clip_norm / np.sqrt(squared_norm)


@inlined
def capped(factor, squared_norm):
    """A factor under which a direction of this squared length is no longer than the longest step."""
    if factor * factor * squared_norm <= _LARGEST_STEP * _LARGEST_STEP:
        return factor
    return _LARGEST_STEP / np.sqrt(squared_norm)


@inlined
def step_factor(squared_norm, squared, settings):
    """What RSGD or Adagrad multiplies a tangent gradient of this squared length with, and Adagrad's new sum.

    Also whether the gradient was clipped and the step capped, as numbers to count.
    """
    clipping = find_clipping(squared_norm, settings)
    # Adagrad would divide zero by zero
    factor = settings.learning_rate * clipping if squared_norm > _ZERO else _ZERO
    if settings.optimiser == Optimiser.ADAGRAD:
        squared += clipping * clipping * squared_norm
        factor /= np.sqrt(squared + _TINY)
    allowed = capped(factor, squared_norm)
    return allowed, squared, int(clipping < _ONE), int(allowed < factor)


@kernel
def settle(table, row, squared_space, settings, counters):
    """Finish a step whose space part has this squared length: pull the point back to the largest radius, and give it
    the time coordinate that belongs to its space part, so that it is on the sheet by construction."""
    points, momentum = table.points, table.momentum
    if settings.curved and squared_space > _LARGEST_SPACE_SQUARED:
        counters[CAPPED] += 1
        shrink = np.sqrt(_LARGEST_SPACE_SQUARED / squared_space)
        for k in range(points.shape[1]):
            points[row, k] *= shrink
            if settings.optimiser == Optimiser.ADAM:
                momentum[row, k] *= shrink  # or its length would grow with every step that is taken back
        squared_space *= shrink * shrink
    points[row, 0] = np.sqrt(_ONE + squared_space) if settings.curved else _ZERO
    if not is_finite(squared_space) and counters[BROKEN] == 0:
        counters[BROKEN] = row + 1


@kernel
def _measure_tangent(points, row, vectors, slot, product, settings):
    """Complete a tangent vector at a point: writes its time coordinate and returns its squared length. `product` is the
    sum of products over all coordinates; what the vector's time coordinate was before does not matter.

    The length of a tangent vector v at a point x of the hyperboloid is the flat length of v carried to the origin: |v -
    v0 / (1 + x0) x| over the space parts, with v0 = v.x / x0 by tangency. That is a sum of squares; |v|^2 - v0^2 is
    equal, but far from the origin it is the small difference of two large numbers.
    """
    time = points[row, 0]
    tangent_time = (product - vectors[slot, 0] * time) / time if settings.curved else _ZERO
    vectors[slot, 0] = tangent_time
    share = tangent_time / (_ONE + time)
    squared_norm = _ZERO
    for k in range(points.shape[1]):
        part = vectors[slot, k] - share * points[row, k]
        squared_norm += part * part
    # the time coordinate has no part in it; its term is (v0 / (1 + x0))^2, no larger than |v|^2
    own = tangent_time - share * time
    return max(squared_norm - own * own, _ZERO)


@kernel
def step_rows(table, rows, chosen, gradients, settings, counters):
    """One step for each chosen slot: row rows[slot] of a table moves down gradients[slot] (the metric already applied),
    which is overwritten.

    The paper's three steps: h = g^-1 gradient (the caller's), h_t = h + <x, h> x, x' = Exp_x(-factor h_t).
    """
    points, squared, momentum, steps, _, _ = table
    width = points.shape[1]
    for index in range(chosen.shape[0]):
        slot = chosen[index]
        row = rows[slot]
        time = points[row, 0]
        added = _ZERO
        if settings.curved:
            for k in range(width):
                added += points[row, k] * gradients[slot, k]
            added -= _TWO * time * gradients[slot, 0]
        added += pull_to_origin(time, settings)
        product = _ZERO
        for k in range(width):
            gradients[slot, k] += added * points[row, k]
            product += gradients[slot, k] * points[row, k]
        squared_norm = _measure_tangent(points, row, gradients, slot, product, settings)
        if settings.optimiser == Optimiser.ADAM:
            clipping = find_clipping(squared_norm, settings)
            counters[CLIPPED] += clipping < _ONE
            product = _ZERO
            for k in range(width):
                # the momentum becomes the direction of the step
                mixed = f32(ADAM_DECAY) * momentum[row, k] + f32(1 - ADAM_DECAY) * clipping * gradients[slot, k]
                gradients[slot, k] = mixed
                product += mixed * points[row, k]
            squared_norm *= clipping * clipping
            squared[row] = f32(ADAM_SQUARED_DECAY) * squared[row] + f32(1 - ADAM_SQUARED_DECAY) * squared_norm
            steps[row] += 1
            unbiased = squared[row] / (_ONE - np.exp(steps[row] * _LOG_SQUARED_DECAY))
            factor = settings.learning_rate / (_ONE - np.exp(steps[row] * _LOG_DECAY))
            factor /= np.sqrt(unbiased) + f32(ADAM_EPSILON)
            squared_norm = _measure_tangent(points, row, gradients, slot, product, settings)
            allowed = capped(factor, squared_norm)
            counters[CAPPED] += allowed < factor
            factor = allowed
        else:
            factor, new_squared, was_clipped, was_capped = step_factor(squared_norm, squared[row], settings)
            counters[CLIPPED] += was_clipped
            counters[CAPPED] += was_capped
            if settings.optimiser == Optimiser.ADAGRAD:
                squared[row] = new_squared
        cosh, sinhc = _ONE, _ONE
        if settings.curved:
            cosh, sinhc = cosh_and_sinhc(factor * factor * squared_norm)
        if settings.optimiser == Optimiser.ADAM:
            # transport along its own geodesic turns the momentum with the geodesic's tangent
            turn = factor * squared_norm * sinhc if settings.curved else _ZERO
            for k in range(width):
                momentum[row, k] = cosh * gradients[slot, k] - turn * points[row, k]
        forward = sinhc * factor
        squared_space = _ZERO
        for k in range(width):
            moved = cosh * points[row, k] - forward * gradients[slot, k]
            points[row, k] = moved
            squared_space += moved * moved
        time = points[row, 0]
        settle(table, row, max(squared_space - time * time, _ZERO), settings, counters)


@inlined
def step_mass(table, row, gradient, settings):
    """One step of the mass of an item down this derivative of the loss: plain, or of a length that Adagrad chooses."""
    step = settings.mass_rate * gradient
    if settings.optimiser == Optimiser.ADAGRAD:
        table.mass_squared[row] += gradient * gradient
        step /= np.sqrt(table.mass_squared[row] + _TINY)
    table.masses[row] -= step
