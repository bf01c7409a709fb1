"""One training run: its tables, its epochs, the best of them, and the model at the end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions, offsets_of
from lorentzrec.errors import InputError
from lorentzrec.evaluation.protocol import cutoff_of, evaluate
from lorentzrec.learning.checkpoint import Checkpoint
from lorentzrec.learning.epochs import EpochResult, EpochRunner
from lorentzrec.learning.initialisation import initial_space
from lorentzrec.learning.kernels.structures import Table
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.tables import points_of, table_of
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.record import EpochRecord

VALIDATION_METRIC = "ndcg@10"


@dataclass
class TrainingRun:
    """The state of one training run between epochs."""

    data: Interactions
    """All that was given: the histories that the model will know."""
    learned: Interactions
    """What is learned from: all but what is held out."""
    held_out: Interactions | None
    config: TrainingConfig
    metric: str = VALIDATION_METRIC
    """What the best epoch is chosen by."""
    validate_every: int = 1
    record: list[EpochRecord] = field(default_factory=list)
    best_epoch: int = 0
    best: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        data: Interactions,
        config: TrainingConfig | None = None,
        validation: Interactions | None = None,
        metric: str = VALIDATION_METRIC,
        validate_every: int = 1,
    ) -> TrainingRun:
        """Decide what `config` leaves open, hold events out if asked, and put every point at its start."""
        if validate_every < 1:
            raise InputError(f"validate_every={validate_every}: validate after every 1, 2, ... epochs")
        config = (config or TrainingConfig()).resolve_for(data)
        _refuse_hopeless(data, config)
        learned, held_out = (data, validation) if validation is not None else _hold_out(data, config)
        return cls(data, learned, held_out, config, metric, validate_every)

    def __post_init__(self) -> None:
        config = self.config
        random = np.random.default_rng(config.seed)
        frequency = self.learned.item_counts
        self.items = table_of(initial_space(len(self.data.items), config, frequency, random), config)
        if config.model == "symmetric":
            self.histories = table_of(initial_space(len(self.data.users), config, None, random), config)
        elif config.targets == "separate":
            self.histories = table_of(initial_space(len(self.data.items), config, frequency, random), config)
        else:
            self.histories = self.items
        self.runner = EpochRunner(self.learned, config, self.histories, self.items)
        self.notes = [*self.data.notes, *_notes(self.learned, self.runner, config)]

    @property
    def epochs(self) -> int:
        assert self.config.epochs is not None
        return self.config.epochs

    @property
    def finished(self) -> bool:
        return len(self.record) >= self.epochs or self._out_of_patience

    @property
    def _out_of_patience(self) -> bool:
        waited = len(self.record) - self.best_epoch
        return self.held_out is not None and waited >= self.config.patience and self.record[-1].validation is not None

    def epoch(self, progress: TrainingProgress, cancelled: threading.Event) -> EpochRecord:
        """Run the next epoch, validate it if it is its turn, and keep its points if they are the best so far."""
        number = len(self.record) + 1
        progress.begin(number)
        rate = learning_rate(self.config, number)
        result = self.runner.run(number, rate, progress.advance, cancelled)
        if number == 1:
            self._note_first(result)
        metrics = None
        if self.held_out is not None and (number % self.validate_every == 0 or number == self.epochs):
            k = cutoff_of(self.metric)
            model, threads = self._model(self._points()), self.config.threads
            report = evaluate(model, self.held_out, k=k, intervals=False, threads=threads)
            metrics = {name: report[name] for name in (self.metric, f"hr@{k}")}
        record = EpochRecord(
            epoch=number,
            loss=result.loss,
            learning_rate=rate,
            clipped_gradients=result.clipped,
            capped_steps=result.capped,
            seconds=result.seconds,
            events_per_second=result.positives / max(result.seconds, 1e-9),
            validation=metrics,
        )
        best_before = max((self._validated(earlier) for earlier in self.record), default=-1.0)
        self.record.append(record)
        if metrics is not None and self._validated(record) > best_before:
            self.best_epoch, self.best = number, self._points()
        return record

    def _note_first(self, result: EpochResult) -> None:
        if result.saturated:
            self.notes.append(
                f"{result.saturated:,} times in epoch 1, a customer had touched all items there were to compare with"
            )
        if result.coincident:
            self.notes.append(f"{result.coincident:,} pairs of points coincided in epoch 1 and gave no direction")

    def _points(self) -> dict[str, NDArray[np.float32]]:
        points = {"items": points_of(self.items, self.config)}
        if self.histories is not self.items:
            points["histories"] = points_of(self.histories, self.config)
        return points

    def _model(self, points: dict[str, NDArray[np.float32]]) -> Model:
        symmetric = self.config.model == "symmetric"
        return Model(
            config=self.config,
            items=self.data.items,
            item_points=points["items"],
            history_points=points["items"] if symmetric else points.get("histories", points["items"]),
            item_counts=self.learned.item_counts,
            users=self.data.users,
            user_points=points["histories"] if symmetric else None,
            histories=self.learned,
        )

    def result(self) -> Model:
        """The best points where there was validation, else the last; with all histories that were given."""
        notes = list(self.notes)
        if len(self.record) < self.epochs and self._out_of_patience:
            notes.append(
                f"stopped after epoch {len(self.record)}: no better {self.metric} since epoch {self.best_epoch}"
            )
        capped = sum(epoch.capped_steps for epoch in self.record)
        if capped:
            notes.append(f"{capped:,} steps beyond the safety length or the largest radius were shortened")
        metrics = (
            {f"validation {name}": value for name, value in (self._best_record().validation or {}).items()}
            if self.best_epoch
            else {}
        )
        return replace(
            self._model(self.best if self.best_epoch else self._points()),
            item_counts=self.data.item_counts,
            histories=self.data,
            record=tuple(self.record),
            data_digest=self.data.digest,
            metrics=metrics,
            notes=tuple(notes),
        )

    def _validated(self, record: EpochRecord) -> float:
        return -1.0 if record.validation is None else record.validation[self.metric]

    def _best_record(self) -> EpochRecord:
        return self.record[self.best_epoch - 1]

    def _tables(self) -> dict[str, Table]:
        return {"items": self.items} | ({} if self.histories is self.items else {"histories": self.histories})

    def checkpoint(self) -> Checkpoint:
        arrays: dict[str, NDArray[Any]] = {f"best_{side}": points for side, points in self.best.items()}
        for side, table in self._tables().items():
            arrays |= {f"{side}_{name}": array for name, array in table._asdict().items()}
        return Checkpoint(self.config, self.data.digest, tuple(self.record), self.best_epoch, tuple(self.notes), arrays)

    def restore(self, checkpoint: Checkpoint) -> None:
        checkpoint.refuse_other(self.config, self.data.digest)
        if any(self.metric not in epoch.validation for epoch in checkpoint.record if epoch.validation is not None):
            raise InputError(f"the checkpoint was not validated by {self.metric}: resume with the metric it began with")
        for side, table in self._tables().items():
            for name, array in table._asdict().items():
                array[...] = checkpoint.array(f"{side}_{name}", array)
        points = self._points()
        self.best = {side: checkpoint.array(f"best_{side}", points[side]) for side in points if checkpoint.best_epoch}
        self.record, self.best_epoch = list(checkpoint.record), checkpoint.best_epoch
        self.notes = list(checkpoint.notes)


def learning_rate(config: TrainingConfig, epoch: int) -> float:
    """The rate of an epoch; the first is 1."""
    rate, decay, epochs = config.learning_rate, config.learning_rate_decay, config.epochs
    if rate is None or decay is None or epochs is None:
        raise ValueError("resolve the config first")
    rate *= min(1.0, epoch / (config.warmup_epochs + 1))
    if config.schedule == "inverse":
        return rate / (1 + decay * (epoch - 1))
    return rate * (1 - decay * (epoch - 1) / epochs)


def _refuse_hopeless(data: Interactions, config: TrainingConfig) -> None:
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
            "every customer to learn from has touched every item, so there is nothing to compare with: "
            "give data with something unseen"
        )


def _hold_out(data: Interactions, config: TrainingConfig) -> tuple[Interactions, Interactions | None]:
    """Take the last event (without order: a random one) from some customers with at least three events. It must be
    labelled, where there are labels."""
    if config.validation == 0:
        return data, None
    labels = np.ones(len(data), bool) if data.labels is None else data.labels
    last = np.maximum(data.offsets[1:] - 1, 0)
    before = offsets_of(labels.astype(np.int64))[data.offsets]  # labelled events before each customer
    counts = np.diff(before)
    able = np.flatnonzero((data.lengths >= 3) & (labels[last] if data.ordered else counts > 0))
    wanted = config.validation if config.validation >= 1 else config.validation * len(able)
    count = min(int(wanted), len(able))
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
    out = np.zeros(len(data), bool)
    out[places] = True
    return data.select(~out), data.select(out)


def _notes(data: Interactions, runner: EpochRunner, config: TrainingConfig) -> list[str]:
    notes = []
    if config.model == "asymmetric" and not data.ordered:
        notes.append("the events have no times, so histories are used leave-one-out and without recency")
    elif config.model == "asymmetric" and config.history == "causal" and data.tied_share > 0:
        notes.append(
            f"{data.tied_share:.1%} of neighbouring events have equal times; their order is that of the "
            f"{'item ids' if data.ties_by_id else 'input'}"
        )
    short = int((data.lengths > 0).sum()) - len(runner.learners)
    if short and data.labels is not None:
        notes.append(f"{short:,} customers have no labelled event that could be predicted: not learned from")
    elif short:
        notes.append(f"{short:,} customers have a single event and nothing to predict it from: not learned from")
    if runner.triplets and len(runner.workspaces) > 1:
        notes.append(
            "symmetric BPR on several threads shares points without locks: results vary from run to run; "
            "deterministic=True runs it on one thread"
        )
    elif runner.triplets and (config.threads or 1) > 1:
        notes.append("deterministic symmetric BPR runs on one thread")
    if config.negative_count is not None and config.negative_count > len(data.items):
        notes.append(
            f"negative_count is {config.negative_count}, more than the {len(data.items)} items: all of them are used"
        )
    return notes
