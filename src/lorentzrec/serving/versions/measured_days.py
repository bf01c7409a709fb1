"""What the daily job measured on the days before a version, which the manifest of the version keeps for the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from lorentzrec.base.field_checks import check_fields
from lorentzrec.base.manifest import Shape
from lorentzrec.errors import InputError

MOST_DAYS = 30


@dataclass(frozen=True, kw_only=True)
class MeasuredDay:
    """The version of that time on the new events of a day, before they were learned; None for what is not known."""

    time: float
    """When it was measured, in seconds since 1970."""
    ndcg: float | None = None
    """NDCG@10."""
    best_baseline: float | None = None
    """NDCG@10 of the best baseline."""
    coverage: float | None = None
    """The share of the items that are in a list of 10."""
    new_item_share: float | None = None
    """The share of the new events whose item the version did not know."""


_NAMES = tuple(field.name for field in fields(MeasuredDay))
DAYS_ENTRY: Shape = ([{name: float if name == "time" else (float, None) for name in _NAMES}], None)


def describe_days(days: Sequence[MeasuredDay]) -> list[dict[str, Any]]:
    """The entry of the manifest."""
    if len(days) > MOST_DAYS:
        raise InputError(f"{len(days)} days are too many for a version: give the last {MOST_DAYS}")
    for day in days:
        check_fields(day, error=InputError)
    return [asdict(day) for day in days]


def read_days(described: Iterable[dict[str, Any]] | None) -> list[MeasuredDay] | None:
    """The inverse of `describe_days`; None if no daily job has published the version."""
    if described is None:
        return None
    return [MeasuredDay(**{name: value for name, value in day.items() if name in _NAMES}) for day in described]
