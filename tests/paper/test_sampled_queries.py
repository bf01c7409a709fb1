"""Queries drawn once give the numbers of `evaluate`, which draws them for each model."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.evaluation.metrics import hit_rate, ndcg
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.geometry.hyperboloid import lift, squared_lorentzian_distance
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec_paper.amazon_grid import SampledQueries


def events() -> Interactions:
    generator = np.random.default_rng(3)
    users = np.repeat(np.arange(300), 6)
    return Interactions.from_pairs(users, generator.integers(0, 80, len(users)), times=np.arange(len(users)))


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
def test_the_same_numbers_as_evaluate(geometry: Literal["hyperboloid", "euclidean"]) -> None:
    train_part, test = events().split("leave_last_out", drop_unseen_items=True)
    config = TrainingConfig(
        geometry=geometry,
        model="symmetric",
        loss="bpr",
        score="inner",
        optimiser="rsgd",
        dimension=4,
        epochs=2,
        threads=1,
    )
    model = train(train_part, config, progress=False)
    assert model.user_points is not None
    queries = SampledQueries.draw(test, train_part, negatives=30, seed=5)
    ranks = queries.ranks(model.user_points, model.item_points, hyperbolic=geometry == "hyperboloid")
    report = evaluate(model, test, "sampled", negatives=30, seed=5, intervals=False)
    assert hit_rate(ranks, 10).mean() == pytest.approx(report["hr@10"])
    assert ndcg(ranks, 10).mean() == pytest.approx(report["ndcg@10"], rel=1e-3)  # near ties may fall either way
    assert model.user_points.flags.writeable is False  # and was not written into


def test_candidates_are_new_to_the_customer_and_the_held_out_item_is_first() -> None:
    train_part, test = events().split("leave_last_out", drop_unseen_items=True)
    queries = SampledQueries.draw(test, train_part, negatives=30)
    np.testing.assert_array_equal(queries.candidates[:, 0], test.item_rows)
    for user_row, candidates in zip(queries.user_rows, queries.candidates, strict=True):
        assert len(set(candidates)) == 31
        assert not set(candidates[1:]) & set(train_part.history(int(user_row)))


def test_points_near_the_origin_keep_their_order() -> None:
    train_part, test = events().split("leave_last_out", drop_unseen_items=True)
    queries = SampledQueries.draw(test, train_part, negatives=30)
    generator = np.random.default_rng(0)
    # in float32 all of these have a time coordinate of 1, and <u, v> is -1
    users, items = (lift(generator.normal(size=(count, 2)) * 1e-4).astype(np.float32) for count in (300, 80))
    ranks = queries.ranks(users, items, hyperbolic=True)
    exact = np.arccosh(1 + squared_lorentzian_distance(users[:, None].astype(float), items[None].astype(float)) / 2)
    far = exact[queries.user_rows[:, None], queries.candidates]
    np.testing.assert_array_equal(ranks.above, (far[:, 1:] < far[:, :1]).sum(axis=1))


def test_equal_scores_are_chance() -> None:
    train_part, test = events().split("leave_last_out", drop_unseen_items=True)
    queries = SampledQueries.draw(test, train_part, negatives=30)
    ones = np.ones((300, 1), np.float32)
    ranks = queries.ranks(ones, np.ones((80, 1), np.float32), hyperbolic=False)
    assert hit_rate(ranks, 10).mean() == pytest.approx(10 / 31)


def test_too_few_items_without_events_and_infinite_points_are_refused() -> None:
    train_part, test = events().split("leave_last_out")
    with pytest.raises(InputError, match="items without an event: use that many negatives"):
        SampledQueries.draw(test, train_part, negatives=79)
    queries = SampledQueries.draw(test, train_part, negatives=10)
    with pytest.raises(InputError, match="not finite"):
        queries.ranks(np.ones((300, 1), np.float32), np.full((80, 1), np.nan, np.float32), hyperbolic=False)
