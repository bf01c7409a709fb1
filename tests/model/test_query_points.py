"""Query points: what items are ranked by, and what another tool finds with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lorentzrec import InputError, Interactions, Model, TrainingConfig, train
from lorentzrec.synthetic.shop import synthetic_shop
from tests.model.hand_made_models import hand_made

SPACES = [(geometry, score) for geometry in ("hyperboloid", "euclidean") for score in ("distance", "inner")]


@pytest.fixture(scope="module")
def data() -> Interactions:
    return synthetic_shop(customers=300, items=300, interactions=4_000, seed=1).interactions()


def fit(data: Interactions, **settings: Any) -> Model:
    options = {"dimension": 8, "epochs": 3, "threads": 1, "memory": "none"} | settings
    return train(data, TrainingConfig.from_mapping(options), progress=False)


@pytest.mark.parametrize(("geometry", "score"), SPACES)
@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("masses", ["on", "off"])
def test_faiss_finds_what_the_model_recommends(
    geometry: str, score: str, model: str, masses: str, data: Interactions
) -> None:
    """At least 9.9 of 10 on average, with points alone: among as many, or with masses and distances among 20."""
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    trained = fit(data, geometry=geometry, score=score, model=model, masses=masses)
    queries = trained.query_vectors(users=data.users)
    assert queries.dtype == trained.item_vectors.dtype == np.float32
    assert trained.query_points(users=data.users).shape == (len(data.users), trained.item_points.shape[1])
    index = faiss.IndexFlatIP(queries.shape[1])
    index.add(trained.item_vectors)
    _, rows = index.search(queries, 20 if masses == "on" and score == "distance" else 10)
    expected = trained.recommend_many(users=data.users, k=10, exclude_seen=False)
    shared = [len({*trained.items.ids(found)} & {*one.ids}) for found, one in zip(rows, expected, strict=True)]
    assert np.mean(shared) >= 9.9


def test_users_are_their_histories(data: Interactions) -> None:
    model = fit(data)
    users = data.users[:20]
    histories = [data.history_ids(user) for user in users]
    points = model.query_points(users=users)
    np.testing.assert_allclose(model.query_points(histories=histories), points, rtol=1e-6)
    strangers = [["gone", *history, "lost"] for history in histories]
    np.testing.assert_allclose(model.query_points(histories=strangers), points, rtol=1e-6)
    ones = [[1.0] * len(history) for history in histories]
    np.testing.assert_allclose(model.query_points(histories=histories, weights=ones), points, rtol=1e-6)
    rising = [list(range(1, len(history) + 1)) for history in histories]
    assert not np.allclose(model.query_points(histories=histories, weights=rising), points, rtol=1e-3)


def test_points_are_on_the_hyperboloid_and_nearest_to_what_is_recommended() -> None:
    model = hand_made()
    [point] = model.query_points(histories=[["i3", "i7"]]).astype(np.float64)
    assert -(point[0] ** 2) + (point[1:] ** 2).sum() == pytest.approx(-1, abs=1e-5)
    products = model.item_points.astype(np.float64) @ (point * np.r_[-1, np.ones(len(point) - 1)])
    expected = model.recommend(["i3", "i7"], k=3, exclude_seen=False)
    assert model.items.ids(np.argsort(-products)[:3]) == expected.ids
    np.testing.assert_allclose(-np.arccosh(-np.sort(products)[:-4:-1]), expected.scores, rtol=1e-3)


def test_what_has_no_point_is_named(data: Interactions) -> None:
    model = hand_made()
    for given in ({}, {"users": ["u1"], "histories": [["i1"]]}, {"users": ["u1"], "weights": [[1.0]]}):
        with pytest.raises(InputError, match="give either histories, with weights if you like, or users"):
            model.query_points(**given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="history 2 has nothing liked that this model knows: leave it out"):
        model.query_points(histories=[["i1"], ["gone"]])
    with pytest.raises(InputError, match="the user 'nobody' is not known to this model"):
        model.query_points(users=["nobody"])
    with pytest.raises(InputError, match="users is 'u1', not a list"):
        model.query_points(users="u1")
    keep = data.user_rows != 3
    idle = fit(data.select(keep))
    with pytest.raises(InputError, match=f"the user {data.users[3]!r} has no event in the training data: leave them"):
        idle.query_points(users=data.users[:5])
    assert idle.query_points(users=[]).shape == (0, 9)
    assert idle.query_points(histories=[]).shape == (0, 9)
