"""The ranking task of an evaluation: for each customer a history, and the items to find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast, get_args

import numpy as np

from lorentzrec.data.arrays import Booleans, Integers, gather_groups, make_offsets
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import ConfigError, InputError

Candidates = Literal["unseen", "all", "new", "repeats"]
"""What is ranked, and what is to be found in it.

unseen: items that are not in the history, and every held-out item: where nobody buys again.
all: every item: the next order, of which a part is bought again.
new: items that are not in the history; held-out items of the history are not to be found.
repeats: items of the history; other held-out items are not to be found.
"""
CELLS_PER_BLOCK = 4_000_000
"""Scores in memory at a time: 16 MB of float32, for any number of items."""


def check_candidates(name: str) -> Candidates:
    """The name; an error if there are no such candidates."""
    for known in get_args(Candidates):
        if name == known:
            return cast(Candidates, known)
    raise ConfigError(f"there are no candidates {name!r}: use {', '.join(get_args(Candidates))}")


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Customers with at least one held-out event; item rows are the model's. Repeated events are one item to find."""

    users: Vocabulary
    histories: Interactions
    history_rows: Integers
    """The row of each customer in `histories`."""
    offsets: Integers
    """The known items to find for user row u are `item_rows[offsets[u]:offsets[u + 1]]`."""
    item_rows: Integers
    positives: Integers
    """Number of items to find for each customer, including those unknown to the model."""
    counts: dict[str, int]
    candidates: Candidates = "unseen"

    def blocks(self) -> Iterator[Integers]:
        """All user rows in blocks whose scores of all items fit into `CELLS_PER_BLOCK`."""
        size = max(1, min(512, CELLS_PER_BLOCK // len(self.histories.items)))
        for start in range(0, len(self.users), size):
            yield np.arange(start, min(start + size, len(self.users)))

    def histories_of(self, user_rows: Integers) -> tuple[Integers, Integers]:
        """The histories as flat arrays: index into `user_rows`, and item row."""
        indices, events = gather_groups(self.histories.offsets, self.history_rows[user_rows])
        return indices, self.histories.item_rows[events].astype(np.int64)

    def positives_of(self, user_rows: Integers) -> tuple[Integers, Integers]:
        """The known held-out items as flat arrays: index into `user_rows`, and item row."""
        indices, events = gather_groups(self.offsets, user_rows)
        return indices, self.item_rows[events]


def hold_out(
    test: Interactions,
    histories: Interactions,
    items: Vocabulary,
    item_counts: Integers,
    sample: int | None,
    seed: int,
    candidates: Candidates = "unseen",
) -> HeldOut:
    """Convert `test` and `histories` to the rows of a model with these `items`, and count everything that does not fit.

    If only some events of `test` are targets, only these are to be found. With the candidates "new" and "repeats",
    customers are left out who have nothing to find; an item that is unknown to the model is new to its customer.
    `sample`: number of customers to choose at random; None: all.
    """
    if test.labels is not None:
        test = test.select(test.labels)
    test_user_rows = np.flatnonzero(test.lengths)
    if len(test_user_rows) == 0:
        raise InputError("the test part has no target: hold out at least one")
    left_out = 0 if sample is None else max(0, len(test_user_rows) - sample)
    if left_out:
        test_user_rows = np.sort(np.random.default_rng(seed).choice(test_user_rows, sample, replace=False))
    owners, events = gather_groups(test.offsets, test_user_rows)
    pairs = np.unique(owners * len(test.items) + test.item_rows[events])
    owners, test_item_rows = np.divmod(pairs, len(test.items))
    positives = np.bincount(owners)

    item_rows = test_item_rows if test.items == items else items.rows(test.items.series)[test_item_rows]
    known = item_rows != UNKNOWN
    if not known.any():
        raise InputError(
            f"the model knows none of the {len(np.unique(test_item_rows)):,} held-out items (it has {items!r}, "
            f"the test {test.items!r}): evaluate on events of the items it was trained on"
        )
    owners, item_rows = owners[known], item_rows[known]

    users = Vocabulary(test.users.series.gather(test_user_rows), name="user")
    history_events = len(histories)
    histories = reindex(histories, histories.users.union(users), items)
    history_rows = histories.users.rows(users.series)
    empty = histories.lengths[history_rows] == 0
    if empty.all():
        raise InputError(
            f"none of the {len(empty):,} test customers has a history (the test has {test.users!r}, the histories "
            f"{histories.users!r}): pass their earlier events as histories="
        )
    indices, events = gather_groups(histories.offsets, history_rows)
    seen = np.isin(owners * len(items) + item_rows, indices * len(items) + histories.item_rows[events])
    counts = {
        "users": len(test_user_rows),
        "events": len(pairs),
        "users_left_out": left_out,
        "repeated_events": int(test.lengths[test_user_rows].sum()) - len(pairs),
        "unknown_items": int((~known).sum()),
        "untrained_items": int((item_counts[item_rows] == 0).sum()),
        "in_history": int(seen.sum()),
        "without_history": int(empty.sum()),
        "unknown_history_events": history_events - len(histories),
    }
    if candidates in ("new", "repeats"):
        wanted = seen == (candidates == "repeats")
        known_count = np.bincount(owners, minlength=len(users))
        owners, item_rows = owners[wanted], item_rows[wanted]
        positives = np.bincount(owners, minlength=len(users)) + (positives - known_count) * (candidates == "new")
        users, history_rows, owners, positives = _keep_customers(positives > 0, users, history_rows, owners, positives)
        counts |= {"users": len(users), "events": int(positives.sum())}
        counts |= {"unknown_items": counts["unknown_items"] * (candidates == "new"), "in_history": 0}
    return HeldOut(
        users=users,
        histories=histories,
        history_rows=history_rows,
        offsets=make_offsets(np.bincount(owners, minlength=len(users))),
        item_rows=item_rows,
        positives=positives,
        counts=counts,
        candidates=candidates,
    )


def _keep_customers(
    keep: Booleans, users: Vocabulary, history_rows: Integers, owners: Integers, positives: Integers
) -> tuple[Vocabulary, Integers, Integers, Integers]:
    """The customers where `keep` is true; all `owners` are among them."""
    if not keep.any():
        raise InputError("no customer has such items to find: use the candidates all, or more test events")
    rows = np.flatnonzero(keep)
    numbers = np.cumsum(keep) - 1
    users = Vocabulary(users.series.gather(rows), name="user")
    return users, history_rows[rows], numbers[owners], positives[rows]
