"""Frames in, frames out; tables in notebooks; loggers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lorentzrec import InputError, Interactions, Model, StopTraining, TrainingConfig, evaluate, train
from lorentzrec.model.record import EpochRecord

COLUMNS = {
    "user": list("aabbccdd"),
    "item": list("xyxzyzxw"),
    "time": [1, 2, 1, 2, 1, 2, 1, 2],
    "weight": [1.0, 2.0] * 4,
}
CONFIG = TrainingConfig(dimension=4, epochs=3, threads=1)


@pytest.fixture(scope="module")
def model() -> Model:
    return train(Interactions.from_frame(pl.DataFrame(COLUMNS)), CONFIG)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_from_frame_is_from_pairs_of_its_columns(kind: Any) -> None:
    expected = Interactions.from_pairs(COLUMNS["user"], COLUMNS["item"], COLUMNS["time"], COLUMNS["weight"])
    assert Interactions.from_frame(kind(COLUMNS)).digest == expected.digest


def test_a_text_is_no_column() -> None:
    with pytest.raises(InputError, match=r"the times cannot be read as one column \(a single text\)"):
        Interactions.from_pairs(["a"], ["b"], times="2024-01-01")


def test_other_names_and_missing_columns() -> None:
    frame = pl.DataFrame({"who": ["a", "b"], "what": ["x", "y"], "time": [1, 2]})
    assert len(Interactions.from_frame(frame, user="who", item="what")) == 2
    complaint = "no column 'user' and no column 'item', only who, what, time: give `user` and `item`"
    with pytest.raises(InputError, match=complaint):
        Interactions.from_frame(frame)
    with pytest.raises(InputError, match="no column 'when' for the time"):
        Interactions.from_frame(frame, "who", "what", "when")
    with pytest.raises(InputError, match="not dict: use from_pairs"):
        Interactions.from_frame(COLUMNS)
    with pytest.raises(InputError, match="from_frame"):
        train(frame)  # type: ignore[arg-type]


def test_recommendations_as_frames(model: Model) -> None:
    batch = model.recommend_many(users=["a", "d"], k=2)
    frame = batch.to_frame()
    assert frame.columns == ["user", "rank", "item", "score"]
    assert frame["item"].to_list() == batch[0].ids + batch[1].ids
    assert frame["user"].to_list() == ["a"] * len(batch[0]) + ["d"] * len(batch[1])
    queries = model.recommend_many([["x"], ["y", "z"]], k=1).to_frame()
    assert queries.select("query", "rank").rows() == [(0, 1), (1, 1)]
    assert model.recommend_many([], k=1).to_frame().height == 0
    single = model.recommend(history=["x"], k=3)
    assert single.to_frame().select("item", "score").rows() == list(single)


def test_scores_of_chosen_items(model: Model) -> None:
    scores = model.score(["z", "w"], history=["x", "y"])
    ranked = dict(model.recommend(history=["x", "y"], k=4, exclude_seen=False))
    assert scores == {item: ranked[item] for item in scores}
    assert set(scores) == {"z", "w"}


def test_similar_users(model: Model) -> None:
    nearest = model.similar_users("a", k=4)
    assert nearest.ids[0] == "a"
    assert nearest.scores[0] == pytest.approx(0, abs=1e-3)
    assert (np.diff(nearest.scores) <= 0).all()
    with pytest.raises(InputError, match="'nobody' is not known"):
        model.similar_users("nobody")


def test_a_report_as_a_frame_and_as_a_table(model: Model) -> None:
    report = evaluate(model, Interactions.from_pairs(["a"], ["z"], [3]), k=2)
    frame = report.to_frame()
    assert frame.filter(metric="ndcg@2")["value"].item() == report["ndcg@2"]
    for shown in (report, model, model.recommend(history=["x"])):
        assert "<table>" in shown._repr_html_()
    assert "<b>full ranking of 1 held-out item of 1 customer</b>" in report._repr_html_()
    assert "<b>1 item</b>" in model.recommend(history=["x"], k=1)._repr_html_()
    odd = train(Interactions.from_pairs(list("aabb"), ["<b>", "y", "y", "z"], [1, 2, 1, 2]), CONFIG)
    assert "&lt;b&gt;" in odd.recommend(history=["y"])._repr_html_()


def test_callbacks_are_called_in_order_and_can_stop() -> None:
    data = Interactions.from_frame(pl.DataFrame(COLUMNS))
    seen: list[str] = []

    def stop(record: EpochRecord) -> None:
        seen.append(f"stop {record.epoch}")
        if record.epoch == 2:
            raise StopTraining("enough")

    stopped = train(data, CONFIG, callbacks=[lambda record: seen.append(f"first {record.epoch}"), stop])
    assert seen == ["first 1", "stop 1", "first 2", "stop 2"]
    assert len(stopped.record) == 2
