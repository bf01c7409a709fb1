"""Training on points that are composed of items' own vectors and their attributes'."""

from __future__ import annotations

import threading
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ConfigError, InputError, StopTraining
from lorentzrec.geometry import FloatArray, hyperboloid
from lorentzrec.learning.epochs import EpochRunner, cut_blocks, epoch_key, shuffle_learners
from lorentzrec.learning.kernels.attributes import compose as compose_one
from lorentzrec.learning.kernels.structures import HISTORY, TARGET, Attributes
from lorentzrec.learning.tables import allocate_composed, convert_attributes, convert_settings, make_table
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.attribute_points import compose
from tests.learning.grouped_data import grouped, quick
from tests.learning.small_blocks import KEY, in_float64, resolved, table
from tests.reference import blocks as reference
from tests.reference import composition, sampling
from tests.reference.composition import ComposedStep

ITEMS = 7


def attributes_for(data: Interactions, kinds: int = 3) -> ItemAttributes:
    """Each item has the group of its customers, and one or no further value."""
    ids = data.items.series.to_numpy()
    colours = [None if number % 4 == 0 else f"colour {number % kinds}" for number in ids]
    frame = pl.DataFrame({"item": ids, "group": [f"g{number // 20}" for number in ids], "colour": colours})
    return ItemAttributes.from_frame(frame)


def small() -> ItemAttributes:
    """Of seven items, one without attributes."""
    lists = [[0], [0, 1], [], [2], [1, 2, 3], [3], [0, 3]]
    rows = np.array([value for one in lists for value in one], np.int32)
    values = Vocabulary(["x=a", "x=b", "x=c", "x=d"], name="attribute")
    return ItemAttributes(Vocabulary.numbered(ITEMS), values, np.cumsum([0, *map(len, lists)]), rows)


def small_attributes(config: ResolvedConfig) -> Attributes:
    """The last item has no events."""
    return convert_attributes(small(), np.arange(ITEMS) < 6, config)


def composed_by_hand(own: float, parts: list[FloatArray], shares: list[float]) -> FloatArray:
    """S / sqrt(-<S, S>) of points given by their space parts."""
    total = np.array([own, *shares]) @ hyperboloid.lift(np.array(parts))
    return np.asarray(total / np.sqrt(total[0] ** 2 - (total[1:] ** 2).sum()))


def test_the_reference_is_the_normalised_sum() -> None:
    config = resolved(attribute_weight=3.0)
    attributes, vectors = small_attributes(config), in_float64(table(config, ITEMS + 4, seed=1)).points
    found = composition.compose(4, 1.0, vectors, attributes, curved=True)
    parts = [vectors[row, 1:] for row in (4, ITEMS + 1, ITEMS + 2, ITEMS + 3)]
    np.testing.assert_allclose(found, composed_by_hand(1.0, parts, [1.0, 1.0, 1.0]), rtol=1e-12)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("own", [1.0, 0.0])
def test_the_reference_gradient_is_that_of_finite_differences(geometry: str, own: float) -> None:
    """Of f(x) = <c, x>: moving a vector's space part, with its time part, changes f by the gradient's product."""
    config = resolved(geometry=geometry, attribute_weight=2.0)
    attributes, vectors = small_attributes(config), in_float64(table(config, ITEMS + 4, seed=2)).points
    curved, row = config.hyperbolic, 4
    direction = np.random.default_rng(3).normal(size=(vectors.shape[1],))
    signs = np.ones(len(direction))
    if curved:
        signs[0] = -1  # the gradient with the metric applied
    else:
        direction[0] = 0
    gradients = composition.gradients_of_parts(row, own, vectors, signs * direction, attributes, curved=curved)
    assert (row in gradients) == (own == 1)

    def value(points: FloatArray) -> float:
        return float(direction @ composition.compose(row, own, points, attributes, curved=curved))

    for part, gradient in gradients.items():
        move = np.random.default_rng(part).normal(size=(vectors.shape[1],)) * 1e-5
        move[0] = 0
        ends = []
        for sign in (1, -1):
            moved = vectors.copy()
            moved[part] += sign * move
            if curved:
                moved[part] = hyperboloid.lift(moved[part, 1:])
            ends.append((value(moved), moved[part]))
        change = ends[0][1] - ends[1][1]
        np.testing.assert_allclose(ends[0][0] - ends[1][0], (signs * gradient) @ change, rtol=1e-4)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
