"""The reality check of a model: what it is worth next to methods that need no training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from lorentzrec.base.counting import Count
from lorentzrec.base.field_checks import check_fields

if TYPE_CHECKING:
    from lorentzrec.model.model import Model

OURS = "this model"
_LARGER = "try more epochs or a larger dimension, or let `lorentzrec tune` search for better settings"
ADVICE = {
    "popularity": _LARGER,
    "recent-popularity": "train on the last months only, and update the model every day",
    "own-frequency": "customers buy the same items again, so show them what they bought most often as well",
    "item-knn": _LARGER,
}
"""Baseline -> what to try if a model loses to it."""


@dataclass(frozen=True, kw_only=True)
class CheckedSystem:
    """One row of a check: the model, or a baseline."""

    name: str
    ndcg: float
    """NDCG@10, the mean over customers."""
    recall: float
    """Recall@10, the mean over customers."""
    difference: float | None = None
    """The NDCG of the model minus that of this baseline; None for the model itself."""
    standard_error: float | None = None
    """Of the difference, over customers."""
    significant: bool = False
    """Whether the difference is more than two standard errors."""

    @property
    def ahead(self) -> bool:
        """Whether this baseline is significantly better than the model."""
        return self.significant and self.difference is not None and self.difference < 0


@dataclass(frozen=True, kw_only=True)
class RealityCheck:
    """The model next to baselines, on events that neither the points nor any choice of a setting has seen."""

    rows: tuple[CheckedSystem, ...]
    """The model first."""
    customers: int
    candidates: Literal["unseen", "all"]
    """What all of them ranked: the items that are not in the history, or, where customers buy again, all items."""
    events: Literal["held-out", "new"] = "held-out"
    """`held-out`: the events were held out from training. `new`: they are the new events of an update, which the model
    had not seen before it was updated."""

    def __post_init__(self) -> None:
        if len(self.rows) < 2 or self.rows[0].name != OURS:
            raise TypeError("a reality check has the model first, and a baseline")

    @property
    def ours(self) -> CheckedSystem:
        return self.rows[0]

    @property
    def baselines(self) -> tuple[CheckedSystem, ...]:
        return self.rows[1:]

    @property
    def lost_to(self) -> tuple[CheckedSystem, ...]:
        """The baselines that are significantly better than the model, the best one first."""
        return tuple(sorted((row for row in self.baselines if row.ahead), key=lambda row: -row.ndcg))

    @property
    def basis(self) -> str:
        """What the numbers are measured on."""
        before = ", before the update" if self.events == "new" else ""
        return f"{self.events} events of {Count(self.customers):customer|customers}{before}"

    def __str__(self) -> str:
        """The result in one sentence."""
        ours = f"NDCG@10 {self.ours.ndcg:.4f}"
        if self.lost_to:
            others = " and ".join(f"{row.name} ({row.ndcg:.4f})" for row in self.lost_to)
            return f"this model loses to {others} with {ours} on {self.basis}: {ADVICE[self.lost_to[0].name]}"
        best = max(self.baselines, key=lambda row: row.ndcg)
        verdict = "is ahead of" if best.significant else "is level with"
        return f"this model {verdict} the best baseline, {best.name} ({best.ndcg:.4f}), with {ours} on {self.basis}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"rows": [asdict(row) for row in self.rows]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RealityCheck:
        """The inverse of `to_dict`; a missing or unknown name, or a value of another type, is a TypeError."""
        rows = tuple(CheckedSystem(**row) for row in values["rows"])
        check = cls(**{**values, "rows": rows})
        for part in (check, *rows):
            check_fields(part, error=TypeError)
        return check


def describe_check(model: Model) -> str:
    """The first line about a model: the result of its check, or why it has none and how to check it."""
    if model.check is not None:
        return str(model.check)
    config = model.config
    if model.parent is not None:
        reason, action = "it continues another model", "use update with new events of 100 customers or more"
    elif config.memory != "none":
        reason, action = "training was interrupted or has too few customers", "finish it, or train on more customers"
    elif config.model == "symmetric":
        reason, action = "symmetric models hold no events out", "give a validation part"
    else:
        reason, action = "no events were held out with memory=none", "set memory=auto, or give a validation part"
    evaluate = "run `lorentzrec evaluate --baselines` on a dataset that was prepared with --split"
    return f"this model was not checked against popularity, since {reason}: {action}, or {evaluate}"
