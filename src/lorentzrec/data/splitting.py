"""Splits of events into training, validation and test parts: the rules, for arrays and for data frames.

A rule decides on each event by its user, its position in the customer's history, the length of that history and its
time. Rules use operators only, so that the same code runs on NumPy arrays (`split`) and, as expressions, on the data
frames of the pipeline, on any engine. Random choices come from `random_key`, integer arithmetic with the same result
everywhere.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lorentzrec.base.counting import Count
from lorentzrec.data.arrays import Booleans, Integers, make_offsets
from lorentzrec.data.event_order import KEY_RANGE, random_key
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import concatenate, reindex
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import ConfigError, InputError

LATER_ORDERS = "orders after the first one that is held out, or of customers first seen after training ends"


@dataclass(frozen=True)
class EventColumns:
    """What a rule may use: one entry per event, as arrays or as expressions of a data frame."""

    user_row: Any
    position: Any
    """0 for the customer's oldest event. Where only some events are targets, positions count targets: see `split`."""
    length: Any
    """Number of positions of the customer: that of their events, unless only some are targets."""
    ordered: bool
    time: Any = None
    first_time: Any = None
    """Time of the customer's oldest event."""
    last_time: float | None = None
    """Time of the newest event of all, one number."""
    order: OrderColumns | None = None
    """Given to rules that need it."""


@dataclass(frozen=True)
class OrderColumns:
    """What a rule may use of the order of each event."""

    position: Any
    """0 for the customer's oldest order."""
    count: Any
    """Number of orders of the customer."""
    time: Any = None
    """When the order began."""
    time_before: Any = None
    """The time of the customer's last event before the order; less than all times for the oldest order."""


@dataclass(frozen=True)
class Rule:
    """A way to split: the parts it makes in addition to training, and which events belong to each."""

    parts: tuple[str, ...]
    masks: Callable[..., dict[str, Any]]
    """Part name -> true where the event belongs to it; the rest is training. `left_out` belongs to no part."""
    needs_times: bool = False
    needs_orders: bool = False
    last_event_rule: bool = False
    """Whether "last" means "one at random" on data without times."""


def _held_position(events: EventColumns, seed: int) -> Any:
    """The position that "last" means: the end, or a random one if there is no order."""
    return events.length - 1 if events.ordered else random_key(seed, events.user_row) % events.length


def _leave_last_out(events: EventColumns, *, seed: int = 0) -> dict[str, Any]:
    return {"test": (events.position == _held_position(events, seed)) & (events.length >= 2)}


def _leave_last_two(events: EventColumns, *, seed: int = 0) -> dict[str, Any]:
    test_position = _held_position(events, seed)
    if events.ordered:
        validation_position = test_position - 1
    else:
        # Any other position: 1 to length - 1 steps around the history; the last term keeps length 1 from dividing by 0.
        others = events.length - 1 + 1 // events.length
        validation_position = (test_position + 1 + random_key(seed + 1, events.user_row) % others) % events.length
    enough = events.length >= 3
    return {
        "validation": (events.position == validation_position) & enough,
        "test": (events.position == test_position) & enough,
    }


def _last_days(events: EventColumns, *, days: float = 7) -> dict[str, Any]:
    start = _find_start("last_days", events.last_time, days)
    late = events.time > start
    known = events.first_time <= start
    return {"test": late & known, "left_out": late & ~known}


def _find_start(how: str, last_time: float | None, days: float) -> float:
    """When training ends and the test begins."""
    if not days > 0 or not math.isfinite(days):
        raise ConfigError(f"{how}: days is {days}: give a positive number of days")
    assert last_time is not None
    return last_time - days * SECONDS_PER_DAY


def find_training_end(how: str | None, options: Mapping[str, Any], last_time: float) -> float | None:
    """The time of the last possible training event of a split by time; None for other splits.

    `last_time`: that of the newest event of all.
    """
    if how not in RULES or "days" not in (known := inspect.signature(RULES[how].masks).parameters):
        return None
    return _find_start(how, last_time, options.get("days", known["days"].default))


def _leave_last_order_out(events: EventColumns) -> dict[str, Any]:
    assert events.order is not None
    return {"test": (events.order.position == events.order.count - 1) & (events.order.count >= 2)}


