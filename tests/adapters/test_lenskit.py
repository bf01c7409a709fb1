"""The recommender in LensKit: its own batch run and metrics, against what the library recommends."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from tests.adapters.small_shop import SETTINGS, events

pytest.importorskip("lenskit", reason="LensKit is not installed: see docs/coming-from.md")
pytestmark = pytest.mark.filterwarnings("default")  # LensKit and pandas warn about one another


def frame() -> pd.DataFrame:
    """A rating table has each pair once."""
    rows = events().drop_duplicates(["user_id", "item_id"])
    return rows.assign(timestamp=pd.Timestamp("2024-01-01") + pd.to_timedelta(rows.pop("time"), unit="h"))


def test_a_batch_run_of_lenskit() -> None:
    from examples.lenskit_scorer import MidpointScorer
    from lenskit.basic import PopScorer
    from lenskit.batch import recommend
    from lenskit.data import ItemListCollection, UserIDKey, from_interactions_df
    from lenskit.metrics import NDCG, Recall, RunAnalysis
    from lenskit.pipeline import topn_pipeline

    rows = frame()
    last = rows.groupby("user_id").tail(1)
    train = from_interactions_df(rows.drop(last.index))
    test = ItemListCollection.from_df(last[["user_id", "item_id"]], key=UserIDKey)
    values = {}
    for name, scorer in {"midpoint": MidpointScorer(**SETTINGS), "popular": PopScorer()}.items():
        pipeline = topn_pipeline(scorer, n=10)
        pipeline.train(train)
        lists = recommend(pipeline, test.keys(), 10, n_jobs=1)
        analysis = RunAnalysis()
        analysis.add_metric(Recall(10))
        analysis.add_metric(NDCG(10))
        values[name] = analysis.measure(lists, test).list_summary()["mean"]
    assert values["midpoint"]["Recall@10"] > values["popular"]["Recall@10"], "each group has its own ten items"
    assert 0 < values["midpoint"]["NDCG@10"] <= 1


def test_scores_are_those_of_the_library() -> None:
    from examples.lenskit_scorer import MidpointScorer
    from lenskit.data import ItemList, RecQuery, from_interactions_df

    data = from_interactions_df(frame())
    scorer = MidpointScorer(**SETTINGS)
    scorer.train(data)
    model = scorer.model
    wanted = ItemList([1, 99, 14])
    row = data.user_row(103)
    for query, expected in (
        (RecQuery(user_id=103, history_items=row), model.score([1, 14], user=103)),
        (103, model.score([1, 14], user=103)),
        (ItemList([2, 5]), model.score([1, 14], history=[2, 5])),
        (
            RecQuery(user_id=999, history_items=ItemList([2]), context_items=ItemList([5])),
            model.score([1, 14], history=[2, 5]),
        ),
    ):
        scores = scorer(query, wanted).scores().tolist()
        assert scores[0] == pytest.approx(expected[1])
        assert math.isnan(scores[1])
        assert scores[2] == pytest.approx(expected[14])
