"""What must hold on every back end of Keras; `test_back_ends.py` runs this file once for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np
import polars as pl
import pytest
from keras import ops
from numpy.typing import NDArray

import lorentzrec
from lorentzrec import Interactions, TrainingConfig
from lorentzrec.errors import ArtifactError, ConfigError, InputError
from lorentzrec.geometry import FloatArray, hyperboloid
from lorentzrec.keras import (
    BPR,
    WMRB,
    EinsteinMidpoint,
    HyperboloidEmbedding,
    LorentzDistance,
    MidpointModel,
    MinkowskiRetrieval,
    MinkowskiScore,
    RiemannianAdagrad,
    RiemannianSGD,
    SampledSoftmax,
    load_model,
)
from lorentzrec.keras.backend import value_and_gradients
from lorentzrec.keras.blocks import Blocks, find_neighbours
from lorentzrec.keras.losses import RankingLoss
from lorentzrec.keras.points import Places, distances, gaps, midpoints, midpoints_before, pair_gaps, products
from lorentzrec.keras.training import train
from lorentzrec.learning import recency_choice
from lorentzrec.learning.epochs import cut_blocks, epoch_key, find_learners, shuffle_learners
from lorentzrec.learning.tables import BLOCK_ROWS, FOLDED_BLOCK_ROWS, convert_events, convert_settings, make_table
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.notes import NoteKind
from tests.reference import blocks as reference

ROUNDING = 2.0**-24
ITEMS = 7
HISTORIES = np.array([[1, 2, 3, -1], [5, -1, -1, -1]], np.int32)


def around(radius: float, count: int, dimension: int, seed: int) -> FloatArray:
    """Points 0.5 from a point at this radius, in all directions equally."""
    away = np.random.default_rng(seed).normal(size=(count, dimension))
    near_origin = hyperboloid.lift(np.sinh(0.5) * away / np.linalg.norm(away, axis=1, keepdims=True))
    direction = np.cos(np.arange(dimension))
    centre = hyperboloid.lift(np.sinh(radius) * direction / np.linalg.norm(direction))
    return np.asarray(near_origin @ hyperboloid.boost(centre))[:, 1:]


def small_shop(*, times: bool = True, seed: int = 0) -> Interactions:
    random = np.random.default_rng(seed)
    users, items = random.integers(0, 120, 2400), random.zipf(1.5, 2400) % 90
    return Interactions.from_pairs(users, items, np.arange(2400) if times else None)


def few_events(history: str) -> Interactions:
    """Four customers in one block, none with an item twice; one of them has a single order."""
    users, items = [0, 0, 1, 1, 1, 2, 2, 3, 3, 3], [0, 1, 2, 3, 4, 5, 6, 6, 1, 3]
    times = {"causal": range(10), "orders": [0, 1, 0, 0, 1, 5, 5, 0, 1, 1], "folds": None}
    return Interactions.from_pairs(users, items, times[history])


def orders_shop() -> Interactions:
    """Orders of up to three items, with weights, and labels for two of three events."""
    random = np.random.default_rng(3)
    users, items, times = random.integers(0, 80, 1600), random.zipf(1.5, 1600) % 90, random.integers(0, 12, 1600)
    weights, labels = random.uniform(0.5, 2, 1600), np.arange(1600) % 3 > 0
    return Interactions.from_pairs(users, items, times, weights=weights, labels=labels)


# --- against the references


@pytest.mark.parametrize("radius", [0.0, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad"])
def test_a_step_is_that_of_the_reference(radius: float, optimiser: str) -> None:
    """Every loss, score and kind of history: to 1e-5 up to radius 1, and beyond within the kernels' own tolerances."""
    rate = 0.02
    for loss, score, history in product(
        ("bpr", "wmrb", "softmax"), ("inner", "distance"), ("causal", "orders", "folds")
    ):
        data, recency = few_events(history), 1.0 if history == "folds" else 0.7
        options = {"loss": loss, "score": score, "history": history, "optimiser": optimiser, "learning_rate": rate}
        config = TrainingConfig.from_mapping(
            options
            | {
                "masses": "off",
                "dimension": 15,
                "recency": recency,
                "scale": 1.0,
                "negative_count": 3,
                "blocks_per_step": 1,
            }
        ).resolve_for(data)
        items = around(radius, ITEMS, 15, seed=3).astype(np.float32)
        histories = around(radius, ITEMS, 15, seed=5).astype(np.float32)
        found_loss, found = keras_step(data, config, items, histories)
        expected_loss, expected = reference_step(data, config, items, histories)
        time = float(np.cosh(radius + 0.5))
        share = 4 * ROUNDING * time**2 * (1 if optimiser == "rsgd" else 10)
        assert found_loss == pytest.approx(expected_loss, rel=1e-5 + share)
        for fast, slow in zip(found, expected, strict=True):
            if radius <= 1:
                np.testing.assert_allclose(fast, slow, atol=1e-5, err_msg=str(options))
            apart = hyperboloid.distance(hyperboloid.lift(fast.astype(np.float64)), hyperboloid.lift(slow))
            assert (apart <= 12 * rate * share + 8 * ROUNDING * time).all(), (options, apart.max(), share)


