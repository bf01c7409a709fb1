"""The estimator: implicit's methods, scikit-learn's parameters, and the results of the model it trains."""

from __future__ import annotations

import inspect
import io
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
    assert ids.shape == scores.shape == (2, 10)
    assert (ids == -1).sum(axis=1).tolist() == [8, 7]
    assert (scores[ids == -1] == np.finfo(np.float32).min).all()
    assert (ids[1, :3] >= 33).all()
    only, _ = recommender.recommend([0, 1], histories, N=10, items=[35, 34, 1])
    assert only.shape == (2, 3), "with items, no more columns than items, as in implicit"
    assert recommender.similar_items(0, N=50)[0].tolist()[36:] == [-1] * 14
    assert recommender.recommend([], histories[:0])[0].shape == (0, 10)


def test_similar_items_and_users(recommender: MidpointRecommender) -> None:
    ids, scores = recommender.similar_items([1, 13], N=4, filter_items=[2])
    assert ids[:, 0].tolist() == [1, 13]
    assert 2 not in ids
    assert (np.diff(scores, axis=1) <= 0).all()
    users, _ = recommender.similar_users(7, N=10)
    assert users[0] == 7
    assert (users % 3 == 1).sum() >= 9, "the nearest customers are of the same group"


def test_similar_users_are_filtered(recommender: MidpointRecommender) -> None:
    nearest, scores = recommender.similar_users(7, N=4)
    rest, _ = recommender.similar_users(7, N=3, filter_users=nearest[:2])
    assert rest[:2].tolist() == nearest[2:].tolist()
    only, only_scores = recommender.similar_users([7, 8], N=9, users=[nearest[3], 7])
    assert only.shape == (2, 2)
    assert only[0].tolist() == [7, nearest[3]]
    np.testing.assert_array_equal(only_scores[0], scores[[0, 3]])