def test_kernel_model_and_reference_compose_the_same_point(geometry: str) -> None:
    config = resolved(geometry=geometry, attribute_weight=2.5)
    attributes = small_attributes(config)
    vectors = table(config, ITEMS + 4, seed=4)
    wide, made = in_float64(vectors).points, allocate_composed(ITEMS, config.dimension)
    for row in range(ITEMS):
        own = 0.0 if row == 6 else 1.0
        sums = np.zeros((2, vectors.points.shape[1]))
        compose_one(row, np.float32(own), vectors.points, attributes, config.hyperbolic, made, sums)
        expected = composition.compose(row, own, wide, attributes, curved=config.hyperbolic)
        np.testing.assert_allclose(made.points[row], expected, rtol=1e-5, atol=1e-6)
    first = 0 if config.hyperbolic else 1
    public = vectors.points[:, first : config.dimension + 1]
    known = np.arange(ITEMS) < 6
    found = compose(
        public[:ITEMS], known, small(), public[ITEMS:], weight=config.attribute_weight, hyperbolic=config.hyperbolic
    )
    np.testing.assert_allclose(found, made.points[:, first : config.dimension + 1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("targets", ["shared", "separate"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("history", ["causal", "folds"])
def test_a_step_is_that_of_the_reference(geometry: str, targets: str, dropout: float, history: str) -> None:
    data = grouped(users=6, items=9, events=30)
    options = {"geometry": geometry, "targets": targets, "item_dropout": dropout, "history": history, "epochs": 1}
    config = quick(negative_count=3, blocks_per_step=8, dimension=5, **options).resolve_for(data, attributes=True)
    attributes = attributes_for(data).align(data.items)
    count = len(data.items) + len(attributes.values)
    items = make_table(np.random.default_rng(1).normal(0, 0.4, (count, 5)).astype(np.float32), config)
    histories = items
    if targets == "separate":
        histories = make_table(np.random.default_rng(2).normal(0, 0.4, (count, 5)).astype(np.float32), config)
    items.masses[:] = np.random.default_rng(3).normal(0, 0.3, count)
    slow_items = in_float64(items)
    slow_histories = slow_items if histories is items else in_float64(histories)
    runner = EpochRunner(data, config, histories, items, attributes)
    result = runner.run(1, config.learning_rate, lambda positives, loss: None, threading.Event())

    settings, key = convert_settings(config, config.learning_rate), int(epoch_key(config.seed, 1))
    order = shuffle_learners(runner.learners, config.seed, 1)
    bounds = cut_blocks(data.lengths[order], runner.block_rows)
    assert len(bounds) == 2, "one block, so one step"
    assert runner.attributes is not None
    number = 1 << 32
    step = ComposedStep(
        slow_histories,
        slow_items,
        runner.attributes,
        settings,
        sampling.key_for(key, sampling.DROPOUT, number),
    )
    seen = set(data.item_rows.tolist())
    composed = step.compose({row: HISTORY if row in seen else TARGET for row in range(len(data.items))})
    counters = np.zeros(5, np.int64)
    block = reference.asymmetric_gradients(0, order, bounds, runner.events, *composed, settings, key, counters)
    step.apply([block], counters)
    np.testing.assert_allclose(result.loss, block.loss, rtol=1e-5)
    np.testing.assert_allclose(items.points, slow_items.points, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(histories.points, slow_histories.points, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(items.masses, slow_items.masses, rtol=2e-4, atol=2e-5)
    assert (items.masses[len(data.items) :] == slow_items.masses[len(data.items) :]).all(), "attributes have none"


def bits(model: Model) -> list[bytes]:
    assert model.attributes is not None
    arrays = [model.item_points, model.history_points, model.attributes.points, model.attributes.history_points]
    return [array.tobytes() for array in arrays] + [np.float64(epoch.loss).tobytes() for epoch in model.record]


@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
def test_any_number_of_threads_gives_the_same_bits(optimiser: str) -> None:
    data = grouped(users=70, events=1800)
    attributes = attributes_for(data)
    for geometry, targets, history in product(
        ("hyperboloid", "euclidean"), ("shared", "separate"), ("causal", "folds")
    ):
        options = {"geometry": geometry, "targets": targets, "optimiser": optimiser, "history": history}
        config = quick(epochs=2, negative_count=5, blocks_per_step=4, **options)
        found = [
            bits(train(data, config.replace(threads=threads), attributes=attributes, progress=False))
            for threads in (1, 2, 3, 1)
        ]
        assert all(one == found[0] for one in found), options


def test_the_model_has_the_points_of_attributes() -> None:
    data = grouped()
    model = train(data, quick(epochs=1), attributes=attributes_for(data), progress=False)
    assert model.attributes is not None
    assert model.item_attributes is not None
    assert model.item_attributes.items == data.items
    assert model.attributes.points.shape == (len(model.attributes.values), 7)
    assert NoteKind.ATTRIBUTES in {note.kind for note in model.note_records}


def test_an_item_of_a_group_is_recommended_to_it_without_an_event() -> None:
    """The attribute alone, since item 60 has no event."""
    data = grouped(users=90, events=3000)
    attributes = attributes_for(data)
    model = train(data, quick(epochs=8, dimension=8, memory="none"), attributes=attributes, progress=False)
    frame = pl.DataFrame({"item": [100, 101, 102], "group": ["g0", "g1", "g2"], "colour": [None, None, None]})
    grown = model.add_items(attributes=frame)
    for group in range(3):
        history = [group * 20 + number for number in (1, 5, 9)]
        scores = grown.score([100, 101, 102], history)
        assert max(scores, key=lambda item: scores[item]) == 100 + group


@pytest.mark.parametrize("targets", ["shared", "separate"])
def test_a_checkpoint_continues_to_the_same_bits(targets: str, tmp_path: Path) -> None:
    data = grouped()
    attributes = attributes_for(data)
    config = quick(epochs=4, targets=targets)
    whole = train(data, config, attributes=attributes, progress=False)

    def stop(record: EpochRecord) -> None:
        if record.epoch == 2:
            raise StopTraining

    run: dict[str, Any] = {"attributes": attributes, "checkpoint": tmp_path / "checkpoint", "progress": False}
    train(data, config, callbacks=[stop], **run)
    assert bits(train(data, config, resume=True, **run)) == bits(whole)
    other = ItemAttributes.from_frame(pl.DataFrame({"item": data.items.series, "x": ["a"] * len(data.items)}))
    with pytest.raises(ConfigError, match="other data"):
        train(data, config, resume=True, **run | {"attributes": other})


def test_settings_without_attributes_are_refused() -> None:
    data = grouped()
    attributes = attributes_for(data)
    with pytest.raises(ConfigError, match="attributes with model=symmetric"):
        train(data, quick(model="symmetric"), attributes=attributes, progress=False)
    with pytest.raises(InputError, match="attributes are a list"):
        train(data, quick(), attributes=["brand"], progress=False)
    more = pl.DataFrame({"item": [*range(60), 777, 778], "brand": ["a", "b"] * 31})
    model = train(data, quick(epochs=1), attributes=more, progress=False)
    assert {note.kind: note.values for note in model.note_records}[NoteKind.OTHER_ITEMS] == {"items": 2}
    strangers = ItemAttributes.from_frame(pl.DataFrame({"item": ["x", "y"], "brand": ["a", "a"]}))
    with pytest.raises(InputError, match="no item of the data has attributes"):
        train(data, quick(), attributes=strangers, progress=False)


def test_keys_of_dropout_are_their_own() -> None:
    assert sampling.key_for(KEY, sampling.DROPOUT, 1) != sampling.key_for(KEY, sampling.NEGATIVES, 1)
