"""Training with masses: what they learn, that nothing else changes without them, and every way to continue."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import ConfigError, Interactions, Model, TrainingConfig, load, train, update
from lorentzrec.learning.epochs import EpochRunner
from lorentzrec.learning.kernels.structures import Loss
from lorentzrec.learning.run import TrainingRun
from tests.learning.grouped_data import grouped, quick
from tests.learning.small_blocks import settings
from tests.reference import losses
from tests.reference.blocks import LOSS_NAMES

DATA = grouped(users=70, events=1800)


def skewed() -> Interactions:
    """Customers who buy item 0 half of the time, and else any of thirty."""
    random = np.random.default_rng(2)
    users = np.repeat(np.arange(120), 12)
    items = np.where(random.random(len(users)) < 0.5, 0, random.integers(0, 30, len(users)))
    return Interactions.from_pairs(users, items, np.arange(len(users)))


def fit(data: Interactions, **options: Any) -> Model:
    return train(data, quick(**{"masses": "on", "epochs": 2} | options), progress=False)


@pytest.mark.parametrize("loss", ["bpr", "wmrb", "softmax"])
def test_gradients_of_masses_are_finite_differences(loss: str) -> None:
    """The derivative by a mass is that by the score of its item: what the kernels and their reference add up."""
    assert LOSS_NAMES[Loss[loss.upper()]] == loss
    random = np.random.default_rng(3)
    scores, masses = random.normal(size=6), random.normal(size=6)

    def value(masses: Any) -> float:
        return losses.loss(loss, scores + masses, scale=2.0, margin=1.0, weight=1.5)[0]

    _, slopes = losses.loss(loss, scores + masses, scale=2.0, margin=1.0, weight=1.5)
    for item, direction in enumerate(1e-6 * np.eye(6)):
        difference = (value(masses + direction) - value(masses - direction)) / 2e-6
        assert slopes[item] == pytest.approx(difference, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("loss", ["bpr", "wmrb", "softmax"])
@pytest.mark.parametrize("history", ["causal", "folds"])
@pytest.mark.parametrize("optimiser", ["adagrad", "rsgd"])
def test_the_most_popular_item_gets_the_greatest_mass(model: str, loss: str, history: str, optimiser: str) -> None:
    if model == "symmetric" and history == "folds":
        history = "causal"
    options = {"model": model, "loss": loss, "history": history, "optimiser": optimiser, "targets": "shared"}
    options |= {"geometry": "euclidean", "score": "inner"} if loss == "bpr" else {}
    found = fit(skewed(), epochs=5, **options).masses
    assert found is not None
    assert found.argmax() == 0
    assert found[0] > np.sort(found)[-2] + 1e-4


def test_any_number_of_threads_gives_the_same_bits() -> None:
    for options in ({}, {"score": "inner"}, {"loss": "wmrb", "history": "folds"}, {"model": "symmetric"}):
        config: dict[str, Any] = {"negative_count": 5, "blocks_per_step": 4, "deterministic": True, **options}
        found = [fit(DATA, threads=threads, **config) for threads in (1, 2, 3, 8)]
        for one in found:
            assert one.masses is not None
            assert one.masses.tobytes() == found[0].masses.tobytes()  # type: ignore[union-attr]
            assert one.item_points.tobytes() == found[0].item_points.tobytes()


def test_masses_are_learned_in_few_dimensions_by_default() -> None:
    def resolve(**options: Any) -> str:
        config = TrainingConfig.from_mapping(options)
        return config.resolve(ordered=True, events=1000, users=100, items=50).masses

    assert [resolve(dimension=dimension) for dimension in (8, 32, 33, 50)] == ["on", "on", "off", "off"]
    assert resolve(dimension=8, masses="off") == resolve(dimension=8, optimiser="rsgd") == "off"
    assert resolve(dimension=8, optimiser="adam") == "off"
    assert resolve(dimension=50, masses="on") == "on"
    assert TrainingConfig().with_settings(["masses=on"]).masses == "on"
    with pytest.raises(ConfigError, match="masses=on with optimiser=adam"):
        TrainingConfig(masses="on", optimiser="adam")
    assert fit(DATA, masses="off").masses is None


def test_attributes_leave_masses_to_items() -> None:
    """Items that went without their own vector in a step learn their mass all the same."""
    import polars as pl

    items = DATA.items.series
    frame = pl.DataFrame({"item": items, "colour": [f"c{number % 4}" for number in range(len(items))]})
    config = quick(masses="on", epochs=2, item_dropout=1.0)
    model = train(DATA, config, attributes=frame, progress=False)
    assert model.masses is not None
    assert model.masses.shape == (len(items),)
    assert (model.masses != 0).mean() > 0.9


def test_a_checkpoint_continues_in_the_same_masses(tmp_path: Path) -> None:
    def stop(record: Any) -> None:
        if record.epoch == 1:
            raise RuntimeError("stop")

    config = quick(masses="on", epochs=3)
    whole = train(DATA, config, progress=False)
    with pytest.raises(RuntimeError, match="stop"):
        train(DATA, config, checkpoint=tmp_path, progress=False, callbacks=[stop])
    resumed = train(DATA, config, checkpoint=tmp_path, resume=True, progress=False)
    assert whole.masses is not None
    assert resumed.masses is not None
    assert resumed.masses.tobytes() == whole.masses.tobytes()


def test_the_best_epoch_has_its_own_masses() -> None:
    random = np.random.default_rng(4)
    noise = Interactions.from_pairs(np.repeat(np.arange(50), 8), random.integers(0, 30, 400), np.arange(400))
    train_part, validation, _ = noise.split("leave_last_two")
    config = quick(masses="on", epochs=6)
    model = train(train_part, config, validation=validation, progress=False)
    assert model.masses is not None
    run = TrainingRun(train_part, config, validation)
    best = max(model.record, key=lambda epoch: epoch.validation["ndcg@10"])  # type: ignore[index]
    for epoch in range(1, best.epoch + 1):
        run.runner.run(epoch, run.config.rate_in(epoch), lambda positives, loss: None, threading.Event())
    assert best.epoch < 6
    np.testing.assert_array_equal(run.item_table.masses, model.masses)


def test_a_continued_run_starts_from_masses_and_their_sums(tmp_path: Path) -> None:
    fit(DATA).save(tmp_path / "model")
    start = load(tmp_path / "model")
    assert start.masses is not None
    assert start.optimiser_state is not None
    run = TrainingRun(DATA, None, start=start)
    assert run.config.masses == "on"
    np.testing.assert_array_equal(run.item_table.masses, start.masses)
    np.testing.assert_array_equal(run.item_table.mass_squared, start.optimiser_state["items_mass_squared"])
    with pytest.raises(ConfigError, match="the start model has masses=on, and the config masses=off"):
        TrainingRun(DATA, quick(masses="off"), start=start)
    without = fit(DATA, masses="off")
    assert TrainingRun(DATA, quick(), start=start).config.masses == "on"
    assert TrainingRun(DATA, quick(), start=without).config.masses == "off"


def test_an_update_gives_new_items_masses() -> None:
    random = np.random.default_rng(7)
    users, items = np.repeat(np.arange(100), 10), random.integers(0, 30, 1_000)
    known = (np.tile(np.arange(10), 100) < 8) & (items < 25)
    times = np.arange(1_000) + 10_000 * (np.tile(np.arange(10), 100) >= 8)
    old, everything = (Interactions.from_pairs(users[some], items[some], times[some]) for some in (known, slice(None)))
    before = fit(old)
    assert before.masses is not None
    after = update(before, everything, progress=False)
    assert after.masses is not None
    assert len(after.masses) == len(after.items) == 30
    assert not np.array_equal(after.masses[:25], before.masses)
    grown = before.add_items(events=everything)
    assert grown.masses is not None
    assert len(grown.masses) == len(grown.items)
    np.testing.assert_array_equal(grown.masses[: len(before.masses)], before.masses)
    assert grown.masses[-1] == pytest.approx(np.median(before.masses))
    assert grown.optimiser_state is not None
    assert len(grown.optimiser_state["items_mass_squared"]) == len(grown.items)


def test_the_rate_of_masses_follows_that_of_points() -> None:
    assert settings(learning_rate=0.2, masses="on").mass_rate == pytest.approx(0.06)
    run = TrainingRun(DATA, quick(masses="on", learning_rate=0.0))
    assert isinstance(run.runner, EpochRunner)
    run.runner.run(1, 0.0, lambda positives, loss: None, threading.Event())
    assert not run.item_table.masses.any()
    assert run.item_table.mass_squared.any()