def test_rows_may_have_one_dimension(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    """As rows of SciPy's sparse arrays have, which `Interactions.to_csr` makes."""
    rows = Interactions.from_csr(user_items).to_csr()
    assert rows[0].ndim == 1
    expected = recommender.recommend(0, user_items[0])
    for found, wanted in zip(recommender.recommend(0, rows[0]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for found, wanted in zip(recommender.recommend([0], rows[0]), expected, strict=True):
        np.testing.assert_array_equal(found[0], wanted)


def test_stored_zeros_are_no_events(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    row = user_items[[0]].copy()
    row.data[0] = 0
    without = row.copy()
    without.eliminate_zeros()
    np.testing.assert_array_equal(recommender.recommend(0, row)[0], recommender.recommend(0, without)[0])
    assert row.nnz > without.nnz, "the caller's matrix is unchanged"


# --- implicit's own evaluation


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")  # by implicit
@pytest.mark.parametrize("threads", [1, 2])
def test_implicits_evaluation_runs_unchanged(user_items: sparse.csr_matrix, threads: int) -> None:
    evaluation = pytest.importorskip("implicit.evaluation", reason="implicit is not installed")
    train_part, test_part = evaluation.train_test_split(user_items, train_percentage=0.8, random_state=1)
    model = MidpointRecommender(**SETTINGS).fit(train_part, show_progress=False)
    for k in (5, 50):  # also more than there are items
        metrics = evaluation.ranking_metrics_at_k(
            model, train_part, test_part, K=k, show_progress=False, num_threads=threads
        )
        ids, _ = model.recommend(np.arange(60), train_part, N=k)
        held_out = [set(test_part[[user]].indices.tolist()) for user in range(60)]
        hits = sum(len(held_out[user] & set(ids[user].tolist())) for user in range(60))
        possible = sum(min(k, len(liked)) for liked in held_out)
        assert metrics["precision"] == pytest.approx(hits / possible)
        single = evaluation.precision_at_k(model, train_part, test_part, K=k, show_progress=False, num_threads=threads)
        assert single == metrics["precision"]
    assert hits == possible, "of all items, everything is found"
    for other in ("mean_average_precision_at_k", "ndcg_at_k", "AUC_at_k"):
        assert 0 < getattr(evaluation, other)(model, train_part, test_part, K=5, show_progress=False) <= 1


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")  # by implicit
def test_implicits_leave_k_out_split(user_items: sparse.csr_matrix) -> None:
    evaluation = pytest.importorskip("implicit.evaluation", reason="implicit is not installed")
    train_part, test_part = evaluation.leave_k_out_split(user_items, K=1, random_state=1)
    model = MidpointRecommender(**SETTINGS).fit(train_part, show_progress=False)
    found = evaluation.ranking_metrics_at_k(model, train_part, test_part, K=10, show_progress=False)
    chance = 10 / 36
    assert found["precision"] > 2 * chance, "the held-out item is one of the customer's group"


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")  # by implicit
def test_methods_have_implicits_parameters(recommender: MidpointRecommender) -> None:
    als = pytest.importorskip("implicit.cpu.als", reason="implicit is not installed")
    theirs = als.AlternatingLeastSquares
    methods = ("fit", "recommend", "rank_items", "similar_items", "similar_users", "explain")
    for name in (*methods, "recalculate_user", "recalculate_item", "partial_fit_users", "partial_fit_items"):
        expected = list(inspect.signature(getattr(theirs, name)).parameters)
        assert list(inspect.signature(getattr(MidpointRecommender, name)).parameters) == expected, name
    ids, scores = recommender.recommend([1, 2])
    fitted = theirs(factors=4, random_state=1)
    fitted.fit(sparse.csr_matrix(np.eye(4, 36, dtype=np.float32)), show_progress=False)
    their_ids, their_scores = fitted.recommend([1, 2], sparse.csr_matrix(np.eye(2, 36, dtype=np.float32)))
    assert (ids.dtype, scores.dtype, ids.shape) == (their_ids.dtype, their_scores.dtype, their_ids.shape)


def test_implicits_names_of_hyper_parameters() -> None:
    made = MidpointRecommender(factors=16, iterations=5, num_threads=0, random_state=4)
    assert repr(made) == "MidpointRecommender(dimension=16, epochs=5, seed=4)"
    assert repr(made.set_params(factors=8, num_threads=2)) == (
        "MidpointRecommender(dimension=8, epochs=5, threads=2, seed=4)"
    )
    assert clone(made).get_params() == made.get_params()
    with pytest.raises(ConfigError, match="dimension is given twice, by its own name and by that of implicit"):
        MidpointRecommender(factors=16, dimension=16)
    with pytest.raises(ConfigError, match="did you mean 'regularisation'"):
        MidpointRecommender(regularization=0.01)
    with pytest.raises(ConfigError, match="random_state is None: give a whole number"):
        MidpointRecommender(random_state=None)


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize("score", ["distance", "inner"])
@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("masses", ["on", "off"])
def test_products_of_factors_have_the_order_of_recommendations(
    geometry: str, score: str, model: str, masses: str, user_items: sparse.csr_matrix
) -> None:
    """With masses and distances nearly: the best ten are among the first 20."""
    settings = SETTINGS | {"geometry": geometry, "score": score, "model": model, "masses": masses}
    some = user_items.copy()
    some.data[some.indptr[9] : some.indptr[10]] = 0
    fitted = MidpointRecommender(**settings).fit(some, show_progress=False)
    users, items = fitted.user_factors, fitted.item_factors
    assert users.dtype == items.dtype == np.float32
    assert users.shape[1] == items.shape[1]
    assert not users[9].any(), "customer 9 has no events"
    with_events = np.delete(np.arange(60), 9)
    ids, _ = fitted.recommend(with_events, N=10, filter_already_liked_items=False)
    best = np.argsort(-(users[with_events].astype(np.float64) @ items.T), axis=1, kind="stable")
    best = best[:, : 20 if masses == "on" and score == "distance" else 10]
    shared = [len(set(one) & set(other)) for one, other in zip(ids.tolist(), best.tolist(), strict=True)]
    assert np.mean(shared) >= 9.9
    if model == "asymmetric":
        for userid, rows in ((4, some[4]), ([4, 5], some[[4, 5]])):
            np.testing.assert_allclose(fitted.recalculate_user(userid, rows), users[userid], rtol=1e-5, atol=1e-6)


def test_explain(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    [item] = recommender.recommend(4, user_items[4], N=1)[0]
    score, parts, _ = recommender.explain(4, user_items, item)
    assert score == recommender.recommend(4, user_items[4], N=1)[1][0]
    assert {one for one, _ in parts} <= set(user_items[[4]].indices.tolist())
    shares = [share for _, share in parts]
    assert shares == sorted(shares, reverse=True)
    assert 0 < sum(shares) <= 1 + 1e-9
    reasons = recommender.model_.recommend(user_items[[4]].indices.tolist(), k=1, reasons=True).reasons
    assert reasons is not None
    assert [(reason.item, reason.share) for reason in reasons[0]] == parts[:3]
    for same in (user_items[4], None, Interactions.from_csr(user_items).to_csr()[4]):
        assert recommender.explain(4, same, item)[:2] == (score, parts)
    assert recommender.explain(4, user_items, item, N=2)[1] == parts[:2]
    disliking = sparse.csr_matrix(user_items[[4]], copy=True).astype(np.float32)
    disliking.data[0] = -1
    with pytest.raises(InputError, match=f"a dislike of item {disliking.indices[0]}, which"):
        recommender.explain(4, disliking, disliking.indices[0])
    with pytest.raises(InputError, match="the item 99 is not known"):
        recommender.explain(4, user_items, 99)
    with pytest.raises(InputError, match="the history of user 4 is empty"):
        recommender.explain(4, sparse.csr_matrix((1, 36)), item)


def test_ranked_items(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    ids, scores = recommender.rank_items(0, user_items[0], [30, 1, 2])
    assert sorted(ids.tolist()) == [1, 2, 30]
    assert ids[2] == 30
    assert (np.diff(scores) <= 0).all()


def test_what_cannot_be_done_is_one_line(recommender: MidpointRecommender, user_items: sparse.csr_matrix) -> None:
    with pytest.raises(InputError, match=r"give their new user_items to recommend"):
        recommender.partial_fit_users([0], user_items[0])
    with pytest.raises(InputError, match=r"Model\.add_items"):
        recommender.partial_fit_items([0], user_items.T[0])
    for call in (recommender.recalculate_item, lambda *given: recommender.similar_items(given[0], 10, True, given[1])):
        with pytest.raises(InputError, match=r"lorentzrec\.update"):
            call(0, user_items.T[0])
    symmetric = MidpointRecommender(**SETTINGS | {"model": "symmetric"}).fit(user_items, show_progress=False)
    with pytest.raises(InputError, match="explain needs model=asymmetric"):
        symmetric.explain(0, user_items, 3)
    with pytest.raises(InputError, match="saved as a folder, not to a BytesIO"):
        recommender.save(io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="both users and filter_users"):
        recommender.similar_users(0, users=[1], filter_users=[2])
    with pytest.raises(InputError, match="both items and filter_items"):
        recommender.similar_items(0, items=[1], filter_items=[2])


def test_ids_of_interactions_come_back_as_they_are() -> None:
    data = Interactions.from_pairs(list("aabbcc"), ["tea", "cup", "tea", "pot", "pot", "jam"], times=[1, 2, 1, 2, 1, 2])
    model = MidpointRecommender(**SETTINGS).fit(data, show_progress=False)
    ids, _ = model.recommend("a", N=2)
    assert set(ids.tolist()) == {"pot", "jam"}
    ids, _ = model.recommend(["a", "b"], N=3)
    assert ids.shape == (2, 3)
    assert ids[:, 2].tolist() == ["", ""]


def test_large_ids_are_64_bits() -> None:
    data = Interactions.from_pairs([1, 1, 2, 2, 3, 3], [2**40, 1, 2**40, 2, 2, 3], times=[1, 2, 1, 2, 1, 2])
    model = MidpointRecommender(**SETTINGS).fit(data, show_progress=False)
    ids, _ = model.recommend(3, N=9)
    assert (ids.dtype, ids.shape) == (np.dtype(np.int64), (9,))
    assert ids.max() == 2**40
    assert model.similar_users(1)[0].dtype == np.int32


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
    with pytest.raises(InputError, match="user_items has 35 columns: give 36 columns"):
        recommender.recommend(0, user_items[0, :35])
    with pytest.raises(InputError, match="give a SciPy matrix"):
        recommender.recommend(0, [1, 2])


def test_no_customers_give_no_rows() -> None:
    data = Interactions.from_pairs(["u", "u", "v", "v"], ["a", "b", "a", "c"], [1, 2, 3, 4])
    fitted = MidpointRecommender(epochs=1, dimension=2).fit(data, show_progress=False)
    ids, scores = fitted.recommend([], N=2)
    assert (ids.shape, ids.dtype.kind, scores.shape) == ((0, 2), "U", (0, 2))


def test_factors_of_customers_are_computed_once_per_fit() -> None:
    data = Interactions.from_pairs(["u", "u", "v", "v"], ["a", "b", "a", "c"], [1, 2, 3, 4])
    fitted = MidpointRecommender(epochs=1, dimension=2).fit(data, show_progress=False)
    first = fitted.user_factors
    assert fitted.user_factors is first
    assert not first.flags.writeable
    again = fitted.set_params(seed=5).fit(data, show_progress=False).user_factors
    assert not np.array_equal(again, first)


def test_a_misspelt_name_of_implicit_is_suggested() -> None:
    with pytest.raises(ConfigError, match="there is no hyper-parameter 'factor': did you mean 'factors'"):
        MidpointRecommender(factor=3)
