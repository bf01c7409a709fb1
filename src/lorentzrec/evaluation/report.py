"""The result of an evaluation: metrics with intervals, counts, and notes for the reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.counting import Count, with_counts
from lorentzrec.base.html import html_table
from lorentzrec.base.tabular import TableText, TabularReport
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

NOTES = {
    "users_left_out": "{users_left_out:customer|customers} of the test part not evaluated, because `users` is smaller",
    "repeated_events": "{repeated_events:held-out event repeats|held-out events repeat} an item: each item counts once",
    "unknown_items": "{unknown_items:held-out item is|held-out items are} not known to the model: counted as misses",
    "untrained_items": "{untrained_items:held-out item has|held-out items have} no training event: untrained scores",
    "in_history": "{in_history:held-out item is|held-out items are} also in their customer's history: ranked anyway",
    "without_history": "{without_history:customer has|customers have} no history: evaluated with an empty one",
    "unknown_history_events": "{unknown_history_events:history event is|history events are} of unknown items: ignored",
    "few_negatives": "{few_negatives:customer has|customers have} fewer than {negatives} possible negatives: all used",
}
"""Count -> what it means for the reader, if it is not 0."""


def render_counts(counts: dict[str, int]) -> tuple[str, ...]:
    """The notes for counts that are not 0."""
    return tuple(with_counts(text, counts) for name, text in NOTES.items() if counts.get(name))


class Metric(NamedTuple):
    """A mean over customers and the 95 % interval of that mean."""

    value: float
    low: float | None = None
    """None without intervals, and for coverage, which is not a mean over customers."""
    high: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.4f}" + (f" [{self.low:.4f}, {self.high:.4f}]" if self.low is not None else "")


@dataclass(frozen=True, eq=False, repr=False)
class Report(TabularReport):
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

    def to_text(self) -> TableText:
        """The table that `to_markdown` and `to_latex` write."""
        return TableText(("metric", "mean", "95 % interval"), self.to_table())

    def _repr_html_(self) -> str:
        """The report as a table, in notebooks."""
        return html_table(self._title, ("metric", "mean", "95 % interval"), self.to_table(), self.notes)

    def to_table(self) -> list[tuple[str, str, str]]:
        """Rows for a reader: metric, value, interval."""
        return [
            (name, f"{metric.value:.4f}", "" if metric.low is None else f"{metric.low:.4f} to {metric.high:.4f}")
            for name, metric in self.metrics.items()
        ]

    @property
    def _title(self) -> str:
        items = f"{Count(self.counts['events']):held-out item|held-out items}"
        return f"{self.protocol} ranking of {items} of {Count(self.counts['users']):customer|customers}"

    def __repr__(self) -> str:
        width = max(map(len, self.metrics))
        return "\n".join(
            [
                f"Report({self._title})",
                *(f"  {name:<{width}}  {metric}" for name, metric in self.metrics.items()),
                *(f"  note: {note}" for note in self.notes),
            ]
        )
