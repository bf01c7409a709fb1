"""One training run: its tables, its epochs, the best of them, and the model at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.interrupts import deferred_interrupts
from lorentzrec.data.arrays import Booleans
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.event_order import mentions_ties
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.protocol import evaluate, parse_cutoff
from lorentzrec.evaluation.reality_check import check_reality
from lorentzrec.learning.checkpoint import Checkpoint
from lorentzrec.learning.epochs import EpochRunner, Runner, find_learners
from lorentzrec.learning.held_out import HeldOutHalves, count_customers, divide, hold_out
from lorentzrec.learning.kernels.structures import Table
from lorentzrec.learning.memory_weight import USUAL_WEIGHTS, build_memory_for, choose_weight
from lorentzrec.learning.own_losses import find_address
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.recency_choice import choose_recency
from lorentzrec.learning.repeat_choice import USUAL_DECAY, USUAL_HALF_LIFE, choose_repeats, has_repeats
from lorentzrec.learning.repeat_choice import USUAL_WEIGHT as USUAL_REPEATS
from lorentzrec.learning.tables import copy_points, make_table
from lorentzrec.learning.trend_choice import choose_trend
from lorentzrec.learning.warm_start import continued_config, copy_optimiser_state, start_from
from lorentzrec.model.catalogue import add_similar_to_memory
from lorentzrec.model.config import OWN, ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.model.reality_check import RealityCheck
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.attribute_points import AttributePoints, compose
from lorentzrec.points.complements import build_complements
from lorentzrec.points.memory import Memory
from lorentzrec.points.points import Points
from lorentzrec.points.repeats import Repeats, find_rates
from lorentzrec.points.similarity import build_similarity
from lorentzrec.points.trend import FEWEST_CUSTOMERS, USUAL_DAYS, Trend, count_unset_clocks, find_trend

VALIDATION_METRIC = "ndcg@10"
NEWEST_EPOCHS, NEWEST_RATE = 4, 0.6
"""How often held-out orders are learned in the end, and at which part of the learning rate."""


POINT_SHARE = 0.25
"""How much the points count in an outfit, of what they count in a recommendation; chosen on Complete Journey."""


class Inherited(NamedTuple):
    """What a model takes over from the one that its run started from, in addition to the points. That model, which may
    be as large as the new one, is not kept."""

    config: ResolvedConfig
    fingerprint: str
    memory_weight: float | None
    """None: it has no memory."""
    repeats: Repeats | None
    trend: Trend | None

    @classmethod
    def of(cls, start: Model) -> Inherited:
        weight = None if start.memory is None else start.memory.weight
        return cls(start.config, start.fingerprint, weight, start.repeats, start.trend)


class TrainingRun:
    """The state of one training run between epochs."""

    def __init__(
        self,
        data: Interactions,
        config: TrainingConfig | None = None,
        validation: Interactions | None = None,
        metric: str = VALIDATION_METRIC,
        validate_every: int = 1,
        *,
        make_runner: Callable[[Interactions, ResolvedConfig, Table, Table], Runner] | None = None,
        attributes: Any = None,
        start: Model | None = None,
        learn: Booleans | None = None,
        complements: bool | None = None,
    ) -> None:
        """Decide what `config` leaves open, hold out events for validation, and initialise the points.

        metric: what the best epoch is chosen by.
        make_runner: makes the runner of another engine, from the events to learn from, the config, and the tables of
        histories and items. None makes the runner of this machine. Only that one composes points of attributes.
        attributes: `ItemAttributes` or a frame with the attributes of items, of which their points are composed. None
        takes the attributes of the start model, if it has any.
        start: the model whose points to start from.
        learn: which events to learn from. None means all; the others only count as part of histories.
        complements: learn what is bought together, for outfits. None: if the events are in orders, unless the start
        model has no complements.
        """
        if validate_every < 1:
            raise InputError(f"validate_every={validate_every}: validate after every 1, 2, ... epochs")
        self.data, self.metric, self.validate_every = data, metric, validate_every
        if complements and not data.in_orders:
            raise InputError(
                "complements are learned from orders, and these events are in none: "
                "give orders or times of events, or leave complements out"
            )
        self.start = None if start is None else Inherited.of(start)
        self.given = config if config is not None and start is None else TrainingConfig()
        """The settings that the caller chose."""
        chosen = config or TrainingConfig() if start is None else continued_config(start, config)
        if (chosen.loss or "").startswith(OWN):
            if make_runner is not None:
                raise ConfigError(f"only the local engine knows loss={chosen.loss}: with Keras, give a loss to compile")
            find_address(str(chosen.loss))
        self.config = chosen.resolve_for(data, attributes=attributes is not None)
        _check_learnable(data, self.config)
        recency_notes = []
        if chosen.recency is None and self.config.history == "orders" and start is None:
            choice = choose_recency(data, self.config, metric, hold_out, _train_points)
            if choice is not None:
                self.config = self.config.with_recency(choice.recency)
                kind = NoteKind.RECENCY if choice.recency < 1 else NoteKind.RECENCY_KEPT
                recency_notes.append(Note(kind, asdict(choice) | {"metric": metric}))
        if complements is None:
            complements = data.in_orders and (start is None or start.complements is not None)
        self.with_complements = complements
        self._hold_out_events(validation, learn)
        self.attributes, unused = _select_attributes(attributes, self.config, self.training_data, start)
        if self.attributes is not None and make_runner is not None:
            raise ConfigError("only the local engine composes points of attributes: train on it, or without attributes")
        self.known = self.training_data.item_counts > 0
        """Items that have their own vector, if points are composed."""
        if start is not None:
            self.known |= start.items.rows(data.items.series) != UNKNOWN
        self._make_tables()
        tables = self.history_table, self.item_table
        self.notes = [*map(Note.of_text, data.notes), *recency_notes]
        if start is not None and start.complements is not None and not data.in_orders:
            self.note(NoteKind.COMPLEMENTS_LEFT_OUT)
        if start is not None:
            self.notes += start_from(start, data, self.config, *tables, self.attributes)
        _, self.learners, self.positives = find_learners(self.training_data, self.config)
        self.runner: Runner
        if make_runner is not None:
            self.runner = make_runner(self.training_data, self.config, *tables)
        else:
            self.runner = EpochRunner(self.training_data, self.config, *tables, self.attributes, self.known)
        if self.attributes is not None:
            described = int((self.attributes.counts > 0).sum())
            self.notes += map(Note.of_text, self.attributes.notes)
            self.note(NoteKind.ATTRIBUTES, attributes=len(self.attributes.values), items=described)
        if unused:
            self.note(NoteKind.OTHER_ITEMS, items=unused)
        self.notes += _notes(self.training_data, len(self.learners), self.config, self.given, partial=learn is not None)
        self.record: list[EpochRecord] = []
        self.best_epoch = 0
        self.best: dict[str, NDArray[np.float32]] = {}
        self.check_of_start: RealityCheck | None = None
        """How well the start model did on the new events; only an update measures it."""

    def _hold_out_events(self, validation: Interactions | None, learn: Booleans | None) -> None:
        """Divide the data into events to learn from, to choose the epoch by, to choose settings by, and to check by."""
        data, config = self.data, self.config
        if learn is not None:
            data = replace(data, labels=learn if data.labels is None else data.labels & learn)
        self.training_data, self.held_out = (data, validation) if validation is not None else hold_out(data, config)
        held_out = self.held_out
        self.newest_orders: Interactions | None = None
        """Orders that are held out for the choices and the check only, and learned after them."""
        if held_out is None and config.memory != "none" and self.start is None:
            self.training_data, held_out = hold_out(data, config, count_customers(data, config))
            self.newest_orders = held_out if config.history == "orders" else None
        self.halves: HeldOutHalves | None = None
        """Events to choose settings by, and events for the check. There are none if a model is continued: it has seen
        them."""
        if held_out is not None and self.start is None:
            self.halves = divide(held_out, self.training_data, config)
        if config.history == "orders":
            self.training_data = self.training_data.with_orders_together()

    def _make_tables(self) -> None:
        """Make the tables of items and histories, with points near the origin."""
        config, random = self.config, np.random.default_rng(self.config.seed)
        frequency, count = self.training_data.item_counts, len(self.data.items)
        if self.attributes is not None:
            frequency = np.append(frequency, self.attributes.sum_counts(frequency))
            count += len(self.attributes.values)
        space = initial_space(count, config, frequency, random)
        self.item_table = self.history_table = make_table(space, config)
        if config.model == "symmetric":
            self.history_table = make_table(initial_space(len(self.data.users), config, None, random), config)
        elif config.targets == "separate":
            self.history_table = make_table(initial_space(count, config, frequency, random), config)

    def note(self, kind: NoteKind, **values: Any) -> Note:
        """Add a note."""
        self.notes.append(Note(kind, values))
        return self.notes[-1]

    @property
    def finished(self) -> bool:
        return len(self.record) >= self.config.epochs or self._out_of_patience

    @property
    def _out_of_patience(self) -> bool:
        waited = len(self.record) - self.best_epoch
        return self.best_epoch > 0 and waited >= self.config.patience and self.record[-1].validation is not None

    def epoch(
        self,
        progress: TrainingProgress,
        cancelled: threading.Event,
        save: Callable[[], None] = lambda: None,
    ) -> EpochRecord:
        """Run the next epoch, validate it if it is its turn, and keep its points if they are the best so far.

        save: called as soon as the epoch is recorded. Ctrl-C and SIGTERM wait until it returns, so an epoch is recorded
        and saved, or neither.
        """
        number = len(self.record) + 1
        rate = self.config.rate_in(number)
        progress.begin(number)
        started = time.perf_counter()
        result = self.runner.run(number, rate, progress.advance, cancelled)
        seconds = time.perf_counter() - started
        if number == 1 and result.saturated:
            self.note(NoteKind.NO_VALID_NEGATIVE, times=result.saturated)
        if number == 1 and result.coincident:
            self.note(NoteKind.COINCIDENT_POINTS, pairs=result.coincident)
        metrics = None
        if self.held_out is not None and (number % self.validate_every == 0 or number == self.config.epochs):
            metrics = self.validate()
        record = EpochRecord(
            epoch=number,
            loss=result.loss / max(result.positives, 1),
            learning_rate=rate,
            clipped_gradients=result.clipped,
            capped_steps=result.capped,
            seconds=seconds,
            events_per_second=result.positives / max(seconds, 1e-9),
            validation=metrics,
        )
        best_before = max((self._validated(earlier) for earlier in self.record), default=-1.0)
        with deferred_interrupts():
            self.record.append(record)
            if metrics is not None and self._validated(record) > best_before:
                self.best_epoch, self.best = number, self._points()
            save()
        return record

    def validate(self) -> dict[str, float]:
        """Metrics of the current points on the held-out events."""
        if self.held_out is None:
            raise InputError("there are no held-out events: give some, or set validation")
        k = parse_cutoff(self.metric)
        model, threads = self._model(self._points()), self.config.threads
        report = evaluate(model, self.held_out, k=k, intervals=False, threads=threads)
        return {name: report[name] for name in (self.metric, f"hr@{k}")}

    def _points(self) -> dict[str, NDArray[np.float32]]:
        points = {side: copy_points(table, self.config) for side, table in self._tables().items()}
        count = len(self.data.items)
        masses = {"masses": self.item_table.masses[:count].copy()} if self.config.massive else {}
        if self.attributes is None:
            return points | masses
        for side, vectors in list(points.items()):
            points[f"{side}_attributes"] = vectors[count:]
            points[side] = compose(
                vectors[:count],
                self.known,
                self.attributes,
                vectors[count:],
                weight=self.config.attribute_weight,
                hyperbolic=self.config.hyperbolic,
            )
        return points | masses

    def _model(self, points: dict[str, NDArray[np.float32]]) -> Model:
        symmetric = self.config.model == "symmetric"
        attributes = None
        if self.attributes is not None:
            vectors = points["items_attributes"]
            vectors_of_histories = points.get("histories_attributes", vectors)
            weight = self.config.attribute_weight
            attributes = AttributePoints.of_items(self.attributes, vectors, vectors_of_histories, weight)
        return Model(
            config=self.config,
            items=self.data.items,
            points=Points(
                points["items"],
                points["items"] if symmetric else points.get("histories", points["items"]),
                self.training_data.item_counts,
                self.config.space,
                attributes=attributes,
                masses=points.get("masses"),
            ),
            users=self.data.users,
            user_points=points["histories"] if symmetric else None,
            histories=self.training_data,
        )

    def build_model(self, *, interrupted: bool = False) -> Model:
        """The model with the best points if there was validation, else with the last points, and with all histories.

        The weight of the memory is chosen here. Then the model is compared with baselines.
        interrupted: somebody is waiting for the model, so the memory gets its usual weight and there is no check.
        """
        notes = list(self.notes)
        if len(self.record) < self.config.epochs and self._out_of_patience:
            values = {"epoch": len(self.record), "metric": self.metric, "best": self.best_epoch}
            notes.append(Note(NoteKind.OUT_OF_PATIENCE, values))
        if capped := sum(epoch.capped_steps for epoch in self.record):
            notes.append(Note(NoteKind.SHORTENED_STEPS, {"steps": capped}))
        best = self.record[self.best_epoch - 1].validation if self.best_epoch else None
        model = self._model(self.best if self.best_epoch else self._points())
        earlier = None if interrupted else self._build_earlier_memory()
        weight, of_memory = self._choose_memory_weight(model, earlier)
        if weight is not None and earlier is not None:
            model = model.with_points(memory=earlier.with_weight(weight))
        repeats, of_repeats = self._build_repeats(model, interrupted=interrupted)
        if repeats is not None and self.halves is not None and not interrupted:
            model = model.with_points(repeats=replace(repeats, rates=find_rates(self.training_data)))
        trend, of_trend = self._build_trend(model, interrupted=interrupted)
        check = None if interrupted else self._check(model)
        if check is not None and check.lost_to:
            notes.insert(0, Note(NoteKind.LOST_CHECK, {"result": str(check)}))
        model, earlier = model.with_points(memory=None), None  # the next one needs its room
        if self.newest_orders is not None and not interrupted:
            notes.append(self._learn_newest_orders(self.newest_orders))
            model = self._model(self._points())
        memory = None if weight is None else self._build_memory(weight)
        similarity = None
        if self.config.memory != "none":
            similarity = build_similarity(self.data, ordered=self.config.history != "folds")
        complements = None
        if self.with_complements:
            complements = build_complements(self.data, now=time.time(), point_weight=POINT_SHARE * self.config.scale)
        points = replace(
            model.points,
            memory=memory,
            repeats=repeats,
            trend=trend,
            similarity=similarity,
            complements=complements,
            item_counts=self.data.item_counts,
        )
        return replace(
            model,
            points=points,
            histories=self.data,
            oldest_time=None if self.data.times is None else float(self.data.times.min()),
            newest_time=None if self.data.times is None else float(self.data.times.max()),
            parent=None if self.start is None else self.start.fingerprint,
            optimiser_state=copy_optimiser_state(
                self.config, self._tables(), None if self.attributes is None else len(self.data.items)
            ),
            record=tuple(self.record),
            data_digest=self.data.digest,
            metrics={f"validation {name}": value for name, value in (best or {}).items()},
            note_records=(*notes, *of_memory, *of_repeats, *of_trend),
            check=check,
        )

    def _build_earlier_memory(self) -> Memory | None:
        """A memory of the events to learn from alone: what settings are chosen with, and what is checked."""
        config = self.config
        if self.halves is None or config.memory == "none":
            return None
        return build_memory_for(self.training_data, config)

    def _choose_memory_weight(self, model: Model, earlier: Memory | None) -> tuple[float | None, list[Note]]:
        """The weight of the memory of all events, in the unit of the score; None: no memory. It is that of the start
        model, or the best on held-out events for the `earlier` memory, which does not know them."""
        config = self.config
        kept = None if self.start is None or config.memory == "none" else self.start.memory_weight
        if kept is None and (self.halves is None or config.memory == "none"):
            return None, []
        if kept is not None and self.start is not None:
            return kept, [Note(NoteKind.MEMORY_KEPT, {"weight": kept * self.start.config.scale})]
        if earlier is None:
            weight = USUAL_WEIGHTS[config.history]
            return weight / config.scale, [Note(NoteKind.MEMORY_NOT_TUNED, {"weight": weight})]
        assert self.halves is not None
        choice = choose_weight(model, earlier, self.halves.choosing, self.metric)
        values = asdict(choice) | {"metric": self.metric}
        if choice.weight == 0:
            return None, [Note(NoteKind.NO_MEMORY, values)]
        return choice.weight / config.scale, [Note(NoteKind.MEMORY, values)]

    def _build_memory(self, weight: float) -> Memory:
        """The memory of all events."""
        memory = build_memory_for(self.data, self.config)
        if self.start is not None and self.attributes is not None:
            memory = add_similar_to_memory(memory, self.attributes, self.data.item_counts == 0)
        return memory.with_weight(weight)

    def _learn_newest_orders(self, held_out: Interactions) -> Note:
        """Learn the orders that were held out from training, each from the orders before it. They are the newest, and
        what is new in them shows what customers buy next; what they buy again is known to the repeats."""
        customers = self.data.users.rows(held_out.users.series)[np.unique(held_out.user_rows)]
        data = self.data.of_customers(customers).with_orders_together()
        newest = np.zeros(len(data.users), np.int64)
        np.maximum.at(newest, data.user_rows, data.order_positions)
        labels = (data.order_positions == newest[data.user_rows]) & data.first_purchases
        labels &= True if data.labels is None else data.labels
        learned = replace(data, labels=labels)
        tables = self.history_table, self.item_table
        runner = self.runner.for_events(learned)
        if runner is None:
            runner = EpochRunner(learned, self.config, *tables, self.attributes, self.known)
        for epoch in range(1, NEWEST_EPOCHS + 1):
            rate = self.config.learning_rate * NEWEST_RATE
            runner.run(self.config.epochs + epoch, rate, lambda positives, loss: None, threading.Event())
        return Note(NoteKind.NEWEST_LEARNED, {"orders": len(customers)})

    def _check(self, model: Model) -> RealityCheck | None:
        """The check with the settings that were chosen, on the other half of the held-out events.

        model: knows only the events to learn from.
        """
        if self.halves is None or self.halves.checking is None:
            return self.check_of_start
        return check_reality(model, self.halves.checking, self.training_data, threads=self.config.threads)

    def _build_repeats(self, model: Model, *, interrupted: bool) -> tuple[Repeats | None, list[Note]]:
        """What customers buy again, if they do so in the events that were held out from points and memory; an update
        keeps what its start model has.

        model: knows only the events to learn from.
        """
        if self.config.memory == "none":
            return None, []
        scale = self.config.scale
        if self.start is not None:
            kept = self.start.repeats
            if kept is None:
                return None, []
            note = Note(NoteKind.REPEATS_KEPT, {"weight": kept.weight * self.start.config.scale})
            return replace(kept, rates=find_rates(self.data)), [note]
        if self.halves is None or not has_repeats(self.halves.choosing, self.training_data):
            return None, []
        if interrupted:
            decay = (None,) if self.data.times is None else (USUAL_HALF_LIFE, USUAL_DECAY)
            repeats = Repeats(find_rates(self.data), USUAL_REPEATS / scale, *decay)
            return repeats, [Note(NoteKind.REPEATS_NOT_TUNED, {"weight": USUAL_REPEATS})]
        choice = choose_repeats(model, self.halves.choosing, self.metric)
        decays = [] if choice.half_life is None else [f"a half-life of {choice.half_life:g} days"]
        decays += [] if choice.order_decay == 1 else [f"a decay of {choice.order_decay:g} per order"]
        values = asdict(choice) | {"metric": self.metric, "decay": "".join(f" and {decay}" for decay in decays)}
        if choice.weight == 0:
            return None, [Note(NoteKind.NO_REPEATS, values)]
        repeats = Repeats(find_rates(self.data), choice.weight / scale, choice.half_life, choice.order_decay)
        return repeats, [Note(NoteKind.REPEATS, values)]

    def _build_trend(self, model: Model, *, interrupted: bool) -> tuple[Trend | None, list[Note]]:
        """What is popular in the last days of all events, if they have a clock. Its weight is that of the start model,
        or chosen on the newest events that were held out; 0 if scores are better without a trend.

        model: knows only the events to learn from.
        """
        data, now = self.data, time.time()
        if data.times is None:
            return None, []
        ahead, unset = int((data.times > now).sum()), count_unset_clocks(data.times)
        notes = [Note(NoteKind.CLOCK_AHEAD, {"events": ahead})] if ahead else []
        notes += [Note(NoteKind.CLOCK_NOT_SET, {"events": unset})] if unset else []
        kept = None if self.start is None else self.start.trend
        weight, days = 0.0, USUAL_DAYS
        choice = None
        if kept is not None and self.start is not None:
            weight, days = kept.weight * self.start.config.scale, kept.days
        elif self.halves is not None and self.config.memory != "none" and not interrupted:
            choice = choose_trend(model, self.halves.choosing, self.metric, now)
            if choice is not None:
                weight, days = choice.weight, choice.days
        trend = find_trend(data, days, now)
        if trend is None:
            span = (data.times.max() - data.times.min()) / SECONDS_PER_DAY
            if span <= USUAL_DAYS and len(data) >= FEWEST_CUSTOMERS and self.config.memory != "none":
                notes.append(Note(NoteKind.ONE_SPAN, {"days": span}))
            return None, notes
        if choice is not None:
            of_new = ""
            if choice.without_of_new is not None:
                of_new = f"; of items new to the customer {choice.without_of_new:.4f} and {choice.trend_of_new:.4f}"
            values = asdict(choice) | {"metric": self.metric, "of_new": of_new}
            notes.append(Note(NoteKind.TREND if choice.weight else NoteKind.NO_TREND, values))
        elif weight:
            notes.append(Note(NoteKind.TREND_KEPT, {"days": days, "weight": weight}))
        return replace(trend, weight=weight / self.config.scale), notes

    def _validated(self, record: EpochRecord) -> float:
        return -1.0 if record.validation is None else record.validation[self.metric]

    def _tables(self) -> dict[str, Table]:
        separate = self.history_table is not self.item_table
        return {"items": self.item_table} | ({"histories": self.history_table} if separate else {})

    @property
    def _digest(self) -> str:
        """Of what the run learns from."""
        return self.data.digest if self.attributes is None else f"{self.data.digest} {self.attributes.digest}"

    def checkpoint(self) -> Checkpoint:
        arrays: dict[str, NDArray[Any]] = {f"best_{side}": points for side, points in self.best.items()}
        for side, table in self._tables().items():
            arrays |= {f"{side}_{name}": array for name, array in table._asdict().items()}
        return Checkpoint(self.config, self._digest, tuple(self.record), self.best_epoch, tuple(self.notes), arrays)

    def restore(self, checkpoint: Checkpoint) -> None:
        self.runner.check_notes(checkpoint.notes)
        checkpoint.check_same_run(self.config, self._digest)
        if any(self.metric not in epoch.validation for epoch in checkpoint.record if epoch.validation is not None):
            raise InputError(f"the checkpoint was not validated by {self.metric}: resume with the metric it began with")
        for side, table in self._tables().items():
            for name, array in table._asdict().items():
                array[...] = checkpoint.array(f"{side}_{name}", array)
        points = self._points()
        self.best = {side: checkpoint.array(f"best_{side}", points[side]) for side in points if checkpoint.best_epoch}
        self.record, self.best_epoch = list(checkpoint.record), checkpoint.best_epoch
        self.notes = list(checkpoint.notes)


def initial_space(
    count: int, config: ResolvedConfig, frequency: NDArray[np.int64] | None, random: np.random.Generator
) -> NDArray[np.float32]:
    """The space coordinates of `count` points, near the origin; the lift to the sheet is the caller's.

    cube: uniform in a cube of side `initial_width` (the paper's MovieLens runs).
    ball: uniform in a ball of Poincare radius `initial_width`.
    frequency: on the sphere of Poincare radius `initial_width` / ln(e - 1 + n) for an item with n events. The paper
    prints 1 / ln n, which is infinite for n = 1; the shift by e - 1 makes it 1 there. Customers have no frequency and
    start in the ball.
    """
    dimension, width = config.dimension, config.initial_width
    if config.initialisation == "cube":
        return random.uniform(-width / 2, width / 2, (count, dimension)).astype(np.float32)
    direction = random.standard_normal((count, dimension), np.float32)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    if config.initialisation == "frequency" and frequency is not None:
        radius = width / np.log(np.e - 1 + np.maximum(frequency, 1))
    else:
        radius = width * random.random(count) ** (1 / dimension)
    # Poincare radius r is 2 r / (1 - r^2) on the hyperboloid
    return direction * (2 * radius / (1 - radius**2)).astype(np.float32)[:, None]


def _select_attributes(
    attributes: Any, config: ResolvedConfig, data: Interactions, start: Model | None
) -> tuple[ItemAttributes | None, int]:
    """The attributes in the rows of the data, those of the start model first. The second value counts the items of
    `attributes` that the data do not have.

    Attributes of items without an event are left out.
    """
    known = None if start is None or start.item_attributes is None else start.item_attributes.align(data.items)
    if attributes is None:
        return known, 0
    if config.model == "symmetric":
        raise ConfigError("attributes with model=symmetric: only asymmetric models have them, leave one of them out")
    given = attributes
    if not isinstance(given, ItemAttributes):
        given = ItemAttributes.from_frame(attributes, like=known)
    aligned = given.align(data.items).keep_values_of(data.item_counts > 0)
    if not len(aligned.values):
        raise InputError(
            f"no item of the data has attributes ({data.items!r} there, {given.items!r} here): check the ids"
        )
    others = int((data.items.rows(given.items.series) == UNKNOWN).sum())
    return (aligned if known is None else aligned.fill_from(known)), others


def _check_learnable(data: Interactions, config: ResolvedConfig) -> None:
    """Raise an error if there is nothing to learn from these data."""
    if len(data) == 0:
        raise InputError("there are no events to learn from: give at least one")
    if data.weights is not None and data.weights.min() < 0:
        raise InputError(
            "there are events of negative weight, which are dislikes, and nothing is learned from them: leave them out"
        )
    if len(data.items) < 2:
        raise InputError(
            f"there is only one item ({data.items.id(0)!r}), so there is nothing to rank: give at least two"
        )
    if config.model == "asymmetric" and data.lengths.max() < 2:
        raise InputError(
            "no customer has two events, and a history must predict something: "
            "give longer histories, or set model=symmetric"
        )
    learners = np.flatnonzero(data.lengths >= (2 if config.model == "asymmetric" else 1))
    count = len(data.items)
    if data.lengths[learners].min() >= count and all(len(set(data.history(row))) == count for row in learners.tolist()):
        raise InputError(
            "every customer to learn from has interacted with every item, so there is nothing to compare with: "
            "give data with something unseen"
        )


def _train_points(data: Interactions, config: TrainingConfig) -> Model:
    """The model after all epochs, without a memory."""
    run = TrainingRun(data, config)
    for epoch in range(1, run.config.epochs + 1):
        run.runner.run(epoch, run.config.rate_in(epoch), lambda positives, loss: None, threading.Event())
    return run.build_model()


def _notes(
    data: Interactions, learners: int, config: ResolvedConfig, given: TrainingConfig, *, partial: bool
) -> Iterator[Note]:
    """Notes that are known before the first epoch.

    given: the settings that the caller chose. There is no note about a default.
    partial: some customers are meant to have no training event, so they are not reported.
    """
    if config.model == "asymmetric" and not data.ordered:
        yield Note(NoteKind.NO_TIMES, {"folds": config.folds})
    elif config.history == "orders":
        orders = int((np.maximum.reduceat(data.order_positions, data.offsets[:-1][data.lengths > 0]) + 1).sum())
        yield Note(NoteKind.ORDERS, {"orders": orders, "size": len(data) / orders})
    elif config.model == "asymmetric" and config.history == "causal" and data.tied_share > 0:
        # Data that were read or made of pairs carry the note already.
        yield from () if mentions_ties(data.notes) else (Note.of_text(data.ties_note),)
    if config.model == "asymmetric" and config.history == "causal" and data.in_orders:
        yield Note(NoteKind.ORDERS_NOT_USED)
    short = int((data.lengths > 0).sum()) - learners
    if short and not partial:
        alone = NoteKind.SINGLE_ORDER if config.history == "orders" else NoteKind.SINGLE_EVENT
        kind = alone if data.labels is None else NoteKind.NO_PREDICTABLE_LABEL
        yield Note(kind, {"customers": short})
    if config.triplets and config.threads > 1:
        yield Note(NoteKind.ONE_THREAD if config.deterministic else NoteKind.NOT_REPRODUCIBLE)
    if given.negative_count is not None and given.negative_count > len(data.items):
        values = {"negatives": config.negative_count, "items": len(data.items)}
        yield Note(NoteKind.FEWER_ITEMS_THAN_NEGATIVES, values)
