"""The estimator: implicit's methods, scikit-learn's parameters, and the results of the model it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from lorentzrec import ConfigError, InputError, Interactions, MidpointRecommender

SETTINGS: dict[str, Any] = {"dimension": 6, "epochs": 8, "threads": 1, "seed": 3}


@pytest.fixture(scope="module")
def user_items() -> sparse.csr_matrix:
    """Three groups of customers, each with twelve items of its own."""
    random = np.random.default_rng(0)
    users = random.integers(0, 60, 1500)
    items = (users % 3) * 12 + random.integers(0, 12, 1500)
    matrix = sparse.csr_matrix((np.ones(1500, np.float32), (users, items)), (60, 36))
    matrix.data[:] = 1
    return matrix


@pytest.fixture(scope="module")
def recommender(user_items: sparse.csr_matrix) -> MidpointRecommender:
    return MidpointRecommender(**SETTINGS).fit(user_items, show_progress=False)


QUICKSTART = """
# of implicit's tutorial, with other names for artists and plays
from {library} import {name}

model = {name}({arguments})
model.fit(user_plays)
userid = 0
ids, scores = model.recommend(userid, user_plays[userid], N=10, filter_already_liked_items=False)
liked = np.isin(ids, user_plays[userid].indices)
table = pd.DataFrame({{"artist": artists[ids], "score": scores, "already_liked": liked}})
ids, scores = model.similar_items(14)
related = pd.DataFrame({{"artist": artists[ids], "score": scores}})
userids = np.arange(10)
ids, scores = model.recommend(userids, user_plays[userids])
"""


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")  # by implicit
@pytest.mark.parametrize(
    ("library", "name", "arguments"),
    [
        ("implicit.als", "AlternatingLeastSquares", "factors=6, regularization=0.05, alpha=2.0, random_state=1"),
        ("lorentzrec", "MidpointRecommender", "dimension=6, epochs=8, threads=1, seed=3"),
    ],
)
def test_implicits_quickstart_after_changing_import_class_and_arguments(
    user_items: sparse.csr_matrix, library: str, name: str, arguments: str
) -> None:
    pytest.importorskip("implicit", reason="implicit is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    artists = np.array([f"a{number}" for number in range(36)])
    here: dict[str, Any] = {"np": np, "pd": pd, "user_plays": user_items, "artists": artists}
    exec(QUICKSTART.format(library=library, name=name, arguments=arguments), here)
    first = {f"a{number}" for number in range(12)}
    assert here["table"]["artist"].isin(first).sum() >= 8, "customer 0 is of the first group"
    assert here["table"]["already_liked"].any()
    assert here["table"]["score"].is_monotonic_decreasing
    assert here["related"]["artist"][0] == "a14"
    assert here["ids"].shape == here["scores"].shape == (10, 10)
    assert here["scores"].dtype == np.float32


def test_results_are_those_of_the_model(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    ids, scores = recommender.recommend([4, 5], user_items[[4, 5]], N=6)
    for row, user in enumerate((4, 5)):
        expected = recommender.model_.recommend(history=user_items[[user]].indices.tolist(), k=6)
        assert ids[row].tolist() == expected.ids
        np.testing.assert_array_equal(scores[row], expected.scores)
    again, _ = recommender.recommend([4, 5], N=6)
    np.testing.assert_array_equal(again, ids)


def test_filters(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    liked = set(user_items[[0]].indices.tolist())
    ids, _ = recommender.recommend(0, user_items[0], N=36)
    assert not liked & set(ids.tolist())
    best = recommender.recommend(0, user_items[0], N=3)[0]
    rest, _ = recommender.recommend(0, user_items[0], N=3, filter_items=best)
    assert not set(best.tolist()) & set(rest.tolist())
    only, _ = recommender.recommend(0, user_items[0], N=3, items=[30, 31], filter_already_liked_items=False)
    assert set(only.tolist()) == {30, 31}
    with pytest.raises(InputError, match="both items and filter_items"):
        recommender.recommend(0, user_items[0], filter_items=[1], items=[2])


def test_shorter_lists_are_padded_as_in_implicit(recommender: MidpointRecommender) -> None:
    histories = sparse.csr_matrix(np.vstack([np.r_[np.ones(34), 0, 0], np.r_[np.ones(33), 0, 0, 0]]))
    ids, scores = recommender.recommend([0, 1], histories, N=10)
    assert ids[0].tolist().count(-1) == 1
    assert scores[0, 2] == np.finfo(np.float32).min
    assert (ids[1] >= 33).all()


def test_similar_items_and_users(recommender: MidpointRecommender) -> None:
    ids, scores = recommender.similar_items([1, 13], N=4, filter_items=[2])
    assert ids[:, 0].tolist() == [1, 13]
    assert 2 not in ids
    assert (np.diff(scores, axis=1) <= 0).all()
    users, _ = recommender.similar_users(7, N=10)
    assert users[0] == 7
    assert (users % 3 == 1).sum() >= 9, "the nearest customers are of the same group"


def test_ids_of_interactions_come_back_as_they_are() -> None:
    data = Interactions.from_pairs(list("aabbcc"), ["tea", "cup", "tea", "pot", "pot", "jam"], times=[1, 2, 1, 2, 1, 2])
    model = MidpointRecommender(**SETTINGS).fit(data, show_progress=False)
    ids, _ = model.recommend("a", N=2)
    assert set(ids.tolist()) == {"pot", "jam"}
    ids, _ = model.recommend(["a", "b"], N=3)
    assert ids.shape == (2, 2)


def test_scikit_learn_clones_it(recommender: MidpointRecommender) -> None:
    copy = clone(recommender)
    assert copy.get_params() == recommender.get_params()
    assert not hasattr(copy, "model_")
    assert copy.set_params(dimension=9).get_params()["dimension"] == 9
    assert repr(copy) == "MidpointRecommender(dimension=9, epochs=8, threads=1, seed=3)"


def test_callback_and_progress(user_items: sparse.csr_matrix) -> None:
    calls: list[tuple[int, float, float]] = []
    MidpointRecommender(**SETTINGS | {"epochs": 3}).fit(user_items, False, lambda *values: calls.append(values))
    assert [number for number, _, _ in calls] == [0, 1, 2]


def test_saved_and_loaded(recommender: MidpointRecommender, user_items: sparse.csr_matrix, tmp_path: Path) -> None:
    recommender.save(tmp_path / "model")
    loaded = MidpointRecommender.load(tmp_path / "model")
    expected = recommender.recommend([1, 2], user_items[[1, 2]])
    for found, wanted in zip(loaded.recommend([1, 2], user_items[[1, 2]]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_bad_input(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    with pytest.raises(InputError, match="call fit first"):
        MidpointRecommender().recommend(0)
    with pytest.raises(ConfigError, match="did you mean 'dimension'"):
        MidpointRecommender(dimenson=8)
    with pytest.raises(InputError, match=r"a row for each of 1 users"):
        recommender.recommend(0, user_items)
    with pytest.raises(InputError, match="give a SciPy matrix"):
        recommender.recommend(0, [1, 2])
