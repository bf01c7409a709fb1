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
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.data.vocabulary import UNKNOWN, Id
from lorentzrec.errors import InputError
from lorentzrec.evaluation.next_events import next_events
from lorentzrec.evaluation.reality_check import check_reality
from lorentzrec.learning.held_out import CUSTOMER_LIMIT
from lorentzrec.learning.memory_weight import adjust_weight
from lorentzrec.learning.new_events import NewEvents, find_new_events, mark_new_events, select_first_new
from lorentzrec.learning.run import VALIDATION_METRIC, TrainingRun
from lorentzrec.learning.trainer import check_is_config, run_training
from lorentzrec.learning.warm_start import continued_config
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
    options: dict[str, Any] = {"prune_after": prune_after, "live": live, "attributes": attributes}
    options |= {"rehearse": rehearse, "progress": progress, "callbacks": callbacks}
    return update_with(model, find_new_events(model, data), config, **options)


def update_with(
    model: Model,
    found: NewEvents,
    config: TrainingConfig | None = None,
    *,
    rehearse: float = REHEARSED_SHARE,
    prune_after: float | None = None,
    live: Iterable[Id] | None = None,
    attributes: Any = None,
    progress: bool | None = None,
    callbacks: Sequence[Callable[[EpochRecord], None]] = (),
) -> Model:
    """`update` with events of which it is known which are new."""
    check_is_config(config)
    if attributes is not None and model.attributes is None:
        raise InputError("the model was trained without attributes: train it with them, or update it without")
    check_value("rehearse", rehearse, Annotated[float, Range(0, 1)], error=InputError)
    notes = []
    if prune_after is not None or live is not None:
        data = found.data
        kept = take_items(data, _kept_items(data, prune_after, live))
        removed = len(data.items) - len(kept.items)
        notes.append(Note(NoteKind.PRUNED, {"items": removed, "events": len(data) - len(kept)}))
        found = mark_new_events(model, kept)
    data, new = found.data, found.new
    if not new.any():
        raise InputError("the model was trained on all of these events: give the newer ones as well")
    learn = new | _sample(data, rehearse, seed=len(data))
    choosing = _sample(data, 0.5, seed=len(data) + 1)
    start, adjusted = _with_adjusted_memory(model, data, new & choosing)
    check = _check_on_new_events(start, found, ~choosing)
    found.release()
    run = TrainingRun(data, updating_config(model, config), start=start, learn=learn, attributes=attributes)
    del model, start  # the caller may have given them up, and then their memory is free for the new model
    run.check_of_start = check
    counts = {"new": int(new.sum()), "old": int(learn.sum()) - int(new.sum())}
    run.notes = [note for note in run.notes if note.kind is not NoteKind.NOT_NEWER]
    run.notes += [*notes, *adjusted, Note(NoteKind.UPDATED, counts)]
    if found.late:
        run.note(NoteKind.LATE_EVENTS, events=found.late)
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


def _check_on_new_events(start: Model, found: NewEvents, checking: Booleans) -> RealityCheck | None:
    """The check of the start model on the first new order, or event, of each known customer where `checking` is true;
    None if these are too few."""
    test = select_first_new(start, found, checking)
    if np.count_nonzero(test.lengths) < FEWEST_CUSTOMERS:
        return None
    options: dict[str, Any] = {"threads": start.config.threads, "baselines": found.baselines}
    return check_reality(start, test, found.earlier, events="new", **options)


def _sample(data: Interactions, share: float, seed: int) -> Booleans:
    """The events of about this share of the customers."""
    return np.random.default_rng(seed).random(len(data.users))[data.user_rows] < share
