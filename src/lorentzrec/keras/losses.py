"""Losses that compare the score of a positive with those of negatives, as `keras.losses.Loss`."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from lorentzrec.errors import InputError
from lorentzrec.keras.backend import Tensor

MASKED = -1e30
"""The score of a negative that does not count: below every real one, and finite."""
LEFT_OUT = -1e9
"""The same, times `scale`, for losses of the user: its square is finite, too."""


class RankingLoss(keras.losses.Loss):  # type: ignore[misc]
    """`y_pred` has the score of the positive in its first column and those of its negatives in the others; `y_true` is
    1 where a column counts and 0 where it does not, such as a negative that the customer has interacted with."""

    def __init__(self, scale: float = 1.0, reduction: str = "sum_over_batch_size", name: str | None = None) -> None:
        super().__init__(name=name, reduction=reduction)
        self.scale = scale

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if y_pred.shape[-1] is not None and y_pred.shape[-1] < 2:
            raise InputError("there are no negatives in y_pred: its columns are the positive and at least one negative")
        negatives = ops.where(y_true[..., 1:] > 0, y_pred[..., 1:], MASKED)
        return self.values(y_pred[..., 0], negatives)

    def values(self, positives: Tensor, negatives: Tensor, queries: Tensor | None = None) -> Tensor:
        """The loss of each positive against the row of `negatives` that `queries` names, or its own."""
        rows = negatives if queries is None else ops.take(negatives, queries, axis=0)
        return self.of_gaps(self.scale * (rows - positives[..., None]), rows > MASKED / 2)

    def of_gaps(self, gaps: Tensor, counted: Tensor) -> Tensor:
        """From scale (s_k - s_+), one row per positive. A loss defines this, or `values`."""
        raise TypeError(f"{type(self).__name__} defines neither of_gaps nor values: define one of them")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable("lorentzrec")
class SampledSoftmax(RankingLoss):
    """ln(1 + sum_k e^z_k), z_k = scale (s_k - s_+): minus the logarithm of the positive's share."""

    def values(self, positives: Tensor, negatives: Tensor, queries: Tensor | None = None) -> Tensor:
        total = ops.logsumexp(self.scale * negatives, axis=-1)  # once for all positives of a query
        if queries is not None:
            total = ops.take(total, queries, axis=0)
        return ops.softplus(total - self.scale * positives)


@keras.saving.register_keras_serializable("lorentzrec")
class BPR(RankingLoss):
    """mean_k ln(1 + e^z_k), z_k = scale (s_k - s_+)."""

    def of_gaps(self, gaps: Tensor, counted: Tensor) -> Tensor:
        count = ops.sum(ops.cast(counted, gaps.dtype), axis=-1)
        return ops.sum(ops.softplus(gaps), axis=-1) / ops.maximum(count, 1.0)


@keras.saving.register_keras_serializable("lorentzrec")
class WMRB(RankingLoss):
    """ln(1 + sum_k max(0, margin + z_k)), z_k = scale (s_k - s_+)."""

    def __init__(self, scale: float = 1.0, margin: float = 1.0, **options: Any) -> None:
        super().__init__(scale, **options)
        self.margin = margin

    def of_gaps(self, gaps: Tensor, counted: Tensor) -> Tensor:
        return ops.log1p(ops.sum(ops.relu(self.margin + gaps), axis=-1))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}