def keras_step(
    data: Interactions, config: ResolvedConfig, *spaces: NDArray[np.float32]
) -> tuple[float, list[NDArray[np.float32]]]:
    model = MidpointModel(config, item_count=ITEMS)
    model.set_points(*spaces[: len(model.tables)])
    batch = {name: ops.convert_to_tensor(array) for name, array in Blocks(data, config)[0].items()}
    logs = model.learn(batch)
    return float(logs["loss"]) * float(ops.sum(batch["target_weights"])), model.points()


def reference_step(
    data: Interactions, config: ResolvedConfig, *spaces: NDArray[np.float32]
) -> tuple[float, list[FloatArray]]:
    tables = [make_table(space, config) for space in spaces[: 2 if config.targets == "separate" else 1]]
    wide: list[Any] = [
        table._replace(points=table.points.astype(np.float64), squared=table.squared.astype(np.float64))
        for table in tables
    ]
    for table, space in zip(wide, spaces, strict=False):
        table.points[:, : space.shape[1] + 1] = hyperboloid.lift(space.astype(np.float64))
    order = shuffle_learners(find_learners(data, config)[1], config.seed, 1)
    bounds = cut_blocks(data.lengths[order], FOLDED_BLOCK_ROWS if config.history == "folds" else BLOCK_ROWS)
    events = convert_events(data, config.model, orders=config.history == "orders")
    chosen = convert_settings(config, config.learning_rate)
    key, counters = int(epoch_key(config.seed, 1)), np.zeros(5, np.int64)
    block = reference.asymmetric_gradients(0, order, bounds, events, wide[-1], wide[0], chosen, key, counters)
    loss = reference.apply_gradients([block])
    return loss, [table.points[:, 1 : config.dimension + 1] for table in wide]


