"""Training end to end: repeatable, resumable, stoppable, and clear about what it cannot do."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec.base.interrupts import deferred_interrupts
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError, StopTraining, TrainingError, TrainingInterrupted
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning import run as run_module
from lorentzrec.learning.epochs import EpochRunner
from lorentzrec.learning.memory_weight import USUAL_WEIGHTS
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.run import TrainingRun
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.model.record import EpochRecord
from tests.interruptible_processes import environment
from tests.learning.grouped_data import grouped, quick

DATA = grouped()
TRAIN, TEST = DATA.split("leave_last_out")
KINDS: list[dict[str, str]] = [
    {"model": "asymmetric", "loss": "wmrb"},
    {"model": "symmetric", "loss": "bpr"},
    {"model": "symmetric", "loss": "softmax", "optimiser": "adam"},
]
"""One for each kernel."""


def same_points(left: Model, right: Model) -> bool:
    """Bit by bit."""
    pairs = [(left.item_points, right.item_points), (left.history_points, right.history_points)]
    if left.user_points is not None and right.user_points is not None:
        pairs.append((left.user_points, right.user_points))
    return all(one.tobytes() == other.tobytes() for one, other in pairs)


def kinds(model: Model) -> set[NoteKind]:
    return {note.kind for note in model.note_records}


def learned_by(model: Model) -> list[tuple[float, dict[str, float] | None]]:
    """The record without the time it took."""
    return [(epoch.loss, epoch.validation) for epoch in model.record]


# --- it learns


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("loss", ["bpr", "wmrb", "softmax"])
def test_a_trained_model_beats_popularity(geometry: str, model: str, loss: str) -> None:
    trained = train(TRAIN, quick(geometry=geometry, model=model, loss=loss, epochs=10))
    found = evaluate(trained, TEST, intervals=False)
    popular = evaluate(Popularity(TRAIN), TEST, intervals=False)
    assert found["hr@10"] > 1.5 * popular["hr@10"]
    assert trained.record[-1].loss < trained.record[0].loss
    if geometry == "hyperboloid":
        points = trained.item_points.astype(np.float64)
        assert np.abs(-(points[:, 0] ** 2) + (points[:, 1:] ** 2).sum(axis=1) + 1).max() < 1e-5


@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
@pytest.mark.parametrize("score", ["inner", "distance"])
@pytest.mark.parametrize("initialisation", ["cube", "frequency"])
def test_other_settings_learn_too(optimiser: str, score: str, initialisation: str) -> None:
    options = {"optimiser": optimiser, "score": score, "initialisation": initialisation}
    trained = train(TRAIN, quick(epochs=10, learning_rate=0.1, history="folds", **options))
    popular = evaluate(Popularity(TRAIN), TEST, intervals=False)
    assert evaluate(trained, TEST, intervals=False)["hr@10"] > 1.5 * popular["hr@10"]


def test_two_threads_learn_as_well() -> None:
    one, two = (train(TRAIN, quick(threads=threads, epochs=8)) for threads in (1, 2))
    found = [evaluate(model, TEST, intervals=False)["hr@10"] for model in (one, two)]
    assert found[1] > 0.8 * found[0]


def test_weights_matter() -> None:
    """Events that weigh next to nothing leave their items where they were."""
    items = np.array([f"{'heavy' if place % 2 else 'light'} {place % 20}" for place in range(400)])
    weights = np.where(np.arange(400) % 2, 1.0, 1e-6)
    data = Interactions.from_pairs(np.arange(400) // 10, items, np.arange(400), weights)
    config = quick(optimiser="rsgd", negative_count=1, seed=3, targets="shared", epochs=3)
    moved = np.abs(train(data, config).item_points - train(data, config.replace(epochs=0)).item_points).max(axis=1)
    light = [str(identifier).startswith("light") for identifier in data.items.series.to_list()]
    assert moved[light].mean() < 0.5 * moved[~np.array(light)].mean()


# --- it is repeatable


@pytest.mark.parametrize("options", KINDS)
def test_one_seed_and_one_thread_give_the_same_bits(options: dict[str, str]) -> None:
    first, second = train(DATA, quick(**options)), train(DATA, quick(**options))
    assert same_points(first, second)
    assert learned_by(first) == learned_by(second)
    assert not same_points(first, train(DATA, quick(seed=2, **options)))


def interrupt_before(epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when this epoch begins."""
    begin = TrainingProgress.begin

    def begin_or_stop(self: TrainingProgress, number: int) -> None:
        begin(self, number)
        if number == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingProgress, "begin", begin_or_stop)


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize("validation", [0.0, 0.5])
def test_an_interrupted_run_ends_in_the_same_bits(options: dict[str, str], validation: float, tmp_path: Path) -> None:
    config = quick(validation=validation, patience=2, epochs=6, negative_count=2, **options)
    whole = train(DATA, config)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_before(3, patch)
        with pytest.raises(
            TrainingInterrupted, match="interrupted in epoch 3 of 6: `model` is the model so far"
        ) as caught:
            train(DATA, config, checkpoint=tmp_path / "run")
    part = caught.value.model
    assert len(part.record) == 2
    assert "interrupted in epoch 3 of 6" in part.notes
    resumed = train(DATA, config, checkpoint=tmp_path / "run", resume=True)
    assert same_points(whole, resumed)
    assert learned_by(whole) == learned_by(resumed)
    assert (whole.metrics, whole.notes) == (resumed.metrics, resumed.notes)
    assert same_points(whole, train(DATA, config, checkpoint=tmp_path / "run", resume=True)), "nothing is left to do"


