"""The result of an evaluation: metrics with intervals, counts, and notes for the reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.html import html_table

if TYPE_CHECKING:
    import polars as pl

NOTES = {
    "users_left_out": "{users_left_out:,} customers of the test part were not evaluated, because `users` is smaller",
    "repeated_events": "{repeated_events:,} held-out events repeat an item of their customer: each item counts once",
    "unknown_items": "{unknown_items:,} held-out items are not known to the model: they count as misses",
    "untrained_items": "{untrained_items:,} held-out items have no training event: their scores are untrained",
    "in_history": "{in_history:,} held-out items are also in their customer's history: they are ranked anyway",
    "without_history": "{without_history:,} customers have no history: they are evaluated with an empty one",
    "unknown_history_events": "{unknown_history_events:,} history events are of items unknown to the model: ignored",
    "few_negatives": "{few_negatives:,} customers have fewer than {negatives} possible negatives: all were used",
}
"""Count -> what it means for the reader, if it is not 0."""


def render_counts(counts: dict[str, int]) -> tuple[str, ...]:
    """The notes for counts that are not 0."""
    return tuple(text.format(**counts) for name, text in NOTES.items() if counts.get(name))


class Metric(NamedTuple):
    """A mean over customers and the 95 % interval of that mean."""

    value: float
    low: float | None = None
    """None without intervals, and for coverage, which is not a mean over customers."""
    high: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.4f}" + (f" [{self.low:.4f}, {self.high:.4f}]" if self.low is not None else "")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The result of `evaluate`. `report["ndcg@10"]` is the value, `report.metrics["ndcg@10"]` also has its interval."""

    protocol: str
    """`full` or `sampled`: metrics of the two protocols cannot be compared."""
    metrics: dict[str, Metric]
    per_user: dict[str, NDArray[np.float64]]
    """Each metric for each customer, in the order of `users`, for paired tests."""
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

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame with a row per metric: metric, value, low, high."""
        import polars as pl

        rows = [(name, *metric) for name, metric in self.metrics.items()]
        kinds = {"metric": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
        return pl.DataFrame(rows, schema=kinds, orient="row")

    def _repr_html_(self) -> str:
        """The report as a table, in notebooks."""
        users, events = self.counts["users"], self.counts["events"]
        title = f"{self.protocol} ranking of {events:,} held-out items of {users:,} customers"
        return html_table(title, ("metric", "mean", "95 % interval"), self.to_table(), self.notes)

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
