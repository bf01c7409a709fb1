"""A model brought up to date with new events, in a fraction of the time of a full training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import numpy as np

from lorentzrec.base.field_checks import Range, check_value
from lorentzrec.data.arrays import Booleans, Integers, make_mask
from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.data.joining import take_items
from lorentzrec.data.splitting import SECONDS_PER_DAY
from lorentzrec.data.vocabulary import UNKNOWN, Id
from lorentzrec.errors import InputError
from lorentzrec.evaluation.next_events import next_events
from lorentzrec.evaluation.reality_check import check_reality
from lorentzrec.learning.held_out import CUSTOMER_LIMIT
from lorentzrec.learning.memory_weight import adjust_weight
from lorentzrec.learning.new_events import select_first_new
from lorentzrec.learning.run import VALIDATION_METRIC, TrainingRun
from lorentzrec.learning.trainer import check_is_config, run_training
from lorentzrec.learning.warm_start import continued_config, with_items_of
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.model.reality_check import RealityCheck
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.memory import empty_memory

REHEARSED_SHARE = 0.2
EPOCHS = 5
FEWEST_EVENTS = 50
"""With fewer new events of one half of the customers, the weight of the memory is not adjusted to them."""
FEWEST_CUSTOMERS = 50
"""With new events of fewer customers in the other half, the model is not checked on them."""


def update(
    model: Model,
    data: Interactions,
    config: TrainingConfig | None = None,
    *,
    rehearse: float = REHEARSED_SHARE,
    prune_after: float | None = None,
    live: Iterable[Id] | None = None,
    attributes: Any = None,
    progress: bool | None = None,
    callbacks: Sequence[Callable[[EpochRecord], None]] = (),
) -> Model:
    """A model that also knows the events of `data` that `model` was not trained on; `model` does not change.

    Before the update, the new events of one half of the customers adjust the weight of the memory, and those of the
    other half check the model.

    data: all events so far, old and new.
    config: what is to differ from the hyper-parameters of the model.
    rehearse: the share of customers whose earlier events are trained on with the new ones, so that nothing is
    forgotten.
    prune_after: remove items without an event in that many days before the newest event.
    live: remove all other items.
    attributes: those of items, new and known ones, as in `train`, if the model was trained with any.
    """
    check_is_interactions(data, "update")
    check_is_config(config)
    if attributes is not None and model.attributes is None:
        raise InputError("the model was trained without attributes: train it with them, or update it without")
    check_value("rehearse", rehearse, Annotated[float, Range(0, 1)], error=InputError)
    data = with_items_of(model, data)
    notes = []
    if prune_after is not None or live is not None:
        kept = take_items(data, _kept_items(data, prune_after, live))
        removed = len(data.items) - len(kept.items)
        notes.append(Note(NoteKind.PRUNED, {"items": removed, "events": len(data) - len(kept)}))
        data = kept
    new, late = find_new_events(model, data)
    if not new.any():
        raise InputError("the model was trained on all of these events: give the newer ones as well")
    learn = new | _sample(data, rehearse, seed=len(data))
    choosing = _sample(data, 0.5, seed=len(data) + 1)
    start, adjusted = _with_adjusted_memory(model, data, new & choosing)
    run = TrainingRun(data, updating_config(model, config), start=start, learn=learn, attributes=attributes)
    run.check_of_start = _check_on_new_events(start, data, new, ~choosing)
    counts = {"new": int(new.sum()), "old": int(learn.sum()) - int(new.sum())}
    run.notes = [note for note in run.notes if note.kind is not NoteKind.NOT_NEWER]
    run.notes += [*notes, *adjusted, Note(NoteKind.UPDATED, counts)]
    if late:
        run.note(NoteKind.LATE_EVENTS, events=late)
    return run_training(run, progress=progress, callbacks=callbacks)


def updating_config(model: Model, config: TrainingConfig | None = None) -> TrainingConfig:
    """The config of an update: that of the model, with what `config` sets, and with few epochs at the rate that its
    training had half-way: new items have to move far, and known ones have large sums."""
    return continued_config(model, config, epochs=EPOCHS, rate_at=0.5)


def _kept_items(data: Interactions, prune_after: float | None, live: Iterable[Id] | None) -> Integers:
    """Rows of the items that stay in the catalogue."""
    keep = np.ones(len(data.items), bool)
    if prune_after is not None:
        check_value("prune_after", prune_after, Annotated[float, Range(above=0)], error=InputError)
        if data.times is None:
            raise InputError("prune_after needs times, and these events have none: give times, or a list of live items")
        newest = np.full(len(data.items), -np.inf)
        np.maximum.at(newest, data.item_rows, data.times)
        counted = data.times[data.times <= time.time()].astype(np.float64)  # later ones are of a wrong clock
        keep &= newest >= counted.max(initial=-np.inf) - prune_after * SECONDS_PER_DAY
    if live is not None:
        rows = data.items.rows(list(live))
        keep &= make_mask(rows[rows != UNKNOWN], len(data.items))
    if keep.sum() < 2:
        raise InputError(f"{keep.sum()} of {len(keep):,} items would be left: prune later, or give more live items")
    return np.flatnonzero(keep)


def find_new_events(model: Model, data: Interactions) -> tuple[Booleans, int]:
    """Which events the model was not trained on, and how many of them are not newer than all that it was trained on."""
    if data.times is None or model.newest_time is None:
        return ~_in_histories(model, data), 0
    newer = data.times > model.newest_time
    late = ~newer & ~_in_histories(model, data) if model.histories is not None else np.zeros(len(data), bool)
    return newer | late, int(late.sum())


def _in_histories(model: Model, data: Interactions) -> Booleans:
    """Whether the customer of each event has interacted with its item in the training data of the model."""
    if model.histories is None:
        return np.zeros(len(data), bool)
    users, items = data.users.rows(model.histories.users.series), data.items.rows(model.histories.items.series)
    user_rows, item_rows = users[model.histories.user_rows], items[model.histories.item_rows]
    both = (user_rows != UNKNOWN) & (item_rows != UNKNOWN)
    known = user_rows[both] * len(data.items) + item_rows[both]
    return np.isin(data.user_rows.astype(np.int64) * len(data.items) + data.item_rows, known)


def _with_adjusted_memory(model: Model, data: Interactions, new: Booleans) -> tuple[Model, list[Note]]:
    """The model with the weight of its memory adjusted to the new events, of which it has seen none."""
    config = model.config
    if config.memory == "none" or config.history != "causal":
        return model, []
    known = model.items.rows(data.items.series)[data.item_rows] != UNKNOWN
    task = next_events(data.select(known), new[known], limit=CUSTOMER_LIMIT)
    if len(task.test) < FEWEST_EVENTS:
        return model, []
    before = 0.0 if model.memory is None else model.memory.weight * config.scale
    weight = adjust_weight(model, task, VALIDATION_METRIC)
    if weight == before:
        return model, []
    note = Note(NoteKind.MEMORY_ADJUSTED, {"before": before, "weight": weight, "events": len(task.test)})
    if weight == 0:
        return model.with_points(memory=None), [note]
    memory = model.memory or empty_memory(len(model.items), ordered=True)
    return model.with_points(memory=memory.with_weight(weight / config.scale)), [note]


def _check_on_new_events(start: Model, data: Interactions, new: Booleans, checking: Booleans) -> RealityCheck | None:
    """The check of the start model on the first new order, or event, of each known customer where `checking` is true;
    None if these are too few."""
    test, earlier = select_first_new(start, data, new, checking)
    if np.count_nonzero(test.lengths) < FEWEST_CUSTOMERS:
        return None
    return check_reality(start, test, earlier, events="new", threads=start.config.threads)


def _sample(data: Interactions, share: float, seed: int) -> Booleans:
    """The events of about this share of the customers."""
    return np.random.default_rng(seed).random(len(data.users))[data.user_rows] < share
