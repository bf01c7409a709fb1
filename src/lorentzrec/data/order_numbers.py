"""Orders, baskets and invoices as one number per event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl


def number_orders(frame: pl.DataFrame) -> NDArray[np.int32]:
    """A number for each of the sorted events, equal for events of one order of a customer: 0, 1, ... as they begin.

    `frame`: user_row, `order` as text, and `time` if it is known. Events without an order are one order if their times
    are equal.
    """
    import polars as pl

    owners = frame["user_row"].to_numpy()
    codes = frame["order"].replace("", None).rank("dense").cast(pl.Int64).fill_null(0).to_numpy().copy()
    starts = np.diff(owners, prepend=-1) != 0
    if (codes == 0).any():
        later = starts.copy()
        if "time" in frame.columns:
            times = frame["time"].to_numpy()
            later |= np.diff(times, prepend=times[:1]) != 0
        else:
            later[:] = True
        codes = np.where(codes == 0, -np.cumsum(later), codes)
    changes = starts | (np.diff(codes, prepend=codes[:1]) != 0)
    runs = np.cumsum(changes) - 1
    # An order whose events are apart has several runs: all of them get the number of the first.
    known = pl.DataFrame({"owner": owners[changes], "code": codes[changes], "run": np.arange(changes.sum())})
    first = known.select(pl.col("run").min().over("owner", "code")).to_series().to_numpy()
    numbers = (np.cumsum(first == np.arange(len(first))) - 1)[first][runs]
    begins = np.flatnonzero(starts)
    lengths = np.diff(np.append(begins, len(codes)))
    found: NDArray[np.int32] = (numbers - np.repeat(numbers[begins], lengths)).astype(np.int32)
    return found
