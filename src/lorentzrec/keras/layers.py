"""Layers of hyperbolic models. A point of the hyperboloid is given by its d space coordinates."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from lorentzrec.errors import ConfigError, InputError
from lorentzrec.keras.backend import Tensor, concrete
from lorentzrec.keras.optimisers import mark_as_points
from lorentzrec.keras.points import find_scores, gaps, midpoints


class _Float32Layer(keras.layers.Layer):  # type: ignore[misc]
    """A layer of points, which refuses half precision."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self.compute_dtype != "float32" or self.variable_dtype != "float32":
            raise ConfigError(
                f"{type(self).__name__} has the dtype policy {self.dtype_policy.name}, and points of the hyperboloid "
                "need float32: give dtype='float32'"
            )


@keras.saving.register_keras_serializable("lorentzrec")
class HyperboloidEmbedding(_Float32Layer):
    """A point of the hyperboloid for each of `input_dim` ids: ids (...) -> points (..., output_dim).

    Train it with `RiemannianSGD` or `RiemannianAdagrad`; another optimiser moves the coordinates as ordinary numbers.

    mask_negative: ids below 0 are padding. They get the point 0 and are masked for the layers that follow.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = None,
        mask_negative: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.input_dim, self.output_dim, self.mask_negative = input_dim, output_dim, mask_negative
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer or keras.initializers.RandomUniform(-0.05, 0.05)
        )
        self.supports_masking = mask_negative

    def build(self, input_shape: Any = None) -> None:
        self.points = self.add_weight(
            shape=(self.input_dim, self.output_dim), initializer=self.embeddings_initializer, name="points"
        )
        mark_as_points(self.points)
        self.built = True

    def __call__(self, ids: Tensor, *args: Any, **options: Any) -> Any:
        self._refuse_unknown(ids)  # in `call`, Keras would put it among lines of its own
        return super().__call__(ids, *args, **options)

    def call(self, ids: Tensor) -> Tensor:
        ids = ops.cast(ids, "int32")
        if not self.mask_negative:
            return ops.take(self.points, ids, axis=0)
        known = ids >= 0
        found = ops.take(self.points, ops.where(known, ids, 0), axis=0)
        return found * ops.cast(known, found.dtype)[..., None]

    def _refuse_unknown(self, ids: Tensor) -> None:
        known = concrete(ids)
        if known is None or known.size == 0:
            return
        wrong = known >= self.input_dim
        if not self.mask_negative:
            wrong |= known < 0
        if wrong.any():
            last = self.input_dim - 1
            raise InputError(f"id {known[wrong][0]} is out of range: {type(self).__name__} has the ids 0 to {last}")

    def compute_mask(self, ids: Tensor, mask: Any = None) -> Any:
        return ids >= 0 if self.mask_negative else mask

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "mask_negative": self.mask_negative,
        }


@keras.saving.register_keras_serializable("lorentzrec")
class EinsteinMidpoint(_Float32Layer):
    """A history as one point: S / sqrt(-<S, S>) with S = sum_i w_i x_i, points (batch, length, d) -> (batch, d).

    recency: weight of a point per step back from the last one that is not masked; 1 weighs all equally.

    Call it with `weights` (batch, length) for events that weigh more or less, and with a `mask`, which
    `HyperboloidEmbedding(mask_negative=True)` passes on by itself.
    """

    def __init__(self, recency: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        if not 0 < recency <= 1:
            raise ConfigError(f"recency is {recency}: give a number above 0 and up to 1")
        self.recency = recency
        self.supports_masking = True

    def __call__(self, points: Tensor, *args: Any, mask: Any = None, **options: Any) -> Any:
        given = getattr(points, "_keras_mask", None) if mask is None else mask
        known = None if given is None else concrete(given)
        if known is not None and not known.any(axis=-1).all():
            empty = int((~known.any(axis=-1)).argmax())
            raise InputError(f"the history in row {empty} is empty or fully masked: give every history an item")
        return super().__call__(points, *args, mask=mask, **options)

    def call(self, points: Tensor, weights: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        present = ops.ones(ops.shape(points)[:-1], "bool") if mask is None else ops.cast(mask, "bool")
        counted = ops.cast(present, "float32")
        after = ops.sum(counted, axis=-1, keepdims=True) - ops.cumsum(counted, axis=-1)
        shares = counted * ops.power(self.recency, after)
        if weights is not None:
            shares = shares * ops.cast(weights, "float32")
        return midpoints(shares[..., None, :], points)[..., 0, :]

    def compute_mask(self, points: Tensor, mask: Any = None) -> None:
        return None

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape[:-2], input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "recency": self.recency}


class _Pairwise(_Float32Layer):
    """Queries (..., q, d) and points (..., n, d) -> (..., q, n)."""

    score = ""

    def call(self, inputs: Any) -> Tensor:
        queries, points = inputs
        return find_scores(gaps(queries, points), self.score)


@keras.saving.register_keras_serializable("lorentzrec")
class MinkowskiScore(_Pairwise):
    """<u, v> = -u0 v0 + u1 v1 + ... of each query u and point v: [(..., q, d), (..., n, d)] -> (..., q, n)."""

    score = "inner"


@keras.saving.register_keras_serializable("lorentzrec")
class LorentzDistance(_Pairwise):
    """d(u, v) = arccosh(-<u, v>) of each query u and point v: [(..., q, d), (..., n, d)] -> (..., q, n)."""

    score = "distance"

    def call(self, inputs: Any) -> Tensor:
        return -super().call(inputs)


@keras.saving.register_keras_serializable("lorentzrec")
class MinkowskiRetrieval(_Float32Layer):
    """The `k` points with the highest scores: [queries (batch, d), points (n, d)] -> {"items": (batch, k) rows of
    points, "scores": (batch, k)}, best first.

    score: "inner", <u, v>, or "distance", -d(u, v): the order is the same.
    """

    def __init__(self, k: int = 10, score: str = "distance", **options: Any) -> None:
        super().__init__(**options)
        if k < 1:
            raise ConfigError(f"k is {k}: give a whole number from 1")
        if score not in ("inner", "distance"):
            raise ConfigError(f"score is {score!r}: use inner or distance")
        self.k, self.score = k, score

    def call(self, inputs: Any) -> dict[str, Tensor]:
        queries, points = inputs
        nearest, rows = ops.top_k(-gaps(queries, points), min(self.k, points.shape[0]))
        return {"items": rows, "scores": find_scores(-nearest, self.score)}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "k": self.k, "score": self.score}
