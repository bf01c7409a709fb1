"""One step of one point: gradient, tangent, exponential map; RSGD, Adagrad and Adam."""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import inlined, kernel
from lorentzrec.learning.kernels.numbers import cosh_and_sinhc
from lorentzrec.learning.kernels.structures import ADAGRAD, ADAM, BROKEN, CAPPED, CLIPPED
from lorentzrec.learning.limits import ADAM_DECAY, ADAM_EPSILON, ADAM_SQUARED_DECAY, MAXIMUM_RADIUS, MAXIMUM_STEP

f32 = np.float32
_ZERO, _ONE, _TWO = f32(0), f32(1), f32(2)
_LARGEST_STEP = f32(MAXIMUM_STEP)
_LARGEST_SPACE_SQUARED = f32(np.sinh(MAXIMUM_RADIUS) ** 2)
_TINY = f32(1e-30)
_LOG_DECAY, _LOG_SQUARED_DECAY = f32(np.log(ADAM_DECAY)), f32(np.log(ADAM_SQUARED_DECAY))


@inlined
def dot(x, y):
    """<x, y>: -x0 y0 + x1 y1 + ...; in flat space x0 and y0 are zero."""
    total = _ZERO
    for k in range(1, x.shape[0]):
        total += x[k] * y[k]
    return total - x[0] * y[0]


@inlined
def pull_to_origin(point, settings):
    """What the regularisation adds to a tangent gradient: this times the space coordinates. Penalty: regularisation *
    d(origin, x)^2."""
    if settings.regularisation == _ZERO:
        return _ZERO
    if not settings.curved:
        return _TWO * settings.regularisation
    sinh = np.sqrt(max(point[0] * point[0] - _ONE, _ZERO))
    # d / sinh d with d = asinh(|space|); its limit at the origin is 1
    ratio = np.log(sinh + point[0]) / sinh if sinh > f32(1e-3) else _ONE
    return _TWO * settings.regularisation * ratio * point[0]


@inlined
def step_factor(squared_norm, table, row, settings, counters):
    """What RSGD or Adagrad multiplies a tangent gradient of this squared length with, clipping and cap included and
    counted."""
    factor = settings.learning_rate
    if squared_norm > settings.clip_norm * settings.clip_norm:
        counters[CLIPPED] += 1
        shortening = settings.clip_norm / np.sqrt(squared_norm)
        factor *= shortening
        clipped_square = settings.clip_norm * settings.clip_norm
    else:
        clipped_square = squared_norm
    if settings.optimiser == ADAGRAD:
        table.squared[row] += clipped_square
        factor /= np.sqrt(table.squared[row] + _TINY)
    if factor * factor * squared_norm > _LARGEST_STEP * _LARGEST_STEP:
        counters[CAPPED] += 1
        factor = _LARGEST_STEP / np.sqrt(squared_norm)
    return factor


@inlined
def lift(point, squared_space, row, settings, counters):
    """Set the time coordinate from the space part; pull a point beyond the largest radius back onto it; notice what
    is not finite."""
    if not np.isfinite(squared_space):
        if counters[BROKEN] == 0:
            counters[BROKEN] = row + 1
        return
    if settings.curved:
        if squared_space > _LARGEST_SPACE_SQUARED:
            counters[CAPPED] += 1
            shrink = np.sqrt(_LARGEST_SPACE_SQUARED / squared_space)
            for k in range(1, point.shape[0]):
                point[k] *= shrink
            squared_space = _LARGEST_SPACE_SQUARED
        point[0] = np.sqrt(_ONE + squared_space)


@kernel
def row_step(table, row, gradient, settings, counters):
    """One step of one row down a gradient (the metric already applied), which is overwritten.

    The paper's three steps: h = g^-1 gradient (the caller's), h_t = h + <x, h> x, x' = Exp_x(-factor h_t). The
    tangent vector's time coordinate is recomputed from tangency, so that its length has a relative, not an absolute
    error far from the origin.
    """
    point = table.points[row]
    width = point.shape[0]
    along = dot(point, gradient) if settings.curved else _ZERO
    pull = pull_to_origin(point, settings)
    space = _ZERO
    time = _ZERO
    for k in range(1, width):
        gradient[k] += (along + pull) * point[k]
        space += gradient[k] * gradient[k]
        time += gradient[k] * point[k]
    squared_norm = max(space - time * time / (point[0] * point[0]), _ZERO) if settings.curved else space
    if settings.optimiser == ADAM:
        factor, squared_norm = _momentum_step(table, row, gradient, squared_norm, settings, counters)
    else:
        factor = step_factor(squared_norm, table, row, settings, counters)
    squared_step = factor * factor * squared_norm
    cosh, sinhc = cosh_and_sinhc(squared_step) if settings.curved else (_ONE, _ONE)
    squared_space = _ZERO
    for k in range(1, width):
        moved = cosh * point[k] - sinhc * factor * gradient[k]
        if settings.optimiser == ADAM:
            # the momentum is the direction of the step, so transport along it turns it with the geodesic's own tangent
            turned = cosh * gradient[k] - factor * squared_norm * sinhc * point[k] if settings.curved else gradient[k]
            table.momentum[row, k] = turned
        point[k] = moved
        squared_space += moved * moved
    lift(point, squared_space, row, settings, counters)


@inlined
def _momentum_step(table, row, gradient, squared_norm, settings, counters):
    """Adam: mix the gradient into the momentum (left in `gradient`), one squared length per row; the factor and the
    momentum's squared length."""
    point = table.points[row]
    momentum = table.momentum[row]
    shortening = _ONE
    if squared_norm > settings.clip_norm * settings.clip_norm:
        counters[CLIPPED] += 1
        shortening = settings.clip_norm / np.sqrt(squared_norm)
        squared_norm = settings.clip_norm * settings.clip_norm
    table.steps[row] += 1
    steps = f32(table.steps[row])
    table.squared[row] = f32(ADAM_SQUARED_DECAY) * table.squared[row] + f32(1 - ADAM_SQUARED_DECAY) * squared_norm
    space = _ZERO
    time = _ZERO
    for k in range(1, point.shape[0]):
        mixed = f32(ADAM_DECAY) * momentum[k] + f32(1 - ADAM_DECAY) * shortening * gradient[k]
        gradient[k] = mixed
        space += mixed * mixed
        time += mixed * point[k]
    squared_momentum = max(space - time * time / (point[0] * point[0]), _ZERO) if settings.curved else space
    unbiased_square = table.squared[row] / (_ONE - np.exp(steps * _LOG_SQUARED_DECAY))
    factor = (
        settings.learning_rate / (_ONE - np.exp(steps * _LOG_DECAY)) / (np.sqrt(unbiased_square) + f32(ADAM_EPSILON))
    )
    if factor * factor * squared_momentum > _LARGEST_STEP * _LARGEST_STEP:
        counters[CAPPED] += 1
        factor = _LARGEST_STEP / np.sqrt(squared_momentum)
    return factor, squared_momentum
