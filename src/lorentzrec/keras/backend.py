"""What Keras has no operation for, on each of its back ends: gradients by a few tensors, rows of a variable written in
place, and float64 inside a graph."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from lorentzrec.errors import ConfigError

BACKEND: str = keras.backend.backend()

if BACKEND not in ("tensorflow", "jax", "torch"):
    raise ConfigError(
        f"lorentzrec.keras does not run on the Keras back end {BACKEND!r}: "
        "set KERAS_BACKEND to tensorflow, jax or torch before keras is imported"
    )

Tensor = Any


def float64() -> AbstractContextManager[Any]:
    """Within the block, casts to float64 are what they say: JAX makes them float32 by default."""
    if BACKEND != "jax":
        return nullcontext()
    import jax

    return jax.enable_x64(True)  # type: ignore[no-any-return]


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """`keras.ops.custom_gradient`, left out where PyTorch exports a model: ONNX has no functions with gradients."""
    differentiable: Callable[..., Any] = keras.ops.custom_gradient(function)
    if BACKEND != "torch":
        return differentiable
    import torch

    def call(*args: Any) -> Any:
        exporting = torch.jit.is_tracing() or torch.compiler.is_exporting()
        tensors = [keras.ops.convert_to_tensor(argument) for argument in args]
        return function(*tensors)[0] if exporting or not torch.is_grad_enabled() else differentiable(*tensors)

    return call


def value_and_gradients(
    function: Callable[[list[Tensor]], Tensor], tensors: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """The value of a function, and its gradients by each of the tensors."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(tensors)
            value = function(tensors)
        return value, [tf.convert_to_tensor(gradient) for gradient in tape.gradient(value, tensors)]
    if BACKEND == "jax":
        import jax

        return jax.value_and_grad(function)(tensors)  # type: ignore[no-any-return]
    import torch

    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        value = function(leaves)
        gradients = torch.autograd.grad(value, leaves)
    return value.detach(), list(gradients)


def read_rows(variable: Any, rows: Tensor | None) -> Tensor:
    """Some rows of a variable; None: all. TensorFlow would copy a variable that is read as a whole when it is next
    written."""
    if rows is None:
        return keras.ops.convert_to_tensor(variable)
    if BACKEND != "tensorflow":
        return keras.ops.take(variable, rows, axis=0)
    import tensorflow as tf

    return tf.gather(variable.value if isinstance(variable, keras.Variable) else variable, rows)


def write_rows(variable: Any, rows: Tensor | None, values: Tensor) -> None:
    """Set distinct rows of a variable, without a copy of it: JAX updates in place what a jitted step donates. None: all
    rows.

    A spare row that pads `rows` may repeat.
    """
    if rows is None:
        variable.assign(values)
    elif BACKEND == "tensorflow":
        raw = variable.value if isinstance(variable, keras.Variable) else variable
        raw.scatter_nd_update(keras.ops.expand_dims(rows, 1), values)
    elif BACKEND == "jax":
        variable.assign(variable.value.at[rows].set(values))
    else:
        import torch

        with torch.no_grad():
            raw = variable.value if isinstance(variable, keras.Variable) else variable
            raw.index_copy_(0, rows.long(), values)


def concrete(tensor: Any) -> NDArray[Any] | None:
    """The numbers of a tensor, or None while a graph is traced and there are none."""
    if isinstance(tensor, keras.KerasTensor):
        return None
    try:
        return np.asarray(keras.ops.convert_to_numpy(tensor))
    except (NotImplementedError, TypeError, ValueError):  # of the back end, whichever it is
        return None
