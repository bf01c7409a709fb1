"""What a user should know about a training run: typed records, and their only rendering as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lorentzrec.base.counting import with_counts


class NoteKind(StrEnum):
    TEXT = "text"
    """A note of the data, or of a model that was saved without records."""
    LOST_CHECK = "lost_check"
    """The model loses to a baseline: the first note, if there is one."""
    NO_TIMES = "no_times"
    ORDERS = "orders"
    ORDERS_NOT_USED = "orders_not_used"
    RECENCY = "recency"
    RECENCY_KEPT = "recency_kept"
    NEWEST_LEARNED = "newest_learned"
    NO_PREDICTABLE_LABEL = "no_predictable_label"
    SINGLE_EVENT = "single_event"
    SINGLE_ORDER = "single_order"
    NOT_REPRODUCIBLE = "not_reproducible"
    ONE_THREAD = "one_thread"
    FEWER_ITEMS_THAN_NEGATIVES = "fewer_items_than_negatives"
    NO_VALID_NEGATIVE = "no_valid_negative"
    COINCIDENT_POINTS = "coincident_points"
    SHORTENED_STEPS = "shortened_steps"
    OUT_OF_PATIENCE = "out_of_patience"
    STOPPED_BY_CALLBACK = "stopped_by_callback"
    INTERRUPTED = "interrupted"
    NO_CHECKPOINT = "no_checkpoint"
    NOTHING_TO_RESUME = "nothing_to_resume"
    MEMORY = "memory"
    NO_MEMORY = "no_memory"
    MEMORY_NOT_TUNED = "memory_not_tuned"
    REPEATS = "repeats"
    NO_REPEATS = "no_repeats"
    REPEATS_NOT_TUNED = "repeats_not_tuned"
    REPEATS_KEPT = "repeats_kept"
    TREND = "trend"
    NO_TREND = "no_trend"
    TREND_KEPT = "trend_kept"
    CLOCK_AHEAD = "clock_ahead"
    CLOCK_NOT_SET = "clock_not_set"
    ONE_SPAN = "one_span"
    WORKERS = "workers"
    ITEMS_ADDED = "items_added"
    ITEMS_NOT_PLACED = "items_not_placed"
    NOT_IN_MEMORY = "not_in_memory"
    ITEMS_PLACED = "items_placed"
    FRESH_OPTIMISER = "fresh_optimiser"
    NOT_NEWER = "not_newer"
    LATE_EVENTS = "late_events"
    MEMORY_KEPT = "memory_kept"
    MEMORY_ADJUSTED = "memory_adjusted"
    UPDATED = "updated"
    PRUNED = "pruned"
    ATTRIBUTES = "attributes"
    ATTRIBUTES_LEFT_OUT = "attributes_left_out"
    COMPLEMENTS_LEFT_OUT = "complements_left_out"
    MASSES_LEFT_OUT = "masses_left_out"
    OTHER_ITEMS = "other_items"
    KNOWN_ITEMS = "known_items"
    ALIKE_IN_MEMORY = "alike_in_memory"


_TEXTS = {
    NoteKind.TEXT: "{text}",
    NoteKind.LOST_CHECK: "{result}",
    NoteKind.NO_TIMES: "the events have no times: histories are used without order, in {folds} folds",
    NoteKind.ORDERS: "{orders:order has|orders have} {size:.1f} items on average: each order is predicted from the "
    "orders before it",
    NoteKind.ORDERS_NOT_USED: "the orders of the events are not used: the items of an order are a sequence",
    NoteKind.RECENCY: "recency is {recency:g} per order, chosen on held-out orders of {customers:,} customers: "
    "in short trainings, {metric} is {best:.4f} with it and {usual:.4f} with recency 1",
    NoteKind.RECENCY_KEPT: "recency is 1, so that all orders count alike: on held-out orders of {customers:,} "
    "customers, {metric} is {usual:.4f} in a short training and at most {best:.4f} with less",
    NoteKind.NEWEST_LEARNED: "after the choices and the check, the points learned what is new in the {orders:held-out "
    "order|held-out orders}",
    NoteKind.NO_PREDICTABLE_LABEL: "{customers:customer has|customers have} no labelled event that could be predicted: "
    "not used in training",
    NoteKind.SINGLE_EVENT: "{customers:customer has|customers have} a single event and nothing to predict it from: "
    "not used in training",
    NoteKind.SINGLE_ORDER: "{customers:customer has|customers have} a single order and nothing to predict it from: "
    "not used in training",
    NoteKind.NOT_REPRODUCIBLE: "symmetric BPR on several threads shares points without locks: results vary from run to "
    "run; deterministic=True runs it on one thread",
    NoteKind.ONE_THREAD: "deterministic symmetric BPR runs on one thread",
    NoteKind.FEWER_ITEMS_THAN_NEGATIVES: "negative_count is {negatives}, more than the {items} items: "
    "all of them are used",
    NoteKind.NO_VALID_NEGATIVE: "epoch 1: {times:time|times} a customer had no valid negative "
    "(they had interacted with all sampled items)",
    NoteKind.COINCIDENT_POINTS: "epoch 1: {pairs:pair|pairs} of points coincided and gave no direction",
    NoteKind.SHORTENED_STEPS: "{steps:step|steps} beyond the maximum length or radius shortened",
    NoteKind.OUT_OF_PATIENCE: "stopped after epoch {epoch}: no better {metric} since epoch {best}",
    NoteKind.STOPPED_BY_CALLBACK: "stopped after epoch {epoch} by a callback{reason}",
    NoteKind.INTERRUPTED: "interrupted {when} epoch {epoch} of {epochs}",
    NoteKind.WORKERS: "trained by {workers:,} workers, whose points were merged {rounds:,} times per epoch",
    NoteKind.NO_CHECKPOINT: "the checkpoint could not be written after epoch {epoch} ({reason})",
    NoteKind.NOTHING_TO_RESUME: "there was no checkpoint in {folder}: training started with the first epoch",
    NoteKind.MEMORY: "the memory has weight {weight:g}, chosen on held-out events of {customers:,} customers: "
    "{metric} {points:.4f} by points alone, {memory:.4f} with it",
    NoteKind.NO_MEMORY: "no memory: on held-out events of {customers:,} customers, {metric} is {points:.4f} "
    "by points alone and {memory:.4f} with it",
    NoteKind.MEMORY_NOT_TUNED: "the memory has the usual weight {weight:g}: training ended before a weight was chosen",
    NoteKind.REPEATS: "customers buy again, so what they bought before is recommended, with weight {weight:g}{decay}: "
    "on held-out events of {customers:,} customers, {metric} is {unseen:.4f} without such items and {repeats:.4f} "
    "with them",
    NoteKind.NO_REPEATS: "what customers bought before is not recommended again: on held-out events of {customers:,} "
    "customers, {metric} is {unseen:.4f} without such items and {repeats:.4f} with them",
    NoteKind.REPEATS_NOT_TUNED: "what customers bought before is recommended with the usual weight {weight:g}: "
    "training ended before a weight was chosen",
    NoteKind.REPEATS_KEPT: "what customers bought before is recommended with weight {weight:g}, as in the start model",
    NoteKind.TREND: "items that are more popular than usual in the last {days:g} days have higher scores, with weight "
    "{weight:g}: on held-out events of the last {deciding_days:g} days, of {customers:,} customers, {metric} is "
    "{without:.4f} without a trend and {trend:.4f} with it{of_new}",
    NoteKind.NO_TREND: "scores have no trend: on held-out events of the last {deciding_days:g} days, of {customers:,} "
    "customers, {metric} is {without:.4f} without a trend and {trend:.4f} with it{of_new}",
    NoteKind.TREND_KEPT: "items that are more popular than usual in the last {days:g} days have higher scores, with "
    "weight {weight:g}, as in the start model",
    NoteKind.ONE_SPAN: "all events are within {days:.3g} days: too little for a trend",
    NoteKind.CLOCK_NOT_SET: "{events:event is|events are} of the year 1970, and most are not: times in another unit, "
    "or of a clock that was not set",
    NoteKind.CLOCK_AHEAD: "{events:event is|events are} later than the clock of this computer: not counted as recent",
    NoteKind.ITEMS_ADDED: "{items:item was|items were} added without training",
    NoteKind.ITEMS_NOT_PLACED: "{items:new item is|new items are} left out, with {events:event|events}: "
    "they have no known attributes, and their customers no event with a known item",
    NoteKind.NOT_IN_MEMORY: "the memory does not have the {items:added item|added items} yet: "
    "points alone recommend them",
    NoteKind.ITEMS_PLACED: "{items:new item was|new items were} placed from events or attributes, and "
    "{others:other starts|others start} at a random point",
    NoteKind.FRESH_OPTIMISER: "the start model has no state of this optimiser: its sums start at zero",
    NoteKind.NOT_NEWER: "{events:event is|events are} not newer than the training data of the start model",
    NoteKind.LATE_EVENTS: "{events:event is|events are} older than the newest event of the start model and new to it: "
    "trained on as new",
    NoteKind.MEMORY_KEPT: "the memory has weight {weight:g}, as at the start of the run",
    NoteKind.MEMORY_ADJUSTED: "the weight of the memory changed from {before:g} to {weight:g}, which is better on "
    "{events:event|events} that the start model has not seen",
    NoteKind.UPDATED: "trained on {new:new event|new events} and {old:earlier event|earlier events}",
    NoteKind.ATTRIBUTES: "{items:item has|items have} attributes, {attributes:,} in all",
    NoteKind.ATTRIBUTES_LEFT_OUT: "the start model has attributes, which Keras does not train: this model has none",
    NoteKind.COMPLEMENTS_LEFT_OUT: "the start model has learned what is bought together, and fewer than half of "
    "these events have an order with several events: this model has not learned it",
    NoteKind.MASSES_LEFT_OUT: "items have no masses, which Keras does not learn: the local engine does, with "
    "{dimension} dimensions",
    NoteKind.OTHER_ITEMS: "{items:item has|items have} attributes and are not in the data: not used",
    NoteKind.KNOWN_ITEMS: "{items:item is|items are} known to the model, so their attributes are not used",
    NoteKind.ALIKE_IN_MEMORY: "the memory has the {items:added item|added items} next to known items with similar "
    "attributes",
    NoteKind.PRUNED: "{items:item was|items were} removed, with {events:event|events}",
}


@dataclass(frozen=True)
class Note:
    """One note; `str` renders it."""

    kind: NoteKind
    values: Mapping[str, Any] = field(default_factory=dict)
    """Counts and names, as the text of the kind has them."""

    def __str__(self) -> str:
        return with_counts(_TEXTS[self.kind], self.values)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Note:
        """The inverse of `to_dict`; an unknown kind or a missing value is a ValueError or KeyError."""
        note = cls(NoteKind(values["kind"]), {name: value for name, value in values.items() if name != "kind"})
        str(note)
        return note

    @classmethod
    def of_text(cls, text: str) -> Note:
        return cls(NoteKind.TEXT, {"text": text})