def test_a_resumed_run_keeps_its_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are made in the first epoch, which a resumed run does not repeat."""
    everything = [(0, item) for item in range(5)] + [(user, item) for user in range(1, 9) for item in range(2)]
    users, items = zip(*everything, strict=True)
    data = Interactions.from_pairs(users, items, np.arange(len(users)))
    whole = train(data, quick())
    assert NoteKind.NO_VALID_NEGATIVE in kinds(whole)
    with monkeypatch.context() as patch:
        interrupt_before(3, patch)
        with pytest.raises(TrainingInterrupted):
            train(data, quick(), checkpoint=tmp_path / "run")
    assert train(data, quick(), checkpoint=tmp_path / "run", resume=True).notes == whole.notes


# --- it can be stopped


LOOP_OVER_SEEDS = """
from tests.learning.grouped_data import grouped, quick
from lorentzrec.errors import TrainingInterrupted
from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.trainer import train

begin = TrainingProgress.begin
TrainingProgress.begin = lambda self, epoch: (begin(self, epoch), epoch == 3 and print("go", flush=True))
for seed in range(2):
    try:
        train(grouped(events=20000), quick(epochs=10**6, threads=2, blocks_per_step=2, seed=seed))
    except Exception:
        pass  # a careless loop: Ctrl-C must end it all the same
    except TrainingInterrupted as interrupted:
        model = interrupted.model
        print(model.item_points.shape, len(model.record) >= 2, model.notes[-1])
        break
"""
INTERRUPTED_BETWEEN_STARTS = """
import signal
from concurrent.futures import ThreadPoolExecutor
from tests.learning.grouped_data import grouped, quick
from lorentzrec.errors import TrainingInterrupted
from lorentzrec.learning.trainer import train

submit, started = ThreadPoolExecutor.submit, []

def submit_and_interrupt(pool, work, part, **rest):
    running = submit(pool, work, part, **rest)
    started.append(part)
    if started == [0, 1, 0]:
        signal.raise_signal(signal.SIGINT)
    return running

ThreadPoolExecutor.submit = submit_and_interrupt
try:
    train(grouped(events=20000), quick(epochs=10**6, threads=2, blocks_per_step=2))
