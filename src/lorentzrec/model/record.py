"""The record of one epoch of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lorentzrec.base.field_checks import check_fields, check_value


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """Numbers of one epoch. Everything that training shortened is counted here."""

    epoch: int
    """The first is 1."""
    loss: float
    """Mean over the events that were trained on."""
    learning_rate: float
    clipped_gradients: int
    """Gradients longer than `clip_norm`, shortened to it."""
    capped_steps: int
    """Steps longer than the safety length, shortened to it."""
    seconds: float
    events_per_second: float
    validation: dict[str, float] | None = None
    """Metrics on the held-out events of this run, where some were held out."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> EpochRecord:
        """The inverse of `to_dict`; a missing or unknown name, or a value of another type, is a TypeError."""
        record = cls(**values)
        check_fields(record, error=TypeError)
        if not isinstance(record.validation, dict | None):
            raise TypeError("the validation of an epoch is not an object")
        for name, value in (record.validation or {}).items():
            check_value(name, value, float, error=TypeError)
        return record
