"""Losses of one's own for the local engine: a function of scores with its derivatives, compiled and checked.

The kernels call a registered function by its address, so that they need not be compiled again for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.library_faults import first_line
from lorentzrec.errors import ConfigError
from lorentzrec.model.config import OWN

LossFunction = Callable[[NDArray[Any], NDArray[Any]], float]
STEP, TOLERANCE = 1e-6, 1e-4
TRIED = [(3, 1.0), (1, 1.0), (8, 3.0), (64, 0.3), (8, 20.0)]
"""Numbers of negatives, and how far the scores of the check are spread."""


class _Registered(NamedTuple):
    address: int
    compiled: Any
    """Holds the machine code at `address`."""


_LOSSES: dict[str, _Registered] = {}


def register_loss(name: str) -> Callable[[LossFunction], LossFunction]:
    """Register a loss of your own for this process, for `TrainingConfig(loss="own:NAME")`::

        @register_loss("hinge")
        def hinge(scores, derivatives):
            loss = 0.0
            for k in range(1, len(scores)):
                gap = 1 + scores[k] - scores[0]
                if gap > 0:
                    loss += gap
                    derivatives[k] += 1
                    derivatives[0] -= 1
            return loss

    The function gets the scores of a positive (first) and of its negatives, times `scale`, and returns the loss. It
    writes the derivatives by the scores, which are zeros before. Negatives that the customer has are left out before.
    numba compiles it, so it may use numbers, loops and NumPy. Its derivatives are compared with finite differences; if
    they differ, it is refused.

    A model keeps the name only. It recommends without the function; to train it further, register the function first.
    """

    def register(function: LossFunction) -> LossFunction:
        if not name.isidentifier():
            raise ConfigError(f"{name!r} cannot name a loss: use letters, digits and underscores")
        check_derivatives(name, function)
        _LOSSES[f"{OWN}{name}"] = _compile(name, function)
        return function

    return register


def find_address(loss: str) -> int:
    """Where the machine code of a registered loss is."""
    if loss not in _LOSSES:
        name = loss.removeprefix(OWN)
        raise ConfigError(f"loss is {loss!r}, and no loss {name!r} is registered: call register_loss({name!r}) first")
    return _LOSSES[loss].address


def check_derivatives(name: str, function: LossFunction) -> None:
    """Raise a `ConfigError` if a derivative differs from finite differences at random scores."""
    generator = np.random.default_rng(0)
    for negatives, spread in TRIED:
        scores = generator.normal(0, spread, negatives + 1)
        derivatives = np.zeros(len(scores))
        value = function(scores.copy(), derivatives)
        if not np.isfinite(value):
            raise ConfigError(f"the loss {name} is {value} at the scores {_shown(scores)}: return a number")
        for index in range(len(scores)):
            ahead, behind = scores.copy(), scores.copy()
            ahead[index] += STEP
            behind[index] -= STEP
            unused = np.zeros((2, len(scores)))
            expected = (function(ahead, unused[0]) - function(behind, unused[1])) / (2 * STEP)
            if not abs(derivatives[index] - expected) <= TOLERANCE * max(1.0, abs(expected)):
                raise ConfigError(
                    f"the loss {name} writes the derivative {derivatives[index]:.6g} by score {index} at the scores "
                    f"{_shown(scores)}, where finite differences give {expected:.6g}: correct derivatives[{index}]"
                )


def _compile(name: str, function: LossFunction) -> _Registered:
    numba: Any = import_module("numba")  # which has no types for what is used here
    carray, types = numba.carray, numba.types
    inner = numba.njit(error_model="numpy")(function)
    floats = types.CPointer(types.float32)

    def call(scores: Any, derivatives: Any, count: Any) -> Any:
        return inner(carray(scores, (count,)), carray(derivatives, (count,)))

    try:
        made = numba.cfunc(types.float32(floats, floats, types.int64), error_model="numpy")(call)
    except numba.core.errors.NumbaError as error:
        raise ConfigError(f"numba cannot compile the loss {name}: {first_line(error)}") from error
    return _Registered(int(made.address), made)


def _shown(scores: NDArray[np.float64]) -> str:
    shown = ", ".join(f"{score:.4g}" for score in scores[:4])
    return f"[{shown}{', ...' if len(scores) > 4 else ''}]"