except TrainingInterrupted as interrupted:
    print(interrupted)
"""


def start(program: str) -> subprocess.Popen[str]:
    env = environment()
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def test_ctrl_c_ends_with_a_model() -> None:
    """A real signal, in the middle of a kernel most of the time, with two threads at work."""
    process = start(LOOP_OVER_SEEDS)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(2)
    out, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    assert out.startswith("(60, 7) True interrupted in epoch ")


def test_ctrl_c_while_the_threads_are_started() -> None:
    """One has begun and the other has not: they wait for each other at the end of every step."""
    out, errors = start(INTERRUPTED_BETWEEN_STARTS).communicate(timeout=300)
    assert (out, errors) == ("training was interrupted in epoch 2 of 1000000: `model` is the model so far\n", "")


def test_a_signal_whose_handler_returns_does_not_end_training() -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        whole = train(DATA, quick(), callbacks=[lambda record: signal.raise_signal(signal.SIGTERM)])
        with deferred_interrupts():
            signal.raise_signal(signal.SIGTERM)
            assert len(received) == len(whole.record) + 1, "it is called at once"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert same_points(whole, train(DATA, quick()))


def test_an_interrupt_before_the_end_of_the_first_epoch_has_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_before(1, monkeypatch)
    with pytest.raises(KeyboardInterrupt, match="interrupted in epoch 1 of 4: there is no model yet") as caught:
        train(DATA, quick())
    assert isinstance(caught.value, TrainingInterrupted)
    assert caught.value.model is None


def test_an_interrupted_run_does_not_search_the_weight_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    config = quick(memory="auto")
    assert NoteKind.MEMORY_NOT_TUNED not in kinds(train(DATA, config))
    interrupt_before(3, monkeypatch)
    with pytest.raises(TrainingInterrupted) as caught:
        train(DATA, config)
    model = caught.value.model
    assert model is not None
    assert model.memory is not None
    assert model.memory.weight == pytest.approx(USUAL_WEIGHTS["causal"] / model.config.scale)
    assert "the memory has the usual weight 1: training ended before a weight was chosen" in model.notes
    assert not {NoteKind.MEMORY, NoteKind.NO_MEMORY} & kinds(model)


def test_a_second_interrupt_cannot_lose_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C during the search of the weight, after the last epoch."""

    def interrupted(*arguments: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(run_module, "choose_weight", interrupted)
    with pytest.raises(TrainingInterrupted, match="interrupted after epoch 4 of 4: `model` is the") as caught:
        train(DATA, quick(memory="auto"))
    assert caught.value.model is not None
    assert len(caught.value.model.record) == 4


def test_the_runner_of_another_engine_is_never_replaced() -> None:
    frame = pl.DataFrame({"item": DATA.items.series, "colour": ["red"] * len(DATA.items)})
    with pytest.raises(ConfigError, match="only the local engine composes points of attributes"):
        TrainingRun(DATA, quick(), attributes=frame, make_runner=EpochRunner)


def test_an_interrupted_model_with_validation_is_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    config = quick(optimiser="rsgd", learning_rate=3.0, epochs=12, learning_rate_decay=0.0, validation=0.5, patience=9)
    interrupt_before(8, monkeypatch)
    with pytest.raises(TrainingInterrupted) as caught:
        train(DATA, config)
    scores = [epoch.validation["ndcg@10"] for epoch in caught.value.model.record]
    assert len(scores) == 7
    assert int(np.argmax(scores)) < 6, "the last is not the best, or this shows nothing"
    assert caught.value.model.metrics["validation ndcg@10"] == max(scores)
    monkeypatch.undo()
    assert same_points(caught.value.model, train(DATA, config.replace(epochs=int(np.argmax(scores)) + 1)))


def test_a_callback_can_stop_training_and_keep_the_model() -> None:
    def stop(record: EpochRecord) -> None:
        if record.epoch == 2:
            raise StopTraining("that is enough")

    stopped = train(DATA, quick(learning_rate_decay=0.0), callbacks=[stop])
    assert len(stopped.record) == 2
    assert "stopped after epoch 2 by a callback: that is enough" in stopped.notes
    assert same_points(stopped, train(DATA, quick(learning_rate_decay=0.0, epochs=2)))


def test_a_callback_that_fails_does_not_lose_the_model() -> None:
    def stop(record: EpochRecord) -> None:
        if record.epoch == 2:
            raise ConnectionError("the tracker is gone")

    with pytest.raises(ConnectionError, match="the tracker is gone") as caught:
        train(DATA, quick(learning_rate_decay=0.0), callbacks=[stop])
    model = caught.value.model  # type: ignore[attr-defined]
    assert same_points(model, train(DATA, quick(learning_rate_decay=0.0, epochs=2)))
    assert "the attribute `model` of this exception is the model so far" in caught.value.__notes__[-1]


def test_early_stopping_gives_the_best_epoch() -> None:
    """With a rate that makes things worse from some epoch on; the model is that of the best, bit by bit."""
    config = quick(optimiser="rsgd", learning_rate=3.0, validation=0.5, patience=2, epochs=12, learning_rate_decay=0.0)
    stopped = train(DATA, config)
    scores = [epoch.validation["ndcg@10"] for epoch in stopped.record if epoch.validation is not None]
    best = int(np.argmax(scores)) + 1
    assert len(scores) == len(stopped.record) == best + 2 < 12
    assert same_points(stopped, train(DATA, config.replace(epochs=best)))
    assert stopped.metrics["validation ndcg@10"] == max(scores)
    assert f"stopped after epoch {best + 2}: no better ndcg@10 since epoch {best}" in stopped.notes


def test_held_out_events_are_not_learned_from() -> None:
    trained = train(DATA, quick(validation=20, epochs=1))
    assert trained.record[0].validation is not None
    assert set(trained.record[0].validation) == {"ndcg@10", "hr@10"}
    assert trained.histories is DATA, "the model knows all histories all the same"
    assert not same_points(trained, train(DATA, quick(epochs=1)))
    given = train(TRAIN, quick(epochs=1), validation=TEST)
    assert same_points(given, train(TRAIN, quick(epochs=1))), "given events are held out already"
    assert given.metrics["validation hr@10"] == evaluate(given, TEST, intervals=False)["hr@10"]


# --- what it cannot do


def ordered(users: list[int], items: list[int], **columns: Any) -> Interactions:
    return Interactions.from_pairs(users, items, **({"times": range(len(users))} | columns))


@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
def test_one_item_is_nothing_to_rank(model: str) -> None:
    with pytest.raises(InputError, match=r"only one item \(5\), .*: give at least two$"):
        train(ordered([1, 1, 2], [5, 5, 5]), quick(model=model))


def test_single_events_predict_nothing() -> None:
    data = ordered([1, 2, 3], [1, 2, 3])
    with pytest.raises(InputError, match=r"no customer has two events.*model=symmetric$"):
        train(data, quick())
    assert len(train(data, quick(model="symmetric", loss="bpr")).item_ids) == 3


def test_some_single_events_are_noted() -> None:
    trained = train(ordered([1, 1, 2, 3], [1, 2, 1, 3]), quick(epochs=1))
    assert "2 customers have a single event and nothing to predict it from: not used in training" in trained.notes


@pytest.mark.parametrize("options", KINDS)
def test_customers_with_every_item_have_no_negatives(options: dict[str, str]) -> None:
    everybody = ordered([1, 1, 1, 2, 2, 2, 2], [1, 2, 3, 3, 2, 1, 1])
    with pytest.raises(InputError, match=r"interacted with every item.*: give data with something unseen$"):
        train(everybody, quick(**options))
    one = ordered([1, 1, 1, 2, 2], [1, 2, 3, 3, 2])
    assert kinds(train(one, quick(epochs=1, negative_count=1, **options))) == {NoteKind.NO_VALID_NEGATIVE}


@pytest.mark.parametrize("options", KINDS)
def test_few_negatives_that_all_are_taken_are_no_error(options: dict[str, str]) -> None:
    """Every customer has eight of ten items, so a single negative is often one of them."""
    random = np.random.default_rng(0)
    items = np.concatenate([random.permutation(10)[:8] for _ in range(6)])
    trained = train(ordered(np.repeat(range(6), 8).tolist(), items.tolist()), quick(negative_count=1, **options))
    assert np.isfinite(trained.item_points).all()


def test_more_negatives_than_items_are_all_items() -> None:
    trained = train(DATA, quick(negative_count=1000, epochs=1))
    assert "negative_count is 1000, more than the 60 items: all of them are used" in trained.notes
    assert same_points(trained, train(DATA, quick(negative_count=60, epochs=1)))


def test_order_and_ties_are_noted() -> None:
    unordered = train(grouped(times=None), quick(epochs=1))
    assert "the events have no times: histories are used without order, in 3 folds" in unordered.notes
    assert (unordered.config.history, unordered.config.recency) == ("folds", 1.0)
    tied = train(ordered([1, 1, 1, 2, 2], [1, 2, 3, 1, 2], times=[5, 5, 6, 7, 8]), quick(epochs=1))
    mentioned = [note for note in tied.notes if "equal times" in note]
    shuffled = "shuffled: give `ties='given'` if the order of the rows is meaningful"
    assert mentioned == [f"33 % of neighbouring events of a customer have equal times, and are {shuffled}"]
    assert train(DATA, quick(epochs=1, negative_count=20)).notes == (), "nothing to say"


@pytest.mark.parametrize("options", [{"recency": 0.5}, {"history": "causal"}])
def test_what_needs_order_is_refused_without_times(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="needs the order of events, and these have no times: give times"):
        train(grouped(times=None), quick(**options))


@pytest.mark.parametrize("weight", [np.nan, np.inf, 0.0, -1.0])
def test_weights_that_are_no_weights_are_refused(weight: float) -> None:
    with pytest.raises(InputError, match="the weight in row 3 is"):
        grouped(weights=np.where(np.arange(1500) == 2, weight, 1.0))


def test_validation_after_every_few_epochs_and_the_last() -> None:
    """Patience ends only after an epoch that was validated."""

    def validated(**settings: Any) -> list[int]:
        model = train(TRAIN, quick(**settings), validation=TEST, validate_every=3)
        return [0 if epoch.validation is None else epoch.epoch for epoch in model.record]

    assert validated(epochs=7) == [0, 0, 3, 0, 0, 6, 7]
    assert validated(epochs=40, learning_rate=0.0, patience=1) == [0, 0, 3, 0, 0, 6]
    with pytest.raises(InputError, match="validate_every=0: validate after every 1, 2"):
        train(TRAIN, quick(), validation=TEST, validate_every=0)


def test_validation_without_anybody_to_hold_out() -> None:
    with pytest.raises(InputError, match=r"validation=0\.5 selects no customer: only 0 have the required three events"):
        train(ordered([1, 1, 2, 2], [1, 2, 2, 3]), quick(validation=0.5))


def test_a_metric_of_ones_own_and_a_callback_that_ends_it(tmp_path: Path) -> None:
    class Enough(Exception):  # noqa: N818, no error: the end that the callback wants
        pass

    seen = []

    def stop(record: EpochRecord) -> None:
        seen.append(record.validation)
        if record.epoch == 2:
            raise Enough

    with pytest.raises(Enough):
        train(TRAIN, quick(), validation=TEST, metric="recall@3", callbacks=[stop])
    model = train(TRAIN, quick(), validation=TEST, metric="recall@3", checkpoint=tmp_path / "run")
    assert seen == [epoch.validation for epoch in model.record[:2]]
    assert model.metrics.keys() == {"validation recall@3", "validation hr@3"}
    with pytest.raises(InputError, match="not validated by ndcg@10: resume with the metric it began with"):
        train(TRAIN, quick(), validation=TEST, checkpoint=tmp_path / "run", resume=True)
    with pytest.raises(ConfigError, match="there is no metric 'coverage@3': use hr"):
        train(TRAIN, quick(), validation=TEST, metric="coverage@3")


def test_resume_without_a_checkpoint_folder() -> None:
    with pytest.raises(InputError, match="resume without a checkpoint: name the folder"):
        train(DATA, quick(), resume=True)


def test_no_epochs_leave_the_points_at_their_start() -> None:
    trained = train(DATA, quick(epochs=0))
    assert trained.record == ()
    assert np.abs(trained.item_points[:, 1:]).max() < 0.3


@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("loss", ["bpr", "wmrb", "softmax"])
def test_a_hundred_times_the_usual_rate(optimiser: str, geometry: str, loss: str) -> None:
    """Steps and radius have their limits, so all points stay finite, and shortened steps are noted."""
    for model, score in product(("asymmetric", "symmetric"), ("inner", "distance")):
        config = quick(optimiser=optimiser, geometry=geometry, loss=loss, model=model, score=score, epochs=3)
        usual = config.resolve(ordered=True, events=1, users=1, items=1).learning_rate
        assert usual is not None
        trained = train(DATA, config.replace(learning_rate=100 * usual))
        for points in (trained.item_points, trained.history_points, trained.user_points):
            assert points is None or np.isfinite(points).all()
        if any(epoch.capped_steps for epoch in trained.record):
            assert NoteKind.SHORTENED_STEPS in kinds(trained)


@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
def test_infinite_points_stop_training(optimiser: str, geometry: str, model: str) -> None:
    """Nothing but weights and scales at the end of float32 gets so far."""
    config = quick(optimiser=optimiser, geometry=geometry, model=model, loss="bpr", scale=100.0)
    with pytest.raises(
        TrainingError, match=r"became infinite in epoch 1, row \d+: lower learning_rate, or set clip_norm"
    ):
        train(grouped(weights=np.full(1500, 3e38)), config)


def test_a_loss_that_is_no_number_stops_training() -> None:
    config = quick(loss="wmrb", scale=3e38)
    with pytest.raises(TrainingError, match=r"the loss became (inf|nan) in epoch 1: lower scale, initial_width or"):
        train(DATA, config)


@pytest.mark.parametrize("options", KINDS)
def test_progress_ends_where_it_said_it_would(options: dict[str, str]) -> None:
    run = TrainingRun(DATA, quick(negative_count=3, **options))
    done = []
    result = run.runner.run(1, 0.1, lambda positives, loss: done.append(positives), threading.Event())
    expected = 1500 - 60 if options["model"] == "asymmetric" else 1500  # the first event of a history has none itself
    assert sum(done) == result.positives == run.positives == expected * (3 if options["loss"] == "bpr" else 1)


@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad"])
def test_threads_that_fight_over_few_rows_leave_points(optimiser: str) -> None:
    """A race cannot be forced, so this is a stress: two threads, a dozen items, every step meets the other thread."""
    random = np.random.default_rng(3)
    data = Interactions.from_pairs(random.integers(0, 20_000, 100_000), random.integers(0, 12, 100_000))
    config = TrainingConfig(model="symmetric", loss="bpr", dimension=50, epochs=20, threads=2).replace(
        optimiser=optimiser
    )
    points = train(data, config, progress=False).item_points.astype(float)
    residual = abs(1 + (points[:, 1:] ** 2).sum(1) - points[:, 0] ** 2)
    assert (residual < 1e-5 * points[:, 0] ** 2 + 1e-5).all()
