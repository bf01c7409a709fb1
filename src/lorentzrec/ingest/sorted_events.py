"""Equal times and repeated rows in events that are sorted by customer and time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lorentzrec.counting import Count
from lorentzrec.data.ties import describe_ties

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.ingest.config import PrepareConfig


class Ties(NamedTuple):
    """How many events of a customer follow another one, how many have its time, and how many repeat an earlier row."""

    followers: int = 0
    tied: int = 0
    repeated: int = 0


NO_TIES = Ties()


def add_ties(several: Iterable[Ties]) -> Ties:
    """The counts of several files together."""
    return Ties(*map(sum, zip(NO_TIES, *several, strict=True)))


def count_ties(frame: pl.DataFrame) -> Ties:
    """The equal times and the repeated rows in sorted events; none without times."""
    import polars as pl

    if "time" not in frame.columns or len(frame) < 2:
        return NO_TIES
    users, times = frame["user_row"].to_numpy(), frame["time"].to_numpy()
    same = users[1:] == users[:-1]
    tied = same & (times[1:] == times[:-1])
    repeated = 0
    if tied.any():
        among = frame.filter(pl.Series(np.append(tied, False) | np.append(False, tied))).drop("part", strict=False)
        repeated = len(among) - len(among.unique())
    return Ties(int(same.sum()), int(tied.sum()), repeated)


def ties_notes(ties: Ties, config: PrepareConfig, columns: Collection[str]) -> list[str]:
    """What a reader should know about equal times and repeated rows; `columns`: those of the events."""
    notes, source = [], config.source
    if ties.tied and not source.ordered:
        order = "in the order of the file"
        if source.ties == "shuffle":
            order = "shuffled: give `ties='file'` if the order of the file is meaningful"
        notes.append(describe_ties(ties.tied / ties.followers, order, orders_known="order" in columns))
    if ties.repeated and config.duplicates == "keep":
        rows = f"{Count(ties.repeated):row repeats|rows repeat}"
        notes.append(f"{rows} another one, with the same user, item and time: drop them with `duplicates='exact'`")
    return notes
