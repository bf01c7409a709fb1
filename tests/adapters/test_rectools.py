"""The recommender in RecTools: its own cross-validation, against what the library recommends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lorentzrec import Interactions, TrainingConfig, train
from tests.adapters.small_shop import SETTINGS, events

pytest.importorskip("rectools", reason="RecTools is not installed: see docs/coming-from.md")
pytestmark = pytest.mark.filterwarnings("default")  # RecTools and pandas warn about one another

DAY = pd.Timestamp("2024-01-01")


def table() -> pd.DataFrame:
    frame = events()
    frame["datetime"] = DAY + pd.to_timedelta(frame.pop("time"), unit="h")
    return frame.assign(weight=1.0)


def test_cross_validation_of_rectools() -> None:
    from examples.rectools_model import MidpointModel
    from rectools.dataset import Dataset
    from rectools.metrics import MAP, Recall
    from rectools.model_selection import LastNSplitter, cross_validate
    from rectools.models import PopularModel

    found = cross_validate(
        dataset=Dataset.construct(table()),
        splitter=LastNSplitter(1, n_splits=1, filter_already_seen=False),
        metrics={"recall@10": Recall(10), "map@10": MAP(10)},
        models={"midpoint": MidpointModel(**SETTINGS), "popular": PopularModel()},
        k=10,
        filter_viewed=False,
    )
    values = {metrics["model"]: metrics for metrics in found["metrics"]}
    assert values["midpoint"]["recall@10"] > values["popular"]["recall@10"], "each group has its own ten items"
    assert 0 < values["midpoint"]["map@10"] <= 1


def test_recommendations_are_those_of_the_library() -> None:
    from examples.rectools_model import MidpointModel
    from rectools.dataset import Dataset

    frame = table()
    dataset = Dataset.construct(frame)
    fitted = MidpointModel(**SETTINGS).fit(dataset)
    data = Interactions.from_pairs(
        frame["user_id"].tolist(), frame["item_id"].tolist(), times=np.arange(len(frame)), weights=np.ones(len(frame))
    )
    model = train(data, TrainingConfig(**SETTINGS), progress=False)
    found = fitted.recommend([103, 108], dataset, k=4, filter_viewed=True)
    for user in (103, 108):
        expected = model.recommend(user=user, k=4)
        mine = found[found["user_id"] == user]
        assert mine["item_id"].tolist() == expected.ids
        assert mine["score"].tolist() == pytest.approx(expected.scores.tolist(), rel=1e-5)
        assert mine["rank"].tolist() == [1, 2, 3, 4]
    chosen = fitted.recommend([103], dataset, k=4, filter_viewed=False, items_to_recommend=[1, 2])
    assert set(chosen["item_id"]) == {1, 2}
    similar = fitted.recommend_to_items([1], dataset, k=3)
    assert similar["item_id"].tolist() == model.similar_items(1, 3).ids
    few = fitted.recommend_to_items([1], dataset, k=3, items_to_recommend=[1, 2, 12])
    assert set(few["item_id"]) == {2, 12}


def test_users_who_were_not_in_training() -> None:
    """By their history if the dataset has one, else the popular items."""
    from examples.rectools_model import MidpointModel
    from rectools.dataset import Dataset

    frame = table()
    fitted = MidpointModel(**SETTINGS).fit(Dataset.construct(frame[frame["user_id"] != 103]))
    assert 103 not in fitted.model.users
    dataset = Dataset.construct(frame)
    found = fitted.recommend([103, 999], dataset, k=4, filter_viewed=True)
    history = frame[frame["user_id"] == 103].sort_values("datetime")["item_id"].tolist()
    for user, expected in ((103, fitted.model.recommend(history, k=4)), (999, fitted.model.recommend([], k=4))):
        assert found[found["user_id"] == user]["item_id"].tolist() == expected.ids


def test_settings_come_back() -> None:
    from examples.rectools_model import MidpointModel

    config = MidpointModel(**SETTINGS).get_config(simple_types=True)
    assert MidpointModel.from_config(config).settings == SETTINGS
    with pytest.raises(Exception, match="did you mean 'dimension'"):
        MidpointModel(dimenson=3)
