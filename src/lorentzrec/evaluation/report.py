"""The result of an evaluation: numbers with intervals, what was counted on the way, and what a reader should know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError


class Metric(NamedTuple):
    """A mean over customers and the 95 % interval of that mean."""

    value: float
    low: float | None = None
    """None where no interval was asked for, and for coverage, which is no mean over customers."""
    high: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.4f}" + (f" [{self.low:.4f}, {self.high:.4f}]" if self.low is not None else "")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """What `evaluate` found. `report["ndcg@10"]` is the value, `report.metrics["ndcg@10"]` has its interval too."""

    protocol: str
    """`full` or `sampled`: numbers of one protocol say nothing about the other."""
    metrics: dict[str, Metric]
    per_user: dict[str, NDArray[np.float64]]
    """Each metric for each customer, in the order of `users`: what paired tests are made of."""
    users: Vocabulary
    """The customers who were evaluated."""
    counts: dict[str, int]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> float:
        if name not in self.metrics:
            raise InputError(f"the report has no metric {name!r}: it has {', '.join(self.metrics)}")
        return self.metrics[name].value

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; without the arrays per customer."""
        return {
            "protocol": self.protocol,
            "metrics": {name: metric._asdict() for name, metric in self.metrics.items()},
            "counts": dict(self.counts),
            "notes": list(self.notes),
        }

    def to_table(self) -> list[tuple[str, str, str]]:
        """Rows for a reader: metric, value, interval."""
        return [
            (name, f"{metric.value:.4f}", "" if metric.low is None else f"{metric.low:.4f} to {metric.high:.4f}")
            for name, metric in self.metrics.items()
        ]

    def __repr__(self) -> str:
        users, events = self.counts["users"], self.counts["events"]
        width = max(map(len, self.metrics))
        return "\n".join(
            [
                f"Report({self.protocol} ranking of {events:,} held-out items of {users:,} customers)",
                *(f"  {name:<{width}}  {metric}" for name, metric in self.metrics.items()),
                *(f"  note: {note}" for note in self.notes),
            ]
        )
