"""Optimisers that move points of the hyperboloid along geodesics, and other variables as usual."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from lorentzrec.errors import ConfigError
from lorentzrec.keras.backend import BACKEND, Tensor, read_rows, write_rows
from lorentzrec.keras.points import find_time, riemannian
from lorentzrec.learning.engine import MAXIMUM_RADIUS, MAXIMUM_STEP

_LARGEST_SPACE = float(np.sinh(MAXIMUM_RADIUS))
_TINY = 1e-30


def mark_as_points(variable: Any) -> None:
    """Make a variable's rows points of the hyperboloid to the optimisers of this module."""
    variable.holds_hyperboloid_points = True


class RiemannianOptimiser(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Base of the optimisers: a step of each row that has a gradient, along the geodesic against it.

    clip_norm: longest Riemannian gradient of a row; longer ones are shortened. None: no limit.
    regularisation: times the squared distance to the origin, for every row that a step moves.

    A step is at most 1 long, and a point stays within a radius of 8, beyond which float32 cannot separate neighbours.
    What was shortened is counted in `clipped_gradients` and `capped_steps`.
    """

    def __init__(
        self,
        learning_rate: Any,
        clip_norm: float | None = None,
        regularisation: float = 0.0,
        name: str | None = None,
        **options: Any,
    ) -> None:
        if isinstance(learning_rate, int | float) and not (math.isfinite(learning_rate) and learning_rate >= 0):
            raise ConfigError(f"learning_rate is {learning_rate}: give a number from 0")
        if isinstance(learning_rate, int):
            learning_rate = float(learning_rate)
        super().__init__(learning_rate=learning_rate, name=name, **options)
        self.clip_norm, self.regularisation = clip_norm, regularisation

    def build(self, variables: list[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self._is_points = [getattr(variable, "holds_hyperboloid_points", False) for variable in variables]
        self.clipped_gradients = self.add_variable((), dtype="int32", name="clipped_gradients")
        self.capped_steps = self.add_variable((), dtype="int32", name="capped_steps")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Tensor) -> None:
        rate = ops.cast(learning_rate, variable.dtype)
        if not self._is_points[self._get_variable_index(variable)]:
            self.update_ordinary(gradient, variable, rate)
            return
        rows = None
        if BACKEND == "tensorflow" and hasattr(gradient, "indices"):
            import tensorflow as tf

            # Keras never adds up the parts of a row that was looked up several times
            rows, indices = tf.unique(gradient.indices)
            gradient = tf.math.unsorted_segment_sum(gradient.values, indices, tf.size(rows))
        self.step_rows(variable, rows, read_rows(variable, rows), gradient, rate)

    def step_rows(self, variable: Any, rows: Tensor | None, points: Tensor, gradients: Tensor, rate: Tensor) -> None:
        """Move some rows of a variable, whose values are `points`; None: all rows. Only these are read or written."""
        squared = self.find_squared(variable)
        sums = None if squared is None else read_rows(squared, rows)[:, None]
        moved, new_squared = self._step(points, sums, gradients, rate)
        write_rows(variable, rows, moved)
        if squared is not None:
            write_rows(squared, rows, new_squared[:, 0])

    def _step(self, points: Tensor, squared: Tensor | None, gradient: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        """The points after the step, and Adagrad's sums.

        x' = cosh(n) x - sinh(n) / n f h with the Riemannian gradient h, the factor f of the optimiser and n = f |h|.
        """
        if self.regularisation:
            size = ops.sqrt(ops.sum(points * points, axis=-1, keepdims=True))
            ratio = ops.where(size > 1e-3, ops.arcsinh(size) / ops.where(size > 1e-3, size, 1.0), 1.0)
            gradient = gradient + 2.0 * self.regularisation * ratio / find_time(points) * points
        tangent, squared_norm = riemannian(points, gradient)
        # a gradient that is not a number moves nothing, and is counted
        usable = ops.isfinite(squared_norm)
        squared_norm = ops.where(usable, squared_norm, 0.0)
        tangent = ops.where(usable, tangent, 0.0)
        moving = squared_norm > 0.0
        norm = ops.sqrt(ops.where(moving, squared_norm, 1.0))
        clipping = ops.ones_like(norm)
        if self.clip_norm is not None:
            clipping = ops.minimum(self.clip_norm / norm, 1.0)
        factor = ops.where(moving, rate * clipping, 0.0)
        if squared is not None:
            squared = squared + clipping * clipping * squared_norm
            factor = factor / ops.sqrt(squared + _TINY)
        allowed = ops.minimum(factor, MAXIMUM_STEP / norm)
        length = allowed * norm
        moved = ops.cosh(length) * points - ops.sinh(length) / norm * tangent
        size = ops.sqrt(ops.sum(moved * moved, axis=-1, keepdims=True))
        outside = size > _LARGEST_SPACE
        moved = ops.where(outside, moved * (_LARGEST_SPACE / ops.where(outside, size, 1.0)), moved)
        capped = _count(allowed < factor) + _count(outside) + _count(ops.logical_not(usable))
        self.assign_add(self.clipped_gradients, _count(moving & (clipping < 1.0)))
        self.assign_add(self.capped_steps, capped)
        return moved, squared

    def find_squared(self, variable: Any) -> Any:
        """Adagrad's sums of a variable that holds points, one number per row; None without."""
        return None

    def update_ordinary(self, gradient: Any, variable: Any, rate: Tensor) -> None:
        """The step of a variable that does not hold points."""
        self.assign_sub(variable, rate * gradient)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "clip_norm": self.clip_norm, "regularisation": self.regularisation}


@keras.saving.register_keras_serializable("lorentzrec")
class RiemannianSGD(RiemannianOptimiser):
    """x' = Exp_x(-rate h) for points; x' = x - rate g for other variables."""

    def __init__(self, learning_rate: Any = 0.05, **options: Any) -> None:
        super().__init__(learning_rate, **options)


@keras.saving.register_keras_serializable("lorentzrec")
class RiemannianAdagrad(RiemannianOptimiser):
    """G <- G + |h|^2, one number per row, and x' = Exp_x(-rate h / sqrt(G)) for points; Adagrad for other variables.

    epsilon: added to the sums of ordinary variables, as in `keras.optimizers.Adagrad`.
    """

    def __init__(self, learning_rate: Any = 0.3, epsilon: float = 1e-7, **options: Any) -> None:
        super().__init__(learning_rate, **options)
        self.epsilon = epsilon

    def build(self, variables: list[Any]) -> None:
        if self.built:
            return
        super().build(variables)
        self._sums = [
            self.add_variable(
                variable.shape[:1] if points else variable.shape, dtype=variable.dtype, name=f"squared_{i}"
            )
            for i, (variable, points) in enumerate(zip(variables, self._is_points, strict=True))
        ]

    def find_squared(self, variable: Any) -> Any:
        return self._sums[self._get_variable_index(variable)]

    def update_ordinary(self, gradient: Any, variable: Any, rate: Tensor) -> None:
        sums = self.find_squared(variable)
        gradient = ops.convert_to_tensor(gradient)
        self.assign_add(sums, ops.square(gradient))
        self.assign_sub(variable, rate * gradient / ops.sqrt(sums + self.epsilon))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "epsilon": self.epsilon}


def _count(flags: Tensor) -> Tensor:
    return ops.sum(ops.cast(flags, "int32"))
