"""Who interacted with what, when: the histories of all customers, one after another in flat arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.counting import Count
from lorentzrec.base.tabular import to_pandas
from lorentzrec.data.arrays import Booleans, Integers, gather_groups, spans_within, update_digest
from lorentzrec.data.arrays import make_offsets as make_offsets
from lorentzrec.data.event_order import GIVEN, SHUFFLED, describe_ties, number_orders, order_key, random_key, tie_key
from lorentzrec.data.frames import polars_series
from lorentzrec.data.readers import find_reader
from lorentzrec.data.times import MICROSECONDS, TimeUnit, convert_to_seconds
from lorentzrec.data.vocabulary import Id, Vocabulary, id_series
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    import polars as pl


EVENTS_AT_ONCE = 1_000_000
"""Events of consecutive customers that are counted at a time."""


class Histories(NamedTuple):
    """Histories of some customers, oldest event first: the g-th is `items[offsets[g]:offsets[g + 1]]`."""

    items: NDArray[np.int32]
    offsets: Integers
    weights: NDArray[np.float32] | None
    times: NDArray[np.int64] | NDArray[np.float64] | None = None
    order_ages: NDArray[np.int32] | None = None
    """How many orders each event is back from the newest order of its history; None if every event is an order."""

    @property
    def for_queries(self) -> tuple[Any, ...]:
        """What `Points.queries` needs."""
        return self.items, self.offsets, self.weights, self.order_ages

    @property
    def for_boosts(self) -> tuple[Any, ...]:
        """What memory and repeats need."""
        return self.items, self.offsets, self.weights, self.times

    @property
    def ages(self) -> Integers:
        """How many steps each event is back from the newest of its history."""
        ends: Integers = np.repeat(self.offsets[1:], np.diff(self.offsets))
        return ends - 1 - np.arange(len(self.items))


@dataclass(frozen=True, eq=False)
class Interactions:
    """Events grouped by customer: user row u owns `item_rows[offsets[u]:offsets[u + 1]]`, oldest first.

    With `times`, the events of a customer are in the order of time. Equal times are shuffled (where orders are known,
    the orders, and the events within each), unless the order of the input was declared to be meaningful. Without times
    there is no order: events are sorted by item id, and anything that would use an order adds a note. Repeated pairs
    are repeated events. The parts of a split share both vocabularies, so that a row means the same in each.
    """

    users: Vocabulary
    items: Vocabulary
    offsets: Integers
    item_rows: NDArray[np.int32]
    times: NDArray[np.int64] | NDArray[np.float64] | None = None
    """Unix seconds of each event, if known."""
    weights: NDArray[np.float32] | None = None
    """Finite; None if every event has weight 1. A negative weight is a dislike, of which only recommendations know."""
    labels: Booleans | None = None
    """Which events are targets, such as purchases among views; None: all of them. Histories hold every event."""
    orders: NDArray[np.int32] | None = None
    """Equal numbers are one order (a basket, an invoice) of a customer; None if orders are not known."""
    ties_given: bool = False
    """Whether events with equal times are in the order of the input, which was declared to be meaningful."""
    deliveries: tuple[str, ...] = ()
    """Digests of the deliveries of the dataset that these events are from; empty if they are from elsewhere."""
    notes: tuple[str, ...] = field(default=())
    """What a reader of results should know about these data, one sentence each."""

    def __post_init__(self) -> None:
        _check_arrays(self)

    @classmethod
    def from_pairs(
        cls,
        users: Any,
        items: Any,
        times: Any = None,
        weights: Any = None,
        labels: Any = None,
        orders: Any = None,
        *,
        time_unit: TimeUnit = "auto",
        time_format: str | None = None,
        ties: Literal["shuffle", "given"] = "shuffle",
        tie_seed: int = 0,
    ) -> Interactions:
        """Events as parallel columns: lists, NumPy arrays, polars or pandas series.

        `times` are unix seconds (other units with `time_unit`), dates, datetimes, or text: ISO 8601, or of the form
        `time_format`. A customer's events with equal times are shuffled by `tie_seed`, or, with `ties="given"`, in the
        order of the columns. `weights` multiply an event's share of the midpoint and its loss. `labels` are true for
        events that are targets: training predicts only these, from all events before them. `orders` are the ids of
        orders, baskets or invoices, equal for what was bought together. The rows of both vocabularies are numbered
        from the most frequent id to the rarest, ties by id.
        """
        import polars as pl

        columns = {"user": id_series(users, "user"), "item": id_series(items, "item")}
        if times is not None:
            columns["time"] = convert_to_seconds(_series(times, "time"), unit=time_unit, time_format=time_format)
        if weights is not None:
            columns["weight"] = _weight_series(_series(weights, "weight"))
        if labels is not None:
            columns["label"] = _label_series(_series(labels, "label"))
        if orders is not None:
            columns["order"] = id_series(orders, "order").cast(pl.String)
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns differ in length ({lengths}): give one value per event in each")
        if lengths["user"] == 0:
            raise InputError("there are no events: give at least one (user, item) pair")
        if ties not in ("shuffle", "given") or (ties == "given" and times is None):
            raise ConfigError(f"ties is {ties!r}: use shuffle, or given if there are times")
        events, vocabularies = pl.DataFrame(columns), {}
        for role in ("user", "item"):
            counts = events[role].value_counts(name="count").sort("count", role, descending=[True, False])
            rows = pl.Series(f"{role}_row", np.arange(len(counts), dtype=np.int32))
            events = events.join(counts.select(role, rows), on=role, maintain_order="left")
            vocabularies[role] = Vocabulary(counts[role], name=role)
        given = ties == "given"
        if times is not None and not given:
            events = events.with_columns(**_tie_keys(events, vocabularies, tie_seed))
        within = ["time"] if given else ["time", "order_tie", "tie"] if times is not None else ["order", "item"]
        # As in the preparation of files: weights and labels decide between events that are otherwise equal.
        within += [] if given else ["weight", "label"]
        events = events.sort(["user_row", *(name for name in within if name in events.columns)], maintain_order=True)
        if orders is not None:
            events = events.with_columns(order=pl.Series(number_orders(events)))
        data = cls.from_sorted(vocabularies["user"], vocabularies["item"], events, ties_given=given)
        return replace(data, notes=(data.ties_note,)) if data.tied_share else data

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        user: str | int | None = None,
        item: str | int | None = None,
        time: str | int | None = None,
        weight: str | int | None = None,
        order: str | int | None = None,
        kind: str | int | None = None,
        **options: Any,
    ) -> Interactions:
        """Events of a pandas, Polars or pyarrow data frame, one per row; the arguments are the names of its columns.

        Columns that are not named are recognised as `from_file` recognises them, by names and values; `notes` lists
        what was recognised, what is not used and which rows were left out. `time=""`, `order=""` and `quantity=""`
        leave these columns out. `options`: time_unit, time_format, ties ("shuffle" or "given"), tie_seed, ordered, the
        columns rating and quantity, and the filters of `from_file` (minimum_rating, event_weights, label_events, since,
        until, duplicates, ...).
        """
        names = {"user": user, "item": item, "time": time, "weight": weight, "order": order, "kind": kind}
        return find_reader("from_frame")(
            frame, {role: name for role, name in names.items() if name is not None}, options
        )

    @classmethod
    def from_sorted(
        cls,
        users: Vocabulary,
        items: Vocabulary,
        events: pl.DataFrame,
        notes: tuple[str, ...] = (),
        *,
        ties_given: bool = False,
    ) -> Interactions:
        """Events sorted by `user_row`, with `item_row` and, where known, `time`, `weight`, `label` and `order`."""
        names = [name for name in ("time", "weight", "label", "order") if name in events.columns]
        known: dict[str, Any] = {f"{name}s": events[name].to_numpy() for name in names}
        # Finding a million borders in sorted rows is quicker than counting tens of millions of rows.
        offsets = np.searchsorted(events["user_row"].to_numpy(), np.arange(len(users) + 1, dtype=np.int32))
        known |= {"ties_given": ties_given, "notes": notes}
        return cls(users, items, offsets, events["item_row"].to_numpy(), **known)

    @classmethod
    def from_csr(cls, user_items: Any, user_ids: Any = None, item_ids: Any = None) -> Interactions:
        """A SciPy sparse matrix, customers in rows and items in columns, as implicit takes it; values become weights.

        Ids are the row and column numbers unless given, in that order. A matrix has no order in time.
        """
        from scipy import sparse

        if not sparse.issparse(user_items):
            raise InputError(f"from_csr takes a SciPy sparse matrix, not {type(user_items).__name__}: use from_pairs")
        matrix: Any = user_items.tocsr(copy=True)  # type: ignore[attr-defined]
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if matrix.nnz == 0:
            raise InputError("the matrix holds no entry: give at least one event")
        users, items = (
            Vocabulary.numbered(count, name=name) if ids is None else Vocabulary(ids, name=name)
            for count, name, ids in zip(matrix.shape, ("user", "item"), (user_ids, item_ids), strict=True)
        )
        if (len(users), len(items)) != matrix.shape:
            raise InputError(
                f"{len(users)} user ids and {len(items)} item ids for a matrix of {matrix.shape}: give one for each"
            )
        weights = _matrix_weights(matrix)
        return cls(
            users=users,
            items=items,
            offsets=matrix.indptr.astype(np.int64),
            item_rows=matrix.indices.astype(np.int32),
            weights=None if (weights == 1).all() else weights,
        )

    @classmethod
    def from_file(
        cls, path: str | Path | Sequence[str | Path], reader: str | None = None, **options: Any
    ) -> Interactions:
        """Events of a file, folder or pattern, or of several: CSV, JSON lines, Parquet, Arrow or Excel, local or
        `az://`, `s3://`.

        `reader` names a known layout ("movielens-1m", "amazon-reviews", ...). `options` describe the files: they are
        the fields of `ingest.sources.Source` (user_column, item_column, time_column, order_column, separator,
        encoding, time_format, ties, ...); or they choose events, and are those of `ingest.config.PrepareConfig`
        (on_error, minimum_rating, event_weights, since, until, bot_events, duplicates, minimum_user_events, k_core,
        ...). The result is that of `lorentzrec prepare` with the same options; `notes` lists what was recognised and
        left out.
        """
        return find_reader("from_file")([path] if isinstance(path, str | Path) else path, reader, **options)

    @classmethod
    def from_dataset(cls, path: str | Path, part: str | None = None) -> Interactions:
        """Events of a dataset folder, local or remote: those of one part of its split, by name, or all."""
        return find_reader("from_dataset")(path, part)

    def __len__(self) -> int:
        return len(self.item_rows)

    def __repr__(self) -> str:
        order = "in time order" if self.ordered else "without order"
        events, users, items = map(Count, (len(self), (self.lengths > 0).sum(), (self.item_counts > 0).sum()))
        counts = f"{events:event|events} of {users:user|users} with {items:item|items}"
        return f"Interactions({counts}, {order})"

    @property
    def ordered(self) -> bool:
        """Whether there are times, so that "last" and "next" mean something."""
        return self.times is not None

    @property
    def lengths(self) -> Integers:
        """Events of each user row."""
        return np.diff(self.offsets)

    @cached_property
    def user_rows(self) -> NDArray[np.int32]:
        """The user row of each event."""
        return np.repeat(np.arange(len(self.users), dtype=np.int32), self.lengths)

    @cached_property
    def item_counts(self) -> Integers:
        """Events of each item row."""
        return np.bincount(self.item_rows, minlength=len(self.items)).astype(np.int64)

    @cached_property
    def order_positions(self) -> NDArray[np.int32]:
        """The position of each event's order among the orders of its customer: 0 for the oldest.

        Events of one order share `orders`; where these are not known, they share the time. Events are orders of their
        own if there are no times, or if equal times were declared to be a sequence.
        """
        changes = np.ones(len(self), bool)
        if self.orders is not None:
            changes[1:] = self.orders[1:] != self.orders[:-1]
        elif self.times is not None and not self.ties_given:
            changes[1:] = self.times[1:] != self.times[:-1]
        firsts = self.offsets[:-1][self.lengths > 0]
        changes[firsts] = True
        runs: NDArray[Any] = np.cumsum(changes, dtype=np.int32 if len(self) < 2**31 else np.int64)
        runs -= 1
        if self.orders is not None:
            runs = _number_of_first_run(self.user_rows, self.orders, changes).astype(runs.dtype)[runs]
        runs -= np.repeat(runs[firsts], self.lengths[self.lengths > 0])
        return runs.astype(np.int32, copy=False)

    @property
    def first_purchases(self) -> Booleans:
        """Which events have an item that the customer has in no earlier order."""
        pairs = self.user_rows.astype(np.int64) * len(self.items) + self.item_rows
        _, numbers = np.unique(pairs, return_inverse=True)
        first = np.full(len(self), len(self), np.int64)
        np.minimum.at(first, numbers, self.order_positions)
        found: Booleans = self.order_positions == first[numbers]
        return found

    def with_orders_together(self) -> Interactions:
        """The same events with those of an order one after another, even where the times of orders overlap."""
        if ((self.order_positions[1:] >= self.order_positions[:-1]) | ~self._same_user).all():
            return self
        return self.take(np.lexsort((self.order_positions, self.user_rows)), self.lengths)

    @cached_property
    def in_orders(self) -> bool:
        """Whether at least half of the events have an order with several events. Without times there are no orders."""
        if not self.ordered or len(self) == 0:
            return False
        several = 0
        for first, last in self.spans_of_customers():
            positions = self.order_positions[slice(*self.offsets[[first, last]])]
            owners = np.repeat(self.offsets[first:last] - self.offsets[first], self.lengths[first:last])
            sizes = np.bincount(owners + positions)  # no two customers share a number
            several += int(sizes[sizes > 1].sum())
        return several >= 0.5 * len(self)

    def spans_of_customers(self) -> Iterator[tuple[int, int]]:
        """All customers in spans of consecutive ones with a million events, for what needs memory for each event."""
        return spans_within(self.lengths, EVENTS_AT_ONCE)

    @cached_property
    def order_ages(self) -> NDArray[np.int32] | None:
        """How many orders each event is back from the newest of its customer; None if every event is an order."""
        positions, filled = self.order_positions, self.lengths > 0
        if not self.ordered or len(self) == 0 or not (self._same_user & (positions[1:] - positions[:-1] != 1)).any():
            return None
        newest = np.maximum.reduceat(positions, self.offsets[:-1][filled])
        ages = np.repeat(newest, self.lengths[filled])
        ages -= positions
        return ages

    @cached_property
    def tied_share(self) -> float:
        """Of all pairs of consecutive events of one customer, the share with equal times."""
        neighbours = int(self._same_user.sum())
        return float(self._tied.sum() / neighbours) if neighbours else 0.0

    @property
    def ties_note(self) -> str:
        """A sentence on the events with equal times, if there are any."""
        return describe_ties(
            self.tied_share, GIVEN if self.ties_given else SHUFFLED, orders_known=self.orders is not None
        )

    @property
    def _same_user(self) -> Booleans:
        """For each event but the last, whether the next is of the same customer."""
        same: Booleans = self.user_rows[1:] == self.user_rows[:-1]
        return same

    @property
    def _tied(self) -> Booleans:
        """For each event but the last, whether the next is of the same customer and has the same time."""
        same = self._same_user
        return np.zeros_like(same) if self.times is None else same & (np.diff(self.times) == 0)

    def history(self, user_row: int) -> NDArray[np.int32]:
        """The item rows of one customer, oldest first."""
        return self.item_rows[self.offsets[user_row] : self.offsets[user_row + 1]]

    def histories_of(self, user_rows: Integers) -> Histories:
        """The histories of some customers, one after another."""
        events = gather_groups(self.offsets, user_rows)[1]
        lengths = self.offsets[user_rows + 1] - self.offsets[user_rows]  # faster than those of all customers
        columns = self.weights, self.times, self.order_ages
        chosen = (None if column is None else column[events] for column in columns)
        return Histories(self.item_rows[events], make_offsets(lengths), *chosen)  # type: ignore[arg-type]

    def history_ids(self, user: Id) -> list[Id]:
        """The item ids of one customer, oldest first."""
        row = self.users.row(user)
        if row < 0:
            raise InputError(f"the user {user!r} is not in these data: check the id")
        return self.items.ids(self.history(row))

    def event_columns(self) -> dict[str, NDArray[Any]]:
        """The arrays with one entry per event, by field name, where known."""
        names = ("item_rows", "times", "weights", "labels", "orders")
        columns = {name: getattr(self, name) for name in names}
        return {name: values for name, values in columns.items() if values is not None}

    def to_frame(self, *, rows: bool = False) -> pl.DataFrame:
        """A row per event: user, item, and time, weight, label and order where known.

        rows: the rows of users and items, as user_row and item_row, instead of their ids; see `from_sorted`.
        """
        import polars as pl

        columns = {"user_row": self.user_rows, **self.event_columns()}
        frame = pl.DataFrame({name.removesuffix("s"): values for name, values in columns.items()})
        if rows:
            return frame
        ids = [self.users.series.gather(self.user_rows), self.items.series.gather(self.item_rows)]
        frame = frame.with_columns(user_row=ids[0], item_row=ids[1])
        return frame.rename({"user_row": "user", "item_row": "item"})

    def to_pandas(self) -> Any:
        """`to_frame` as a pandas frame."""
        return to_pandas(self.to_frame())

    def select(self, keep: Booleans, *, notes: tuple[str, ...] = ()) -> Interactions:
        """The events where `keep` is true, with the same vocabularies."""
        lengths = np.bincount(self.user_rows[keep], minlength=len(self.users))
        return self.take(keep, lengths, notes=self.notes + notes)

    def of_customers(self, user_rows: NDArray[np.integer[Any]]) -> Interactions:
        """The events of some customers; the others have none."""
        chosen = np.unique(user_rows)
        lengths = np.zeros(len(self.users), np.int64)
        lengths[chosen] = self.offsets[chosen + 1] - self.offsets[chosen]
        return self.take(gather_groups(self.offsets, chosen)[1], lengths)

    def take(self, events: Integers | Booleans, lengths: Integers, **changes: Any) -> Interactions:
        """These events, in histories of these lengths; `changes`: other fields that are to differ."""
        taken: dict[str, Any] = {name: values[events] for name, values in self.event_columns().items()}
        return replace(self, offsets=make_offsets(lengths), **(taken | changes))

    def split(self, how: str = "leave_last_out", **options: Any) -> tuple[Interactions, ...]:
        """Training part first, then validation where there is one, then test; names and options in `data.splitting`."""
        from lorentzrec.data.splitting import split

        return split(self, how, **options)

    def to_csr(self) -> Any:
        """A SciPy sparse matrix of summed weights, users in rows and items in columns."""
        from scipy import sparse

        values = np.ones(len(self), np.float32) if self.weights is None else self.weights
        # Copies, because summing duplicates writes into all three.
        parts = (values.copy(), self.item_rows.copy(), self.offsets.copy())
        matrix = sparse.csr_array(parts, shape=(len(self.users), len(self.items)))
        matrix.sum_duplicates()
        return matrix

    def incidence(self, user_rows: Integers | None = None) -> Any:
        """A SciPy sparse matrix with all or some users in rows, and items in columns: 1 where there is an event."""
        from scipy import sparse

        if user_rows is None:
            indices, offsets = self.item_rows.copy(), self.offsets.copy()
        else:
            indices = self.item_rows[gather_groups(self.offsets, user_rows)[1]]
            offsets = make_offsets(self.offsets[user_rows + 1] - self.offsets[user_rows])
        entries = np.ones(len(indices), np.float32), indices, offsets
        matrix = sparse.csr_array(entries, (len(offsets) - 1, len(self.items)))
        matrix.sum_duplicates()  # in place, in the copies
        matrix.data[:] = 1
        return matrix

    @cached_property
    def digest(self) -> str:
        """A hash of the content: ids, and events in order with their times, weights, labels and orders."""
        digest = hashlib.sha256()
        self.users.update_digest(digest)
        self.items.update_digest(digest)
        update_digest(digest, [self.offsets, *self.event_columns().values()])
        return digest.hexdigest()


def _number_of_first_run(user_rows: NDArray[np.int32], orders: NDArray[np.int32], changes: Booleans) -> Integers:
    """For each run of equal orders, a number: an order whose events are apart has several runs and one number."""
    pairs = user_rows[changes].astype(np.int64) << 32 | orders[changes]
    first = np.unique(pairs, return_index=True, return_inverse=True)
    first_run = first[1][first[2]]
    is_first = first_run == np.arange(len(pairs))
    numbers: Integers = (np.cumsum(is_first) - 1)[first_run]
    return numbers


def check_is_interactions(data: object, function: str) -> None:
    """Raise an `InputError` that names how to make interactions of `data`, unless it is interactions already."""
    if isinstance(data, Interactions):
        return
    kind = type(data).__name__
    if isinstance(data, str | Path):
        how = "Interactions.from_file(...) for event files, or Interactions.from_dataset(...) for a dataset"
    elif hasattr(data, "tocsr"):
        how = "Interactions.from_csr(matrix)"
    elif hasattr(data, "columns"):
        how = 'Interactions.from_frame(frame, user="user", item="item", time="time")'
    elif isinstance(data, tuple):
        how = "one part of a split, such as the first"
    else:
        how = "Interactions.from_pairs(users, items, times)"
    raise InputError(f"{function} takes Interactions, not {kind}: give {how}")


def _check_arrays(data: Interactions) -> None:
    """Compiled code reads and writes at these rows, so none may be out of range, wherever the arrays come from."""
    offsets, rows = data.offsets, data.item_rows
    if offsets.dtype.kind not in "iu" or offsets.shape != (len(data.users) + 1,):
        raise InputError(f"offsets are {offsets.dtype}{list(offsets.shape)}: give an integer per user, and the total")
    if rows.dtype.kind not in "iu" or rows.ndim != 1:
        raise InputError(f"item rows are {rows.dtype}{list(rows.shape)}: give an integer per event")
    if offsets[0] != 0 or offsets[-1] != len(rows) or (offsets[1:] < offsets[:-1]).any():
        raise InputError(f"offsets do not divide {len(rows):,} events among the users: let them increase from 0 to it")
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(data.items)):
        event = int(((rows < 0) | (rows >= len(data.items))).argmax())
        raise InputError(f"the item row of event {event + 1} is {rows[event]}: there are {len(data.items):,} items")
    for name, column in data.event_columns().items():
        if column.shape != rows.shape:
            raise InputError(f"{name} have the shape {list(column.shape)}: give one per event, {len(rows):,}")
    if data.weights is not None and not (usable := (data.weights != 0) & np.isfinite(data.weights)).all():
        event = int(usable.argmin())
        raise InputError(f"the weight of event {event + 1} is {data.weights[event]}: weights are finite and not 0")


def _tie_keys(events: pl.DataFrame, vocabularies: dict[str, Vocabulary], seed: int) -> dict[str, NDArray[np.int64]]:
    """What orders events with equal times, as in the preparation of files."""
    codes, found = {}, {}
    for role, vocabulary in vocabularies.items():
        ranks = np.empty(len(vocabulary), np.int64)
        ranks[vocabulary.series.arg_sort().to_numpy()] = np.arange(len(vocabulary))
        codes[role] = ranks
    times = np.rint(events["time"].to_numpy() * float(MICROSECONDS)).astype(np.int64)
    users, items = events["user_row"].to_numpy(), events["item_row"].to_numpy()
    user_keys, item_keys = random_key(2 * seed, codes["user"])[users], random_key(2 * seed + 1, codes["item"])[items]
    if "order" in events.columns:
        orders = events["order"].rank("dense").to_numpy().astype(np.int64) - 1
        found["order_tie"] = tie_key(user_keys, order_key(seed, orders), times, orders)
    return found | {"tie": tie_key(user_keys, item_keys, times, codes["item"][items])}


def _weight_series(series: pl.Series) -> pl.Series:
    import polars as pl

    if not series.dtype.is_numeric():
        raise InputError(f"weights are of type {series.dtype}: give positive numbers")
    series = series.cast(pl.Float32)
    wrong = ~((series > 0) & series.is_finite())
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise InputError(
            f"the weight in row {row + 1} is {series[row]}: weights are positive float32 numbers, drop or fix the row"
        )
    return series


def _label_series(series: pl.Series) -> pl.Series:
    import polars as pl

    if series.dtype != pl.Boolean:
        raise InputError(f"labels are of type {series.dtype}: give true or false per event")
    if not series.any():
        raise InputError("no event is a target: label at least one")
    return series


def _matrix_weights(matrix: Any) -> NDArray[np.float32]:
    """The entries of a CSR matrix as weights; true counts as 1."""
    if matrix.data.dtype.kind not in "biuf":
        raise InputError(f"the entries of the matrix are {matrix.data.dtype}: give positive numbers, or booleans")
    weights: NDArray[np.float32] = matrix.data.astype(np.float32)
    wrong = np.flatnonzero(~((weights > 0) & np.isfinite(weights)))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        raise InputError(
            f"the entry in row {row}, column {matrix.indices[wrong[0]]} of the matrix is {matrix.data[wrong[0]]}: "
            "entries are positive and finite, drop or fix it"
        )
    return weights


def _series(values: Any, name: str) -> pl.Series:
    """A column of numbers, times or booleans without missing values."""
    import polars as pl

    series = polars_series(values, f"the {name}s", "give one number per event")
    missing = series.is_null()
    if series.dtype.is_float():
        missing |= ~series.fill_null(0.0).is_finite()
    elif series.dtype == pl.String:
        missing |= (series == "").fill_null(True)
    if missing.any():
        row = int(missing.arg_true()[0])
        raise InputError(
            f"the {name} in row {row + 1} is {series[row]!r}: every event needs a finite {name}, drop or fix the row"
        )
    return series
