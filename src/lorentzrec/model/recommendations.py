"""What `Model.recommend` and `Model.recommend_many` return: ids with scores, as lists and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.counting import Count
from lorentzrec.base.html import html_table
from lorentzrec.base.tabular import Tabular
from lorentzrec.points.fallbacks import Fallback, FallbackKind, render_fallbacks

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.vocabulary import Id
    from lorentzrec.points.reasons import Reason


@dataclass(frozen=True, eq=False)
class Recommendations(Tabular):
    """Item ids, best first, with their scores.

    Where they are not simply the best items for the query, `fallbacks` has the reasons, `fallback_kinds` their kinds,
    and `fallback` their text: words with a reason each, joined by "; ".
    """

    ids: list[Id]
    scores: NDArray[np.float32]
    fallbacks: tuple[Fallback, ...] = ()
    reasons: tuple[tuple[Reason, ...], ...] | None = None
    """For each item, the items of the history that contribute most to it; None unless requested."""

    @property
    def fallback(self) -> str | None:
        """`fallbacks` as text; None if there are none."""
        return render_fallbacks(self.fallbacks)

    @property
    def fallback_kinds(self) -> tuple[FallbackKind, ...]:
        return tuple(fallback.kind for fallback in self.fallbacks)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[Id, float]]:
        return zip(self.ids, self.scores.tolist(), strict=True)

    def __getitem__(self, position: int) -> tuple[Id, float]:
        return self.ids[position], float(self.scores[position])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recommendations):
            return NotImplemented
        same = (self.ids, self.fallbacks, self.reasons) == (other.ids, other.fallbacks, other.reasons)
        return same and np.array_equal(self.scores, other.scores)

    __hash__ = None  # type: ignore[assignment]  # lists and arrays have no hash

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame: rank (from 1), item, score, and with reasons a list in the column because."""
        return RecommendationBatch([self]).to_frame().drop("query")

    def _repr_html_(self) -> str:
        """The items as a table, in notebooks."""
        rows = [(rank, item, f"{score:.4f}") for rank, (item, score) in enumerate(self, 1)]
        title = f"{Count(len(self)):item|items}"
        return html_table(title, ("rank", "item", "score"), rows, [self.fallback] if self.fallback else [])


class RecommendationBatch(list[Recommendations], Tabular):
    """What `recommend_many` returns: a list with the recommendations of each query, in the order of the queries.

    As a table: `to_frame()`, `to_pandas()`, `to_csv()`, `write_parquet("recommendations.parquet")`.
    """

    def __init__(
        self, results: Iterable[Recommendations], users: list[Id] | None = None, queries: Sequence[Id] | None = None
    ) -> None:
        """`users`: their ids, if the queries were users. `queries`: names for other queries; numbers by default."""
        super().__init__(results)
        self.users = users
        self._queries = range(len(self)) if queries is None else queries

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame with a row per recommended item: user or query, rank, item, score.

        Queries are numbered from 0, unless they are items. With reasons there is also the column because.
        """
        import polars as pl

        lengths = [len(one) for one in self]
        queries = self._queries if self.users is None else self.users
        ranks = [rank for length in lengths for rank in range(1, length + 1)]
        frame = pl.DataFrame(
            {
                "query" if self.users is None else "user": [
                    query for query, length in zip(queries, lengths, strict=True) for _ in range(length)
                ],
                "rank": pl.Series(ranks, dtype=pl.Int64),
                "item": [item for one in self for item in one.ids],
                "score": np.concatenate([one.scores for one in self] or [np.empty(0, np.float32)]),
            }
        )
        if all(one.reasons is None for one in self):
            return frame
        lists = [[reason._asdict() for reason in reasons] for one in self for reasons in one.reasons or ()]
        kind = pl.List(
            pl.Struct({"item": frame["item"].dtype, "share": pl.Float64, "kind": pl.String, "bought": pl.Int64})
        )
        return frame.with_columns(pl.Series("because", lists, dtype=kind))
