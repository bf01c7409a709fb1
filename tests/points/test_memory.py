"""The memory against its dense reference: as a matrix, as boosts, and in every ranking."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ArtifactError, ConfigError, InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.learning import memory_weight
from lorentzrec.learning.trainer import train
from lorentzrec.model.artifact import load
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind
from lorentzrec.points import memory as memory_module
from lorentzrec.points.index import build_index
from lorentzrec.points.memory import Memory, build_memory
from lorentzrec.points.points import History, Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.reasons import ReasonKind
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import Recommender
from tests.reference import memory as reference

ITEMS = 40
KINDS = ("ordered", "unordered")
SPACES: list[tuple[str, str]] = [
    (geometry, score) for geometry in ("hyperboloid", "euclidean") for score in ("distance", "inner")
]


def shop(*, ordered: bool = True, weighted: bool = False, labelled: bool = False, seed: int = 0) -> Interactions:
    """Sixty customers who go around a circle of items, with some noise and repetitions."""
    random = np.random.default_rng(seed)
    users = np.repeat(np.arange(60), 9)
    items = (np.repeat(random.integers(0, ITEMS, 60), 9) + 3 * np.tile(np.arange(9), 60)) % ITEMS
    items = np.where(random.random(len(items)) < 0.3, random.integers(0, ITEMS, len(items)), items)
    return Interactions.from_pairs(
        users,
        items,
        np.tile(np.arange(9), 60) if ordered else None,
        random.uniform(0.5, 2, len(items)) if weighted else None,
        random.random(len(items)) < 0.6 if labelled else None,
    )


def dense(memory: Memory) -> FloatArray:
    matrix = np.zeros((memory.item_count, memory.item_count))
    rows = np.repeat(np.arange(memory.item_count), np.diff(memory.offsets))
    matrix[rows, memory.columns] = memory.values
    return matrix


def model_of(
    data: Interactions, geometry: Any = "hyperboloid", score: Any = "distance", *, weight: float = 0.3
) -> Model:
    random = np.random.default_rng(5)
    space = random.normal(size=(len(data.items), 4)).astype(np.float32) * 0.4
    if geometry == "hyperboloid":
        space = np.concatenate([np.sqrt(1 + (space**2).sum(axis=1, keepdims=True)), space], axis=1)
    config = TrainingConfig(dimension=4, geometry=geometry, score=score, targets="shared").resolve_for(data)
    memory = build_memory(data, 6, ordered=data.ordered).with_weight(weight)
    counts = data.item_counts
    return Model(config, data.items, Points(space, space, counts, config.space, memory), data.users, histories=data)


def slow_scores(model: Model, history: NDArray[Any]) -> FloatArray:
    """All items, by the points and the dense memory."""
    assert model.memory is not None
    ranker = model.ranker
    scores = ranker.points.scorer.exact_scores(ranker.query(history), np.arange(len(model.items)))
    added = reference.boosts(dense(model.memory), history.tolist(), model.memory.weight, ordered=model.memory.ordered)
    found: FloatArray = scores + added
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("pairs", [30, 10**7])
def test_the_matrix_is_that_of_the_reference(
    kind: str, weighted: bool, labelled: bool, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "PAIRS_AT_ONCE", pairs)
    ordered = kind == "ordered"
    data = shop(ordered=ordered, weighted=weighted, labelled=labelled)
    expected = reference.neighbours(data, ordered=ordered)
    np.testing.assert_allclose(dense(build_memory(data, ITEMS, ordered=ordered)), expected, rtol=1e-5)
    few = build_memory(data, 5, ordered=ordered)
    assert np.diff(few.offsets).max() == 5
    # The reference rounds differently, so equal entries are only equal in the matrix itself.
    np.testing.assert_allclose(np.sort(dense(few)), np.sort(reference.strongest(expected, 5)), rtol=1e-5)


def test_of_equal_neighbours_the_first_are_kept() -> None:
    data = Interactions.from_pairs([0] * 4, ["a", "b", "c", "d"])
    assert build_memory(data, 2, ordered=False).columns.tolist() == [1, 2, 0, 2, 0, 1, 0, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sorted_cells", [False, True])
@pytest.mark.parametrize("pairs", [1, 10**9])
def test_boosts_of_many_histories(kind: str, sorted_cells: bool, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "CELLS_PER_PAIR", 0 if sorted_cells else 10**9)
    monkeypatch.setattr(memory_module, "PAIRS_AT_ONCE", pairs)
    data = shop(ordered=kind == "ordered", weighted=True)
    memory = build_memory(data, 6, ordered=data.ordered).with_weight(0.7)
    long = np.tile(data.item_rows[:30], 2)
    histories = [data.history(0), np.empty(0, np.int32), long]
    weights = np.random.default_rng(1).uniform(0.5, 2, sum(map(len, histories)))
    offsets = np.cumsum([0, *map(len, histories)])
    found = memory.boosts(np.concatenate(histories), offsets, weights)
    matrix = np.zeros((3, ITEMS))
    matrix[found.history_indices, found.items] = found.values
    for place, history in enumerate(histories):
        own = weights[offsets[place] : offsets[place + 1]].tolist()
        expected = reference.boosts(dense(memory), history.tolist(), 0.7, ordered=memory.ordered, event_weights=own)
        np.testing.assert_allclose(matrix[place], expected, atol=1e-12)
        assert (np.diff(found.items[found.history_indices == place]) > 0).all()


@pytest.mark.parametrize(("geometry", "score"), SPACES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", [0.05, 0.5, 5.0])
def test_every_ranking_is_that_of_all_scores(geometry: str, score: str, kind: str, weight: float) -> None:
    data = shop(ordered=kind == "ordered")
    model = model_of(data, geometry, score, weight=weight)
    few = [int(id) for id in model.items.ids(np.array([4, 30]))]
    many = [int(id) for id in model.items.ids(np.arange(0, ITEMS, 2))]
    users = [int(id) for id in data.users.ids(np.arange(60))]
    together = model.recommend_many(users=users, k=7, threads=2)
    scored = model.score_histories(data, np.arange(60))
    for user in range(60):
        history = data.history(user)
        scores = slow_scores(model, history)
        unseen = np.setdiff1d(np.arange(ITEMS), history)
        best = unseen[np.argsort(-scores[unseen], kind="stable")]
        assert together[user].ids == model.items.ids(best[:7])
        np.testing.assert_allclose(together[user].scores, scores[best[:7]], rtol=1e-5, atol=1e-6)
        ids = model.items.ids(history)
        for allowed in (few, many):
            rows = np.intersect1d(best, model.items.rows(allowed))
            rows = rows[np.argsort(-scores[rows], kind="stable")]
            assert model.recommend(ids, k=3, allow=allowed).ids == model.items.ids(rows[:3])
        # What evaluation ranks by is in the same order, within the rounding of float32.
        order = np.argsort(-scored[user], kind="stable")
        np.testing.assert_allclose(scores[order], np.sort(scores)[::-1], atol=3e-3)


def test_a_memory_is_saved_and_checked(tmp_path: Path) -> None:
    model = model_of(shop())
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert model.memory is not None
    assert again.memory is not None
    np.testing.assert_array_equal(dense(again.memory), dense(model.memory))
    assert (again.memory.weight, again.memory.ordered) == (model.memory.weight, True)
    model.with_points(memory=None).save(tmp_path / "points")
    assert not (tmp_path / "points" / "memory.safetensors").exists()
    assert load(tmp_path / "points").memory is None
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    assert manifest["points"]["memory"] == {
        "ordered": True,
        "weight": model.memory.weight,
        "neighbours": len(model.memory),
    }
    radii = np.arccosh(model.item_points[:, 0].astype(np.float64))
    assert manifest["region"]["share_beyond_1"] == np.mean(radii > 1)
    assert manifest["region"]["radius"] == pytest.approx(np.quantile(radii, 0.95), rel=1e-5)
    (tmp_path / "model" / "memory.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"memory\.safetensors is missing"):
        load(tmp_path / "model")


def test_arrays_that_are_no_neighbours_are_refused() -> None:
    memory = build_memory(shop(), 3, ordered=True)
    for name, array in (
        ("columns", memory.columns + ITEMS),
        ("values", -memory.values),
        ("offsets", memory.offsets[::-1].copy()),
        ("weight", -1.0),
    ):
        with pytest.raises(InputError, match="memory"):
            replace(memory, **{name: array})  # type: ignore[arg-type]
    other = build_memory(Interactions.from_pairs([0, 0], ["a", "b"]), 3, ordered=False)
    with pytest.raises(InputError, match="other items"):
        model_of(shop()).with_points(memory=other)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_service_ranks_as_the_model(kind: str, geometry: str, tmp_path: Path) -> None:
    data = shop(ordered=kind == "ordered")
    model = model_of(data, geometry)
    write_version(tmp_path / "version", model, index=False)
    version = open_version(tmp_path / "version")
    history = [str(id) for id in data.history_ids(3)]
    live = [str(id) for id in model.items.ids(np.arange(1, ITEMS, 2))]
    ids, options = [int(id) for id in history], RankingOptions(k=5)
    found = Recommender(version).recommend(history, options)
    expected = model.recommend(ids, k=5)
    assert [int(item.id) for item in found.items] == expected.ids
    assert [item.score for item in found.items] == pytest.approx(expected.scores.tolist())
    found = Recommender(version, live).recommend(history, options)
    assert [int(item.id) for item in found.items] == model.recommend(ids, k=5, allow=map(int, live)).ids


@pytest.mark.parametrize("kind", KINDS)
def test_reasons_have_a_kind(kind: str, tmp_path: Path) -> None:
    data = shop(ordered=kind == "ordered")
    often = ReasonKind.OFTEN_AFTER if data.ordered else ReasonKind.OFTEN_WITH
    history = [str(id) for id in data.history_ids(3)]
    for weight in (1e-9, 1e9):
        model = model_of(data, weight=weight)
        write_version(tmp_path / f"{weight}", model, index=False)
        found = Recommender(open_version(tmp_path / f"{weight}")).recommend(history, RankingOptions(reasons=True))
        boosts = model.ranker.boosts(History(data.history(3)))
        assert boosts is not None
        boosted = {str(id) for id in model.items.ids(boosts.items)}
        for item in found.items:
            assert sum(reason.share for reason in item.because) <= 1 + 1e-9
            kinds = {reason.kind for reason in item.because if reason.share > 1e-6}
            if weight > 1:
                assert kinds <= {often if item.id in boosted else ReasonKind.NEAR}
            else:  # the memory is a reason only where no item of the history is near
                assert kinds in ({ReasonKind.NEAR}, {often}, set())
        wanted = often if weight > 1 else ReasonKind.NEAR
        assert wanted in {reason.kind for item in found.items for reason in item.because}
    # A single item of the history is the whole reason, and its contribution is the entry of the matrix.
    model = model_of(data, weight=1e9)
    assert model.memory is not None
    parts = model.memory.contributions(np.array([3, 7]), np.array([1.0, 0.5]), np.arange(ITEMS)[::-1])
    np.testing.assert_allclose(parts[::-1], (dense(model.memory)[[3, 7]] * [[1.0], [0.5]]).T)


def test_an_index_gets_the_boosted_items_too() -> None:
    """The index scans a single list, and everything that the memory knows is ranked nevertheless."""
    data = shop()
    model = model_of(data, weight=100.0)
    index = replace(build_index(model.points, model.points.precise_items(np.arange(4))), probes=1)
    ranker = Ranker(model.points, index=index)
    history = data.history(0)
    rows, _ = ranker.top(None, 3, history.astype(np.int64), None, History(history))
    assert model.items.ids(rows) == model.recommend(model.items.ids(history), k=3).ids


def circle(*, ordered: bool) -> Interactions:
    """What follows what is fixed, and every item has few events: hard for points in few epochs, easy to remember."""
    random = np.random.default_rng(3)
    users = np.repeat(np.arange(600), 8)
    items = (np.repeat(random.integers(0, 300, 600), 8) + 7 * np.tile(np.arange(8), 600)) % 300
    return Interactions.from_pairs(users, items, np.tile(np.arange(8), 600) if ordered else None)


@pytest.mark.parametrize("kind", KINDS)
def test_training_chooses_a_weight(kind: str) -> None:
    data = circle(ordered=kind == "ordered")
    config = TrainingConfig(dimension=4, epochs=2)
    model = train(data, config, progress=False)
    assert model.config.memory == "auto"
    assert model.memory is not None
    (note,) = [note for note in model.note_records if note.kind is NoteKind.MEMORY]
    assert note.values["memory"] > note.values["points"]
    assert model.memory.weight == note.values["weight"] / model.config.scale
    # All events are remembered, those that the weight was chosen on included.
    np.testing.assert_array_equal(dense(model.memory), dense(build_memory(data, 100, ordered=data.ordered)))
    alone = train(data, config.replace(memory="none"), progress=False)
    assert alone.memory is None
    assert not {NoteKind.MEMORY, NoteKind.NO_MEMORY} & {note.kind for note in alone.note_records}


def test_a_memory_that_does_not_help_is_left_out() -> None:
    """Customers begin with one of five items that never follow another; a second one, at the end, is held out."""
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(600), 9)
    items = (np.repeat(random.integers(0, 300, 600), 9) + 7 * np.tile(np.arange(9), 600)) % 300
    items[::9] = 1000 + np.arange(600) % 5
    items[8::9] = 1000 + np.arange(1, 601) % 5
    data = Interactions.from_pairs(users, items, np.tile(np.arange(9), 600))
    learned, last = data.split("leave_last_out")
    model = train(learned, TrainingConfig(dimension=4, epochs=3), validation=last, progress=False)
    assert model.memory is None
    (note,) = [note for note in model.note_records if note.kind is NoteKind.NO_MEMORY]
    assert note.values["memory"] <= note.values["points"]


@pytest.mark.parametrize(("gain", "expected"), [(0.01, 1.0), (1.0, 0.25)])
def test_another_weight_than_the_usual_one_has_to_be_clearly_better(
    monkeypatch: pytest.MonkeyPatch, gain: float, expected: float
) -> None:
    """The weights between 0 and 1 gain this much for one half of the customers, and lose 0.5 for the other half."""
    model = train(circle(ordered=True), TrainingConfig(dimension=4, epochs=1, memory="none"), progress=False)

    def measured(*_: Any, **__: Any) -> list[Any]:
        return [
            np.tile([0.5, 0.5], 50) + (0 < weight < 1) * np.tile([0.5 + gain, -0.5], 50)
            for weight in memory_weight.WEIGHTS
        ]

    monkeypatch.setattr(memory_weight, "evaluate_variants", measured)
    assert model.histories is not None
    memory = build_memory(model.histories, 10, ordered=True)
    assert memory_weight.choose_weight(model, memory, model.histories, "ndcg@10").weight == expected


@pytest.mark.parametrize(
    ("history", "customers", "least"),
    [("causal", 2000, 3), ("folds", 2000, 3), ("orders", 2000, 1), ("orders", 900, 2)],
)
def test_by_how_many_standard_errors_another_weight_is_better(history: Any, customers: int, least: int) -> None:
    """Points alone gain 1 more than the mean for one half of the customers, and 1 less for the other half: the standard
    error is 1 / sqrt(customers)."""
    usual = memory_weight.WEIGHTS.index(memory_weight.USUAL_WEIGHTS[history])
    for errors, index in ((least - 0.1, usual), (least + 0.1, 0)):
        values = np.zeros((len(memory_weight.WEIGHTS), customers))
        values[0] = np.tile([1.0, -1.0], customers // 2) + errors / np.sqrt(customers)
        assert memory_weight.find_best_weight(values, history) == index


def test_who_has_a_memory() -> None:
    sizes = {"ordered": True, "events": 10_000, "users": 1_000, "items": 100}
    assert TrainingConfig().resolve(**sizes).memory == "auto"  # type: ignore[arg-type]
    for other in (TrainingConfig(model="symmetric"), TrainingConfig(optimiser="rsgd"), TrainingConfig(memory="none")):
        assert other.resolve(**sizes).memory == "none"  # type: ignore[arg-type]
    assert TrainingConfig().resolve(**sizes | {"users": 100}).memory == "none"  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="symmetric"):
        TrainingConfig(model="symmetric", memory="auto")