def _next_order(events: EventColumns, *, days: float = 21) -> dict[str, Any]:
    start = _find_start("next_order", events.last_time, days)
    assert events.order is not None
    late = events.order.time > start
    first_late = late & (events.order.time_before <= start) & (events.order.position > 0)
    return {"test": first_late, "left_out": late & ~first_late}


def _random(events: EventColumns, *, ratio: float = 0.2, seed: int = 0) -> dict[str, Any]:
    _check_share("random", "ratio", ratio)
    chosen = random_key(seed, events.user_row, events.position) < int(ratio * KEY_RANGE)
    protected = random_key(seed + 1, events.user_row) % events.length
    return {"test": chosen & (events.position != protected)}


def _folds(events: EventColumns, *, count: int = 5, fold: int = 0, seed: int = 0) -> dict[str, Any]:
    if not 2 <= count < math.inf or count != int(count):
        raise ConfigError(f"folds: count is {count}: give a whole number of at least 2")
    if fold not in range(int(count)):
        raise ConfigError(f"folds: fold is {fold}: give a whole number from 0 to {int(count) - 1}")
    turn = (events.position + random_key(seed, events.user_row) % int(count)) % int(count)
    # Where only some events are targets, the others may have no position.
    return {"test": (turn == int(fold)) & (events.length >= 2) & (events.position >= 0)}


def _held_out_customers(events: EventColumns, *, share: float = 0.1, seed: int = 0) -> dict[str, Any]:
    _check_share("held_out_customers", "share", share)
    held_out = (random_key(seed, events.user_row) < int(share * KEY_RANGE)) & (events.length >= 2)
    last = events.position == _held_position(events, seed + 1)
    return {"history": held_out & ~last, "test": held_out & last}


RULES = {
    "leave_last_out": Rule(("test",), _leave_last_out, last_event_rule=True),
    "leave_last_two": Rule(("validation", "test"), _leave_last_two, last_event_rule=True),
    "last_days": Rule(("test",), _last_days, needs_times=True),
    "leave_last_order_out": Rule(("test",), _leave_last_order_out, needs_times=True, needs_orders=True),
    "next_order": Rule(("test",), _next_order, needs_times=True, needs_orders=True),
    "random": Rule(("test",), _random),
    "folds": Rule(("test",), _folds),
    "held_out_customers": Rule(("history", "test"), _held_out_customers, last_event_rule=True),
}
"""Splits by name, except `given`, which takes its test part from outside."""
BUILT_IN = frozenset(RULES)


