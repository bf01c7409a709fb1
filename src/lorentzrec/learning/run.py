"""One training run: its tables, its epochs, the best of them, and the model at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, mask_of
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions, offsets_of
from lorentzrec.data.ties import mentions_ties
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.protocol import cutoff_of, evaluate
from lorentzrec.interrupts import deferred_interrupts
from lorentzrec.learning.checkpoint import Checkpoint
from lorentzrec.learning.epochs import EpochRunner, Runner, find_learners
from lorentzrec.learning.kernels.structures import Table
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.schedule import learning_rate
from lorentzrec.learning.tables import points_of, table_of
from lorentzrec.learning.warm_start import continued_config, start_from, state_of
from lorentzrec.learning.weighing import choose_weight, customers_for
from lorentzrec.memory import Memory, build_memory
from lorentzrec.model.catalogue import with_alike
from lorentzrec.model.composing import AttributePoints, compose
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.model.record import EpochRecord

VALIDATION_METRIC = "ndcg@10"


class TrainingRun:
    """The state of one training run between epochs."""

    def __init__(
        self,
        data: Interactions,
        config: TrainingConfig | None = None,
        validation: Interactions | None = None,
        metric: str = VALIDATION_METRIC,
        validate_every: int = 1,
        make_runner: Callable[[Interactions, ResolvedConfig, Table, Table], Runner] = EpochRunner,
        attributes: Any = None,
        start: Model | None = None,
        learn: Booleans | None = None,
    ) -> None:
        """Decide what `config` leaves open, hold out events for validation, and initialise the points.

        metric: what the best epoch is chosen by.
        make_runner: what runs the epochs, made of the events to learn from, the config, and the points of histories and
        items.
        attributes: those of the items, of which their points are composed: `ItemAttributes`, or a frame; None: those of
        the start model, if it has any.
        start: the model whose points to start from.
        learn: the events to learn from; None: all. The others are part of histories only.
        """
        if validate_every < 1:
            raise InputError(f"validate_every={validate_every}: validate after every 1, 2, ... epochs")
        self.data, self.metric, self.validate_every = data, metric, validate_every
        self.start = start
        chosen = config or TrainingConfig() if start is None else continued_config(start, config)
        self.config = config = chosen.resolve_for(data, attributes=attributes is not None)
        _refuse_hopeless(data, config)
        if learn is not None:
            data = replace(data, labels=learn if data.labels is None else data.labels & learn)
        self.training_data, self.held_out = (data, validation) if validation is not None else _hold_out(data, config)
        self.held_out_for_memory = self.held_out
        """Events to choose the weight of the memory by, if it has one."""
        if config.memory == "none" or start is not None:
            self.held_out_for_memory = None
        elif self.held_out_for_memory is None:
            self.training_data, self.held_out_for_memory = _hold_out(data, config, customers_for(data))
        random = np.random.default_rng(config.seed)
        frequency = self.training_data.item_counts
        count = len(data.items)
        self.attributes, unused = _trainable(attributes, config, self.training_data, start)
        attributes = self.attributes
        self.known = self.training_data.item_counts > 0
        """Items that have their own vector, if points are composed."""
        if start is not None:
            self.known |= start.items.rows(data.items.series) != UNKNOWN
        if attributes is not None:
            frequency = np.append(frequency, attributes.sum_counts(frequency))
            count += len(attributes.values)
        self.item_table = table_of(initial_space(count, config, frequency, random), config)
        if config.model == "symmetric":
            self.history_table = table_of(initial_space(len(data.users), config, None, random), config)
        elif config.targets == "separate":
            self.history_table = table_of(initial_space(count, config, frequency, random), config)
        else:
            self.history_table = self.item_table
        if attributes is not None:
            make_runner = partial(EpochRunner, attributes=attributes, known=self.known)
        tables = self.history_table, self.item_table
        continued = [] if start is None else [*start_from(start, self.data, config, *tables, attributes)]
        # rows of the customers to learn from, and the positives of an epoch
        _, self.learners, self.positives = find_learners(self.training_data, config)
        self.runner: Runner = make_runner(self.training_data, config, self.history_table, self.item_table)
        self.notes = [*map(Note.of_text, data.notes), *continued]
        if attributes is not None:
            values = {"attributes": len(attributes.values), "items": int((attributes.counts > 0).sum())}
            self.notes += [*map(Note.of_text, attributes.notes), Note(NoteKind.ATTRIBUTES, values)]
        if unused:
            self.note(NoteKind.OTHER_ITEMS, items=unused)
        self.notes += _notes(self.training_data, len(self.learners), config, partly=learn is not None)
        self.record: list[EpochRecord] = []
        self.best_epoch = 0
        self.best: dict[str, NDArray[np.float32]] = {}

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
        rate = learning_rate(self.config, number)
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
        k = cutoff_of(self.metric)
        model, threads = self._model(self._points()), self.config.threads
        report = evaluate(model, self.held_out, k=k, intervals=False, threads=threads)
        return {name: report[name] for name in (self.metric, f"hr@{k}")}

    def _points(self) -> dict[str, NDArray[np.float32]]:
        points = {side: points_of(table, self.config) for side, table in self._tables().items()}
        if self.attributes is None:
            return points
        count = len(self.data.items)
        for side, vectors in list(points.items()):
            points[f"{side}_attributes"] = vectors[count:]
            points[side] = compose(vectors[:count], self.known, self.attributes, vectors[count:], self.config)
        return points

    def _model(self, points: dict[str, NDArray[np.float32]]) -> Model:
        symmetric = self.config.model == "symmetric"
        return Model(
            config=self.config,
            items=self.data.items,
            item_points=points["items"],
            history_points=points["items"] if symmetric else points.get("histories", points["items"]),
            item_counts=self.training_data.item_counts,
            users=self.data.users,
            user_points=points["histories"] if symmetric else None,
            histories=self.training_data,
            attributes=None
            if self.attributes is None
            else AttributePoints(
                self.attributes,
                points["items_attributes"],
                points.get("histories_attributes", points["items_attributes"]),
            ),
        )

    def result(self) -> Model:
        """The best points where there was validation, else the last; with all histories that were given."""
        notes = list(self.notes)
        if len(self.record) < self.config.epochs and self._out_of_patience:
            values = {"epoch": len(self.record), "metric": self.metric, "best": self.best_epoch}
            notes.append(Note(NoteKind.OUT_OF_PATIENCE, values))
        if capped := sum(epoch.capped_steps for epoch in self.record):
            notes.append(Note(NoteKind.SHORTENED_STEPS, {"steps": capped}))
        best = self.record[self.best_epoch - 1].validation if self.best_epoch else None
        model = self._model(self.best if self.best_epoch else self._points())
        memory, chosen = self._memory(model)
        return replace(
            model,
            memory=memory,
            item_counts=self.data.item_counts,
            histories=self.data,
            oldest_time=None if self.data.times is None else float(self.data.times.min()),
            newest_time=None if self.data.times is None else float(self.data.times.max()),
            parent=None if self.start is None else self.start.fingerprint,
            optimiser_state=self._state(),
            record=tuple(self.record),
            data_digest=self.data.digest,
            metrics={f"validation {name}": value for name, value in (best or {}).items()},
            note_records=(*notes, *chosen),
        )

    def _memory(self, model: Model) -> tuple[Memory | None, list[Note]]:
        """The memory of all events, with the weight that is best on events held out from it and from the points, or
        that of the model that the run started from."""
        config = self.config
        kept = None if self.start is None or config.memory == "none" else self.start.memory
        if kept is not None:
            memory = build_memory(self.data, config.memory_neighbours, ordered=config.history == "causal")
            weight = kept.weight * self.start.config.scale if self.start else 0.0
            if self.attributes is not None:
                memory = with_alike(memory, self.attributes, self.data.item_counts == 0)
            return memory.with_weight(kept.weight), [Note(NoteKind.MEMORY_KEPT, {"weight": weight})]
        if self.held_out_for_memory is None:
            return None, []
        choice = choose_weight(model, self.held_out_for_memory, self.metric)
        values = asdict(choice) | {"metric": self.metric}
        if choice.weight == 0:
            return None, [Note(NoteKind.NO_MEMORY, values)]
        memory = build_memory(self.data, config.memory_neighbours, ordered=config.history == "causal")
        return memory.with_weight(choice.weight / config.scale), [Note(NoteKind.MEMORY, values)]

    def _state(self) -> dict[str, NDArray[Any]] | None:
        """The state of the optimiser."""
        return state_of(self.config, self._tables(), None if self.attributes is None else len(self.data.items))

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
        checkpoint.refuse_other(self.config, self._digest)
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


def _trainable(
    attributes: Any, config: ResolvedConfig, data: Interactions, start: Model | None
) -> tuple[ItemAttributes | None, int]:
    """The attributes in the rows of the data, those of the start model first, and how many items the data do not have.

    Attributes that no event is about are left out.
    """
    known = None if start is None or start.attributes is None else start.attributes.of_items.align(data.items)
    if attributes is None:
        return known, 0
    if config.model == "symmetric":
        raise ConfigError("attributes with model=symmetric: only asymmetric models have them, leave one of them out")
    given = attributes
    if not isinstance(given, ItemAttributes):
        given = ItemAttributes.from_frame(attributes, like=known)
    aligned = given.align(data.items).seen_with(data.item_counts > 0)
    if not len(aligned.values):
        raise InputError(
            f"no item of the data has attributes ({data.items!r} there, {given.items!r} here): check the ids"
        )
    others = int((data.items.rows(given.items.series) == UNKNOWN).sum())
    return (aligned if known is None else aligned.completed_by(known)), others


def _refuse_hopeless(data: Interactions, config: ResolvedConfig) -> None:
    if len(data) == 0:
        raise InputError("there are no events to learn from: give at least one")
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


def _hold_out(
    data: Interactions, config: ResolvedConfig, customers: int | None = None
) -> tuple[Interactions, Interactions | None]:
    """Take the last event (without order: a random one) from some customers with at least three events. It must be
    labelled, where there are labels.

    customers: at most that many; None: as `config.validation` has it.
    """
    if (customers is None and config.validation == 0) or customers == 0:
        return data, None
    labels = np.ones(len(data), bool) if data.labels is None else data.labels
    last = np.maximum(data.offsets[1:] - 1, 0)
    before = offsets_of(labels.astype(np.int64))[data.offsets]  # labelled events before each customer
    counts = np.diff(before)
    able = np.flatnonzero((data.lengths >= 3) & (labels[last] if data.ordered else counts > 0))
    wanted = config.validation if config.validation >= 1 else config.validation * len(able)
    count = min(int(wanted) if customers is None else customers, len(able))
    if count == 0 and customers is not None:
        return data, None
    if count == 0:
        raise InputError(
            f"validation={config.validation} holds out no event, as {len(able)} customers have the three it takes: "
            "set it to 0, or higher"
        )
    random = np.random.default_rng([config.seed, 1])
    chosen = random.choice(able, count, replace=False)
    places = data.offsets[chosen + 1] - 1
    if not data.ordered:
        skipped = (random.random(count) * counts[chosen]).astype(np.int64)  # labelled events before the chosen one
        places = np.flatnonzero(labels)[before[chosen] + skipped]
    out = mask_of(places, len(data))
    return data.select(~out), data.select(out)


def _notes(data: Interactions, learners: int, config: ResolvedConfig, *, partly: bool) -> Iterator[Note]:
    """What is known before the first epoch; `partly`: customers without an event to learn from are wanted."""
    if config.model == "asymmetric" and not data.ordered:
        yield Note(NoteKind.NO_TIMES, {"folds": config.folds})
    elif config.model == "asymmetric" and config.history == "causal" and data.tied_share > 0:
        # Data that were read or made of pairs carry the note already.
        yield from () if mentions_ties(data.notes) else (Note.of_text(data.ties_note),)
    short = int((data.lengths > 0).sum()) - learners
    if short and not partly:
        kind = NoteKind.SINGLE_EVENT if data.labels is None else NoteKind.NO_PREDICTABLE_LABEL
        yield Note(kind, {"customers": short})
    if config.triplets and config.threads > 1:
        yield Note(NoteKind.ONE_THREAD if config.deterministic else NoteKind.NOT_REPRODUCIBLE)
    if config.negative_count > len(data.items):
        values = {"negatives": config.negative_count, "items": len(data.items)}
        yield Note(NoteKind.FEWER_ITEMS_THAN_NEGATIVES, values)