@pytest.mark.parametrize("radius", [0.0, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("name", ["gaps", "pair_gaps", "products", "distances", "midpoints", "before", "before_orders"])
def test_gradients_are_differences_of_values(name: str, radius: float) -> None:
    """Against differences in float64, along random directions."""
    left, right = (around(radius, 5, 6, seed).astype(np.float32) for seed in (1, 2))
    weights = np.random.default_rng(3).uniform(0.1, 1, (3, 5)).astype(np.float32)
    # two histories, of three events and of two; before the first event of each there is nothing
    steps = np.array([0, 1, 2, 0, 1], np.int32)
    age = np.array([[0, -1, -1, -1, -1], [1, 0, -1, -1, -1], [-1, -1, -1, 0, -1]])
    # the first two events are one order
    age_of_order = np.array([[0, 0, -1, -1, -1], [-1, -1, -1, 0, -1]])
    shares, shares_of_orders = (np.where(ages >= 0, 0.7**ages * weights[0], 0) for ages in (age, age_of_order))
    of_events, of_orders = places_of(steps, steps), places_of(steps, np.array([0, 0, 1, 0, 1], np.int32))
    # coordinates of far points are multiplied with large numbers: directions across them and along them are separate
    cases: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "gaps": (lambda u: gaps(u, right), lambda u: -_products(u, right) - 1),
        "pair_gaps": (lambda u: pair_gaps(u, right), lambda u: -np.diag(_products(u, right)) - 1),
        "products": (lambda u: products(u, ops.convert_to_tensor(right)), lambda u: _products(u, right)),
        "distances": (lambda u: distances(gaps(u, right)), lambda u: np.arccosh(-_products(u, right))),
        "midpoints": (lambda u: midpoints(weights, u), lambda u: _midpoints(weights, u)),
        "before": (
            lambda u: ops.take(
                midpoints_before(u, ops.convert_to_tensor(weights[0]), of_events, 0.7), np.array([1, 2, 4]), axis=0
            ),
            lambda u: _midpoints(shares, u),
        ),
        "before_orders": (
            lambda u: ops.take(
                midpoints_before(u, ops.convert_to_tensor(weights[0]), of_orders, 0.7), np.array([2, 4]), axis=0
            ),
            lambda u: _midpoints(shares_of_orders, u),
        ),
    }
    ours, exact = cases[name]
    slopes = np.random.default_rng(4).normal(size=np.shape(exact(left.astype(np.float64))))
    _, gradients = value_and_gradients(
        lambda tensors: ops.sum(ops.cast(slopes, "float32") * ours(tensors[0])), [ops.convert_to_tensor(left)]
    )
    gradient = ops.convert_to_numpy(gradients[0])
    time = np.cosh(radius + 0.5)
    for seed in range(5):
        away = np.random.default_rng(seed).normal(size=left.shape)
        step = 1e-4 * away
        wide = left.astype(np.float64)
        difference = (slopes * (exact(wide + step) - exact(wide - step))).sum() / 2e-4
        size = float(np.abs(slopes).sum() * time)
        assert (gradient * away).sum() == pytest.approx(
            difference, rel=1e-3, abs=size * (1e-5 + 16 * ROUNDING * time**2)
        )


def places_of(steps: NDArray[np.int32], orders: NDArray[np.int32]) -> Places:
    neighbours = find_neighbours(np.cumsum(steps == 0), orders)
    return Places(*map(ops.convert_to_tensor, (steps, orders, *neighbours.values())))


def _products(u: FloatArray, v: FloatArray) -> FloatArray:
    left, right = hyperboloid.lift(u), hyperboloid.lift(v.astype(np.float64))
    return np.asarray(hyperboloid.minkowski_dot(left[:, None], right[None]))


def _midpoints(weights: NDArray[Any], points: FloatArray) -> FloatArray:
    sums = weights.astype(np.float64) @ hyperboloid.lift(points)
    return np.asarray(sums[:, 1:] / np.sqrt(-hyperboloid.minkowski_squared_norm(sums))[:, None])


@pytest.mark.parametrize("times", [True, False])
def test_epochs_are_those_of_the_local_engine(times: bool) -> None:
    """The same blocks and negatives from the same seed: points, losses, validation and notes agree."""
    data, config = (
        small_shop(times=times),
        TrainingConfig(masses="off", dimension=6, epochs=2, validation=30, negative_count=20),
    )
    expected = lorentzrec.train(data, config.replace(blocks_per_step=1), progress=False)
    found = train(data, config, progress=False)
    assert [one.loss for one in found.record] == pytest.approx([one.loss for one in expected.record], rel=1e-4)
    assert [one.validation for one in found.record] == [one.validation for one in expected.record]
    assert found.notes == expected.notes
    np.testing.assert_allclose(found.item_points, expected.item_points, atol=2e-3)
    np.testing.assert_allclose(found.history_points, expected.history_points, atol=2e-3)


def test_orders_are_learned_as_by_the_local_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recency, memory, repeats and trend are chosen alike, and held-out orders are learned last."""
    monkeypatch.setattr(recency_choice, "FEWEST_CUSTOMERS", 5)
    data, config = orders_shop(), TrainingConfig(masses="off", dimension=6, epochs=4, negative_count=20, memory="auto")
    expected = lorentzrec.train(data, config.replace(blocks_per_step=1), progress=False)
    model = MidpointModel(config)
    model.fit(data, verbose=0)
    before = model.points()
    found = model.to_model()
    assert [one.loss for one in found.record] == pytest.approx([one.loss for one in expected.record], rel=1e-4)
    kinds = [note.kind for note in found.note_records]
    assert kinds == [note.kind for note in expected.note_records]
    assert {NoteKind.ORDERS, NoteKind.NEWEST_LEARNED} <= {*kinds}
    assert found.config == replace(expected.config, threads=found.config.threads)
    np.testing.assert_allclose(found.item_points, expected.item_points, atol=2e-3)
    np.testing.assert_allclose(found.history_points, expected.history_points, atol=2e-3)
    assert np.abs(before[0] - found.item_points[:, 1:]).max() > 0.01
    np.testing.assert_array_equal(model.points(), before)  # the model of Keras stays as it was fitted


def test_customers_without_a_valid_negative_are_noted_as_by_the_local_engine() -> None:
    """The first 20 of 30 customers have nearly all of 8 items, and two negatives are sampled."""
    users = np.concatenate([np.repeat(np.arange(20), 7), np.repeat(np.arange(20, 30), 2)])
    items = np.concatenate([np.tile(np.arange(7), 20), np.tile([0, 7], 10)])
    data = Interactions.from_pairs(users, items, np.arange(len(users)))
    config = TrainingConfig(masses="off", dimension=4, epochs=2, negative_count=2, memory="none")
    expected = lorentzrec.train(data, config.replace(blocks_per_step=1), progress=False)
    found, fitted = train(data, config, progress=False), MidpointModel(config)
    fitted.fit(data, verbose=0)
    (note,) = [one for one in expected.note_records if one.kind is NoteKind.NO_VALID_NEGATIVE]
    assert note.values["times"] > 0
    assert found.note_records == fitted.to_model().note_records == expected.note_records


def test_masses_are_left_to_the_local_engine_with_a_note() -> None:
    """A model of few dimensions has masses there and none here; where nobody would expect any, there is no note."""
    data, config = small_shop(), TrainingConfig(dimension=6, epochs=1, negative_count=20, memory="none")
    found = train(data, config, progress=False)
    assert found.config.masses == "off"
    assert found.masses is None
    (note,) = [one for one in found.note_records if one.kind is NoteKind.MASSES_LEFT_OUT]
    assert note.values == {"dimension": 6}
    heavy = lorentzrec.train(data, config, progress=False)
    with pytest.raises(ConfigError, match="the model has masses, which Keras does not know"):
        MidpointModel.from_model(heavy)
    for other in (config.replace(masses="off"), config.replace(dimension=40)):
        kinds = [one.kind for one in train(data, other, progress=False).note_records]
        assert NoteKind.MASSES_LEFT_OUT not in kinds


# --- as Keras users do


@cache
def trained() -> MidpointModel:
    """One model for all tests that do not change it; it ranks by its points alone, as `predict` does."""
    model = MidpointModel(
        TrainingConfig(masses="off", dimension=6, epochs=2, negative_count=20, validation=30, memory="none")
    )
    model.fit(small_shop(), verbose=0)
    return model


def test_files_and_models_rank_alike(tmp_path: Path) -> None:
    model = trained()
    rows = model.predict(HISTORIES, verbose=0)["items"]
    made = model.to_model()
    for history, best in zip(HISTORIES, rows, strict=True):
        ids = made.items.ids(history[history >= 0])
        assert made.recommend(history=ids, exclude_seen=False).ids == made.items.ids(best)
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    assert (loaded.predict(HISTORIES, verbose=0)["items"] == rows).all()
    assert loaded.get_config() == model.get_config()
    for found, expected in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(found), ops.convert_to_numpy(expected))
    np.testing.assert_array_equal(loaded.to_model(small_shop()).item_points, made.item_points)
    again = MidpointModel.from_model(made)
    assert (again.predict(HISTORIES, verbose=0)["items"] == rows).all()
    np.testing.assert_allclose(again.to_model().item_points, made.item_points, rtol=1e-6)


def test_early_stopping_follows_the_metrics_of_full_ranking() -> None:
    data = small_shop()
    train_part, test_part = data.split("leave_last_out")
    config = TrainingConfig(
        dimension=6, negative_count=20, learning_rate=0.0, epochs=9, patience=2, memory="none"
    )  # the metrics of an epoch are those of the points alone
    model = MidpointModel(config)
    stopping = keras.callbacks.EarlyStopping("val_ndcg@10", mode="max", patience=2, restore_best_weights=True)
    history = model.fit(train_part, validation_data=test_part, callbacks=[stopping], verbose=0).history
    assert len(history["loss"]) == 3
    made = model.to_model()
    assert NoteKind.OUT_OF_PATIENCE not in {note.kind for note in made.note_records}, "the callback stopped it"
    report = lorentzrec.evaluate(made, test_part)
    assert history["val_ndcg@10"] == pytest.approx([report["ndcg@10"]] * 3)


class _Interruption(keras.callbacks.Callback):  # type: ignore[misc]
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 2:
            raise InterruptedError


def test_an_interrupted_fit_is_restored_and_the_best_model_kept(tmp_path: Path) -> None:
    """`BackupAndRestore` in a second `fit`, with a new model, ends where one `fit` without interruption does."""
    train_part, test_part = small_shop().split("leave_last_out")
    config = TrainingConfig(masses="off", dimension=6, negative_count=20, epochs=4)

    def fit(*callbacks: Any) -> tuple[MidpointModel, dict[str, list[float]]]:
        model = MidpointModel(config)
        options: dict[str, Any] = {"validation_data": test_part, "verbose": 0}
        return model, model.fit(train_part, callbacks=list(callbacks), **options).history

    best = keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", "val_ndcg@10", mode="max", save_best_only=True)
    whole, history = fit(best)
    with pytest.raises(InterruptedError):
        fit(keras.callbacks.BackupAndRestore(tmp_path / "backup"), _Interruption())
    resumed, rest = fit(keras.callbacks.BackupAndRestore(tmp_path / "backup"))
    assert rest["loss"] == pytest.approx(history["loss"][2:], rel=1e-6)
    for found, expected in zip(resumed.points(), whole.points(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    kept = load_model(tmp_path / "best.keras").to_model(train_part)
    assert lorentzrec.evaluate(kept, test_part)["ndcg@10"] == pytest.approx(max(history["val_ndcg@10"]))


def test_files_that_cannot_be_read_are_errors_of_one_line(tmp_path: Path) -> None:
    class Unregistered(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            return inputs

    keras.Sequential([keras.Input((3,)), Unregistered()]).save(tmp_path / "unknown.keras")
    (tmp_path / "damaged.keras").write_bytes(b"no archive")
    for name, message in {
        "unknown": "has the class 'Unregistered', which Keras does not know: import the module",
        "damaged": "cannot be read",
        "missing": "does not exist: check the path",
    }.items():
        with pytest.raises(ArtifactError, match=message) as caught:
            load_model(tmp_path / f"{name}.keras")
        assert "\n" not in str(caught.value)
    options = {"custom_objects": {"Unregistered": Unregistered}}
    assert isinstance(load_model(tmp_path / "unknown.keras", **options).layers[-1], Unregistered)


def test_compile_takes_any_optimiser_and_our_losses() -> None:
    model = MidpointModel(TrainingConfig(dimension=6, epochs=2, negative_count=20))
    model.compile(keras.optimizers.Adam(0.01), WMRB(scale=2.0))
    losses = model.fit(small_shop(), verbose=0).history["loss"]
    assert losses[1] < losses[0]
    with pytest.raises(ConfigError, match=r"give SampledSoftmax, WMRB or BPR .* or a function of y_true and y_pred"):
        model.compile("adam", "mse")
    partly = MidpointModel(TrainingConfig(masses="off", dimension=6))
    partly.compile(loss=WMRB(scale=2.0))  # the optimiser is that of the config, which the data complete
    partly.prepare(small_shop())
    assert isinstance(partly.optimizer, RiemannianAdagrad)
    assert isinstance(partly.ranking_loss, WMRB)


def softplus_of_gaps(y_true: Any, y_pred: Any) -> Any:
    """BPR without the mean: sum_k ln(1 + e^(s_k - s_+))."""
    assert y_true.shape == y_pred.shape
    return ops.sum(ops.softplus(y_pred[:, 1:] - y_pred[:, :1]), axis=-1)


@pytest.mark.parametrize("history", ["causal", "folds"])
def test_any_loss_of_keras_trains(history: Any) -> None:
    """Cross-entropy of the positive among its negatives is the sampled softmax."""
    config = TrainingConfig(
        masses="off", dimension=6, epochs=2, negative_count=20, history=history, loss="softmax", scale=4.0
    )
    losses = []
    for loss in (SampledSoftmax(scale=4.0), keras.losses.CategoricalCrossentropy(from_logits=True)):
        model = MidpointModel(config)
        model.compile(loss=loss)
        losses.append(model.fit(small_shop(), verbose=0).history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_a_function_is_a_loss_and_is_saved_with_the_model(tmp_path: Path) -> None:
    model = MidpointModel(TrainingConfig(dimension=6, epochs=2, negative_count=20))
    model.compile(loss=softplus_of_gaps)
    losses = model.fit(small_shop(), verbose=0).history["loss"]
    assert losses[1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = load_model(tmp_path / "model.keras", custom_objects={"softplus_of_gaps": softplus_of_gaps})
    assert again.ranking_loss is softplus_of_gaps
    model.compile(loss=lambda y_true, y_pred: y_pred)
    with pytest.raises(ConfigError, match="give one value per row"):
        model.fit(small_shop(), verbose=0)


def test_a_model_of_another_engine_is_trained_further_with_one_block_per_step() -> None:
    data = small_shop()
    config = TrainingConfig(masses="off", dimension=6, epochs=1, blocks_per_step=2, negative_count=20)
    start = lorentzrec.train(data, config, progress=False)
    model = MidpointModel.from_model(start)
    model.fit(data, verbose=0)
    made = model.to_model()
    assert made.config == replace(start.config, blocks_per_step=1)
    assert 0 < np.abs(made.item_points - start.item_points).max() < 1


def test_attributes_that_are_lost_by_further_training_are_noted() -> None:
    data = small_shop()
    frame = {"item": data.items.series.to_list(), "brand": [f"brand {row % 3}" for row in range(len(data.items))]}
    config = TrainingConfig(masses="off", dimension=6, epochs=1, negative_count=20)
    model = MidpointModel.from_model(lorentzrec.train(data, config, attributes=pl.DataFrame(frame), progress=False))
    assert model.to_model().attributes is not None
    model.fit(data, verbose=0)
    made = model.to_model()
    assert made.attributes is None
    assert "the start model has attributes, which Keras does not train: this model has none" in made.notes


@pytest.mark.parametrize("optimizer", [RiemannianSGD(0.5), RiemannianAdagrad(0.3)], ids=["sgd", "adagrad"])
def test_layers_work_with_ordinary_ones_in_the_functional_api(optimizer: Any, tmp_path: Path) -> None:
    """The point of an item is that of its id plus its attributes through `Dense`."""
    model = attribute_model()
    model.compile(optimizer, SampledSoftmax(scale=4.0))
    random = np.random.default_rng(0)
    inputs: dict[str, NDArray[Any]] = {
        "history": random.integers(-1, 30, (64, 5)),
        "candidates": random.integers(0, 30, (64, 4)),
        "attributes": random.normal(size=(64, 4, 3)).astype(np.float32),
    }
    inputs["history"][:, 0] = inputs["candidates"][:, 0]
    losses = model.fit(inputs, np.ones((64, 4)), epochs=6, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    model.save(tmp_path / "custom.keras")
    loaded = keras.models.load_model(tmp_path / "custom.keras")
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0))


def attribute_model() -> Any:
    history = keras.Input((None,), dtype="int32", name="history")
    candidates = keras.Input((4,), dtype="int32", name="candidates")
    attributes = keras.Input((4, 3), name="attributes")
    items = HyperboloidEmbedding(30, 8, mask_negative=True)
    customer = EinsteinMidpoint(recency=0.7)(items(history))
    points = keras.layers.Add()([items(candidates), keras.layers.Dense(8, use_bias=False)(attributes)])
    scores = MinkowskiScore()([keras.layers.Reshape((1, 8))(customer), points])
    return keras.Model([history, candidates, attributes], keras.layers.Reshape((4,))(scores))


@pytest.mark.parametrize(
    "made",
    [
        HyperboloidEmbedding(5, 3, mask_negative=True),
        EinsteinMidpoint(0.5),
        MinkowskiScore(),
        LorentzDistance(),
        MinkowskiRetrieval(3, "inner"),
        SampledSoftmax(2.0),
        WMRB(2.0, 0.5),
        BPR(3.0),
        RiemannianSGD(0.1, clip_norm=1.0, regularisation=0.1),
        RiemannianAdagrad(0.1, clip_norm=1.0, regularisation=0.1, epsilon=1e-3),
    ],
    ids=lambda made: type(made).__name__,
)
def test_configs_are_complete(made: Any) -> None:
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(made))
    assert type(again) is type(made)
    assert again.get_config() == made.get_config()


def test_layers_compute_what_the_geometry_says() -> None:
    points = around(1.0, 12, 4, seed=1).astype(np.float32)
    lifted = hyperboloid.lift(points.astype(np.float64))
    inner = hyperboloid.minkowski_dot(lifted[:3, None], lifted[None, 3:])
    np.testing.assert_allclose(ops.convert_to_numpy(MinkowskiScore()([points[:3], points[3:]])), inner, rtol=1e-6)
    found = ops.convert_to_numpy(LorentzDistance()([points[:3], points[3:]]))
    np.testing.assert_allclose(found, np.arccosh(-inner), rtol=1e-5)
    best = MinkowskiRetrieval(4)([points[:3], points[3:]])
    assert (ops.convert_to_numpy(best["items"]) == np.argsort(-inner, axis=1)[:, :4]).all()
    same = ops.convert_to_numpy(LorentzDistance()([points[:1], points[:1]]))
    assert same == pytest.approx(0, abs=1e-5)


def test_every_id_below_zero_is_padding_in_a_call_and_in_a_graph() -> None:
    ids = np.array([[1, -1, -5]])
    layer = HyperboloidEmbedding(3, 2, "ones", mask_negative=True)
    graph = keras.Sequential([keras.Input((3,), dtype="int32"), layer])
    for found in (layer(ids), graph.predict(ids, verbose=0)):
        assert ops.convert_to_numpy(found).tolist() == [[[1, 1], [0, 0], [0, 0]]]
    assert ops.convert_to_numpy(layer.compute_mask(ids)).tolist() == [[True, False, False]]


def test_a_loss_without_a_formula_says_so() -> None:
    with pytest.raises(TypeError, match="RankingLoss defines neither of_gaps nor values: define one of them"):
        RankingLoss()(np.ones((2, 3)), np.ones((2, 3)))


# --- bad input


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (lambda: HyperboloidEmbedding(5, 3)(np.array([[1, 5]])), "id 5 is out of range.* 0 to 4"),
        (lambda: EinsteinMidpoint()(np.ones((2, 3, 4), np.float32), mask=np.zeros((2, 3), bool)), "row 0 is empty"),
        (lambda: SampledSoftmax()(np.ones((2, 1)), np.ones((2, 1))), "no negatives"),
        (lambda: HyperboloidEmbedding(5, 3, dtype="mixed_float16"), "need float32"),
        (lambda: EinsteinMidpoint(dtype="float16"), "need float32"),
        (lambda: RiemannianSGD(float("nan")), "learning_rate is nan"),
        (lambda: RiemannianAdagrad(-1.0), "learning_rate is -1.0"),
        (lambda: MinkowskiRetrieval(0), "k is 0"),
        (lambda: HyperboloidEmbedding(5, 3)(np.array([[1, -1]])), "id -1 is out of range.* 0 to 4"),
        (lambda: HyperboloidEmbedding(5, 3, mask_negative=True)(np.array([[-2, 5]])), "id 5 is out of range"),
        (lambda: MidpointModel().compile(RiemannianSGD(0.1, use_ema=True, clipnorm=1.0)), "without clipnorm, use_ema"),
        (lambda: MidpointModel().compile(RiemannianAdagrad(gradient_accumulation_steps=2)), "gradient_accumulation"),
        (lambda: MidpointModel(TrainingConfig(geometry="euclidean", optimiser="adam")), "euclidean, optimiser=adam"),
        (lambda: MidpointModel(TrainingConfig(model="symmetric")), "does not support model=symmetric"),
        (lambda: MidpointModel(TrainingConfig(masses="on")), "does not support masses=on"),
        (lambda: MidpointModel("large"), "config is a str: give TrainingConfig"),  # type: ignore[arg-type]
        (lambda: MidpointModel(TrainingConfig(blocks_per_step=8, threads=2)), "threads=2, blocks_per_step=8"),
        (lambda: MidpointModel().to_model(), "not trained in this process"),
        (lambda: trained().predict(np.array([[1, 500]]), verbose=0), "item row 500 is out of range"),
        (lambda: trained().predict(np.array([[1], [-1]]), verbose=0), "the history in row 1 is empty"),
        (lambda: trained().fit(few_events("causal")), "7 items and the model 89|items and the model"),
    ],
)
def test_bad_input_is_an_error_of_one_line(cause: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        cause()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad"])
@pytest.mark.parametrize("score", ["inner", "distance"])
def test_no_rate_makes_a_point_that_is_no_number(optimiser: str, score: str) -> None:
    data = few_events("causal")
    for rate, scale, radius in product((1e-20, 1.0, 1e10, 1e30), (1e-10, 1.0, 1e15), (0.0, 4.0, 8.0)):
        options = {"optimiser": optimiser, "score": score, "learning_rate": rate, "scale": scale}
        config = TrainingConfig.from_mapping(
            options | {"masses": "off", "dimension": 3, "negative_count": 3, "blocks_per_step": 1}
        )
        spaces = [around(radius, ITEMS, 3, seed).astype(np.float32) for seed in (1, 2)]
        _, points = keras_step(data, config.resolve_for(data), *spaces)
        assert all(np.isfinite(space).all() for space in points), options