def register_split(
    name: str, parts: tuple[str, ...] = ("test",), *, needs_times: bool = False
) -> Callable[[Callable[..., dict[str, Any]]], Callable[..., dict[str, Any]]]:
    """Register a split of your own for this process, for `Interactions.split(NAME, option=...)`::

        @register_split("every_third", needs_times=True)
        def every_third(events, *, first=2):
            return {"test": events.position % 3 == first}

    The function gets `EventColumns`: `user_row`, `position` in the history, `length` of the history, `time`,
    `first_time` of the customer and `last_time` of all events, as arrays with one entry per event. It gives a mask for
    each of `parts`; the part "left_out" belongs to none. Everything else is training. Its keyword arguments are the
    options of the split.
    """

    def register(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        if name in BUILT_IN or name == "given":
            raise ConfigError(f"{name} is a split of lorentzrec: give another name")
        if parts[-1:] != ("test",):
            raise ConfigError(f"the parts are {parts}: the last one has to be 'test'")
        RULES[name] = Rule(parts, function, needs_times=needs_times)
        return function

    return register


def find_rule(how: str, options: Mapping[str, Any], *, ordered: bool) -> Rule:
    """The rule of that name; an error if it does not have these options, or needs times and there are none."""
    if how not in RULES:
        raise ConfigError(f"there is no split {how!r}: use one of {', '.join([*RULES, 'given'])}")
    rule = RULES[how]
    known = [*inspect.signature(rule.masks).parameters][1:]
    for name in options:
        if name not in known:
            raise ConfigError(f"the split {how} has no option {name!r}: use {', '.join([*known, 'drop_unseen_items'])}")
    if rule.needs_times and not ordered:
        raise InputError(f"the split {how} needs times and these events have none: give times, or use the split random")
    return rule


def split(
    interactions: Interactions, how: str = "leave_last_out", *, drop_unseen_items: bool = False, **options: Any
) -> tuple[Interactions, ...]:
    """Parts of `interactions` that share its vocabularies: training first, test last.

    | how | parts | options |
    |---|---|---|
    | leave_last_out | train, test: the last event of everyone with two or more | seed |
    | leave_last_two | train, validation, test: the last two events of everyone with three or more | seed |
    | last_days | train, test: the events of the last days before the newest event of all | days=7 |
    | leave_last_order_out | train, test: all events of the last order of everyone with two or more orders | |
    | next_order | train, test: events before the last `days`, and the first order of each known customer after that; \
later orders are left out | days=21 |
    | random | train, test: about `ratio` of the events, at random; one of each customer stays in training, so it is \
less of short histories | ratio=0.2, seed |
    | folds | train, test: fold `fold` of `count`; the events of everyone with two or more go to the folds in turn, \
beginning with a random one, so each of them is in one test | count=5, fold=0, seed |
    | held_out_customers | train, history, test: about `share` of the customers are left out of training; `history` is \
all but their last event, `test` that event: can the model serve customers it has never seen? | share=0.1, seed |
    | given | train, test: all of `interactions`, and other events | test |

    Where only some events are targets (`Interactions.labels`), "last" means the last target, and every other event
    belongs to the part of the last target before it: events after a held-out purchase are never trained on. Evaluation
    uses only the targets of a part.

    Except for held-out customers, everyone in test keeps a training event: customers with too few events stay entirely
    in training. With last_days, customers first seen within those days are left out of both parts, since training on
    them would look into the future. Without times, "last" is one event per customer at random, by `seed`. With
    `drop_unseen_items`, events of the later parts whose item has no training event are removed (the paper's rule). All
    of this is counted in the parts' `notes`.
    """
    if how == "given":
        parts, names, notes = _split_given(interactions, **options)
    else:
        rule = find_rule(how, options, ordered=interactions.ordered)
        columns = _list_columns(interactions)
        if rule.needs_orders:
            columns = replace(columns, order=_order_columns(interactions))
        masks = rule.masks(columns, **options)
        names = rule.parts
        _check_masks(how, names, masks, len(interactions))
        elsewhere = np.logical_or.reduce(list(masks.values()))
        parts = [interactions.select(~elsewhere), *(interactions.select(masks[name]) for name in names)]
        notes = _notes(interactions, how, rule, columns, masks)
    if drop_unseen_items:
        seen = parts[0].item_counts > 0
        for number, name in enumerate(names, 1):
            keep = seen[parts[number].item_rows]
            notes.append(unseen_note(name, int((~keep).sum())))
            parts[number] = parts[number].select(keep)
    for name, part in zip(["train", *names], parts, strict=True):
        if len(part) == 0:
            raise InputError(f"the split {how} leaves the {name} part without events: use another split, or more data")
    return tuple(replace(part, notes=part.notes + tuple(notes)) for part in parts)


def _check_masks(how: str, names: tuple[str, ...], masks: Mapping[str, Any], count: int) -> None:
    """Raise a `ConfigError` unless there is one mask per part, and no event is in two of them."""
    allowed = {*names, "left_out"}
    if not set(names) <= set(masks) <= allowed:
        raise ConfigError(f"the split {how} gives masks for {', '.join(masks)}: give them for {', '.join(names)}")
    for name, mask in masks.items():
        if getattr(mask, "shape", None) != (count,) or mask.dtype != np.bool_:
            raise ConfigError(f"the split {how}: the mask of {name} is not an array of {count} booleans")
    if len(masks) > 1 and np.add.reduce([mask.astype(np.int8) for mask in masks.values()]).max(initial=0) > 1:
        raise ConfigError(f"the split {how} puts an event into two parts: let the masks not overlap")


def before_test(parts: Mapping[str, Interactions]) -> Interactions:
    """The histories that the test part continues: the part `history` if there is one, else `events_to_train_on`."""
    return parts["history"] if "history" in parts else events_to_train_on(parts)


def events_to_train_on(parts: Mapping[str, Interactions]) -> Interactions:
    """All parts but the test and `history`, whose customers are held out."""
    earlier = [part for name, part in parts.items() if name not in ("history", "test")]
    return earlier[0] if len(earlier) == 1 else concatenate(earlier)


def random_note(how: str) -> str:
    return f"without times, {how} takes events of each customer at random"


def unseen_note(part: str, count: int) -> str:
    return f"{Count(count):{part} event|{part} events} removed because their item has no training event"


def _list_columns(interactions: Interactions) -> EventColumns:
    times, user_rows = interactions.times, interactions.user_rows.astype(np.int64)
    position, length = positions(interactions)
    if times is None or len(times) == 0:
        return EventColumns(user_rows, position, length, ordered=times is not None, time=times, first_time=times)
    first_time = times[interactions.offsets[user_rows]]
    return EventColumns(user_rows, position, length, True, times, first_time, float(times.max()))


def _order_columns(interactions: Interactions) -> OrderColumns:
    position, lengths, starts = interactions.order_positions, interactions.lengths, interactions.offsets[:-1]
    times = interactions.times
    assert times is not None
    filled = lengths > 0
    counts = np.zeros(len(lengths), np.int64)
    counts[filled] = np.maximum.reduceat(position, starts[filled]) + 1
    # Orders are numbered as they begin, so the first event of an order is the first with its number.
    orders = np.repeat(make_offsets(counts)[:-1], lengths) + position
    first = np.unique(orders, return_index=True)[1]
    before = np.where(np.isin(first, starts[filled]), -np.inf, times[first - 1])
    return OrderColumns(position, np.repeat(counts, lengths), times[first][orders], before[orders])


def positions(interactions: Interactions) -> tuple[Integers, Integers]:
    """The position of each event, and the number of positions of its customer.

    Without labels every event has its own position. With labels every target has one, which it shares with the events
    up to the next target. Events before the first target share position 0, so that one purchase after a view is enough
    for a test. Without times there is no order: events that are not targets then have the position -1, which no rule
    holds out.
    """
    lengths, starts = interactions.lengths, interactions.offsets[:-1]
    if interactions.labels is None:
        return np.arange(len(interactions)) - np.repeat(starts, lengths), np.repeat(lengths, lengths)
    counted = make_offsets(interactions.labels.astype(np.int64))
    targets = np.repeat(counted[interactions.offsets[1:]] - counted[starts], lengths)
    position = counted[1:] - np.repeat(counted[starts], lengths) - 1
    if not interactions.ordered:
        return np.where(interactions.labels, position, -1), np.maximum(targets, 1)
    views_first = ~interactions.labels[np.repeat(starts, lengths)]
    return position + views_first, targets + views_first


def _notes(
    interactions: Interactions, how: str, rule: Rule, columns: EventColumns, masks: dict[str, Booleans]
) -> list[str]:
    notes = []
    if rule.last_event_rule and not interactions.ordered:
        notes.append(random_note(how))
    needed = {"leave_last_out": 2, "leave_last_two": 3, "leave_last_order_out": 2}.get(how, 0)
    counted = columns.length if columns.order is None else columns.order.count
    short = len(np.unique(interactions.user_rows[counted < needed]))
    if short:
        what = "events" if interactions.labels is None else "targets, or a target after another event,"
        what = what if columns.order is None else "orders"
        customers = f"{Count(short):customer|customers} with fewer than {needed} {what}"
        notes.append(f"{customers} {'stays' if short == 1 else 'stay'} entirely in training")
    if "left_out" in masks:
        left_out = int(masks["left_out"].sum())
        newcomers = len(np.unique(interactions.user_rows[masks["left_out"]]))
        whose = f"{Count(newcomers):customer|customers} first seen after training ends"
        reason = f", of {LATER_ORDERS if how == 'next_order' else whose}" if how in BUILT_IN else ""
        notes.append(f"{Count(left_out):event|events} left out{reason}")
    return notes


def _split_given(
    train: Interactions, test: object = None, **others: Any
) -> tuple[list[Interactions], tuple[str, ...], list[str]]:
    if not isinstance(test, Interactions) or others:
        raise ConfigError(f"the split given takes test=, the Interactions of the test part, not {others or test!r}")
    if train.ordered != test.ordered:
        raise InputError("one of the two parts has times and the other has none: give both, or neither")
    items = train.items.union(test.items)
    part = reindex(test, train.users, items)
    part = part.select(train.lengths[part.user_rows] > 0)
    left_out = len(test) - len(part)
    why = "left out because their customer has no training event"
    notes = [f"{Count(left_out):test event|test events} {why}"] if left_out else []
    return [replace(train, items=items), part], ("test",), notes


def _check_share(how: str, name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ConfigError(f"{how}: {name} is {value}: give a number between 0 and 1")
