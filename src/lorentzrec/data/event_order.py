"""What decides the order of a customer's events: random keys for equal times, numbers of orders, counts of ties."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

KEY_RANGE = 2**31 - 1
"""`random_key` gives whole numbers below this, a prime. They come from integer arithmetic, so that they are the same on
every engine, and for arrays as for expressions."""
_FACT = "of neighbouring events of a customer have equal times"
SHUFFLED = "shuffled: give `ties='given'` if the order of the rows is meaningful"
GIVEN = "in the given order"


def random_key(seed: int, *columns: Any) -> Any:
    """A whole number in [0, KEY_RANGE) per entry, the same for the same (seed, columns) on every engine.

    Each column is added to the key, which is then scaled and squared modulo a prime, twice. No product leaves 63 bits,
    so engines that wrap around and engines that refuse to overflow agree.
    """
    key: Any = (seed * 1_000_003 + 12_345) % KEY_RANGE
    for column in columns:
        key = (column + key) % KEY_RANGE
        for factor, constant in ((1_640_531_527, 748_932_582), (1_566_083_941, 362_436_069)):
            key = (key * factor + constant) % KEY_RANGE
            key = key * key % KEY_RANGE
    return key * 1_812_433_253 % KEY_RANGE


def order_key(seed: int, order_code: Any) -> Any:
    """The random number of an order, basket or invoice by its rank; `seed`: that of ties, from 0."""
    return random_key(-1 - seed, order_code)


def tie_key(user_key: Any, item_key: Any, time: Any, item_code: Any) -> Any:
    """A whole number per event, by which a customer's events of one time are in random order.

    `user_key`, `item_key`: the `random_key` of customer and item. `time`: microseconds. `item_code`: the rank of the
    item, which makes the order total. Whole orders of one time are shuffled in the same way, with key and rank of the
    order instead of the item. The key is a product modulo a prime, since it is computed for every event.
    """
    return (user_key + time) % KEY_RANGE * (item_key + 1) % KEY_RANGE * 2**31 + item_code


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


def describe_ties(share: float, order: str, *, orders_known: bool) -> str:
    """The note for this share of neighbouring events, of which `order` tells in which order they are."""
    percent = "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"
    if orders_known and order.startswith("shuffled"):
        order = order.replace("shuffled", "shuffled, with the events of an order together", 1)
    return f"{percent} {_FACT}, and are {order}"


def mentions_ties(notes: Iterable[str]) -> bool:
    """Whether one of the notes is that on equal times."""
    return any(_FACT in note for note in notes)
