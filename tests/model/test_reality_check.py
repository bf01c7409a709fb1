"""The reality check as a record: its sentence, and its way through a manifest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lorentzrec.model.reality_check import CheckedSystem, RealityCheck


def made(**baselines: tuple[float, bool]) -> RealityCheck:
    """A model with NDCG 0.1 next to baselines, given by their NDCG and whether the difference is significant."""
    rows = [CheckedSystem(name="this model", ndcg=0.1, recall=0.2)]
    for name, (ndcg, significant) in baselines.items():
        row = {"difference": 0.1 - ndcg, "standard_error": 0.01, "significant": significant}
        rows.append(CheckedSystem(name=name.replace("_", "-"), ndcg=ndcg, recall=ndcg, **row))  # type: ignore[arg-type]
    return RealityCheck(rows=tuple(rows), customers=300, candidates="all")


def test_the_sentence_of_a_loss_names_the_best_baseline_first() -> None:
    check = made(popularity=(0.15, True), own_frequency=(0.2, True), item_knn=(0.11, False))
    assert [row.name for row in check.lost_to] == ["own-frequency", "popularity"]
    assert str(check) == (
        "this model loses to own-frequency (0.2000) and popularity (0.1500) with NDCG@10 0.1000 on held-out events of "
        "300 customers: customers buy the same items again, so show them what they bought most often as well"
    )


@pytest.mark.parametrize(
    ("baselines", "verdict"),
    [
        ({"popularity": (0.02, True), "item_knn": (0.05, True)}, "is ahead of the best baseline, item-knn (0.0500)"),
        ({"popularity": (0.02, True), "item_knn": (0.11, False)}, "is level with the best baseline, item-knn (0.1100)"),
    ],
)
def test_the_sentence_of_a_model_that_does_not_lose(baselines: dict[str, Any], verdict: str) -> None:
    assert not made(**baselines).lost_to
    assert f"this model {verdict}, with NDCG@10 0.1000" in str(made(**baselines))


def test_json_and_back() -> None:
    check = made(popularity=(0.15, True), item_knn=(0.05, False))
    assert RealityCheck.from_dict(json.loads(json.dumps(check.to_dict()))) == check


@pytest.mark.parametrize(
    "damage",
    [
        {"customers": "many"},
        {"candidates": "some"},
        {"rows": []},
        {"rows": [{"name": "popularity", "ndcg": 0.1, "recall": 0.1}] * 2},
        {"rows": [{"name": "this model", "ndcg": "high", "recall": 0.1}] * 2},
        {"rows": [{"name": "this model", "ndcg": 0.1}] * 2},
        {"surplus": 1},
    ],
)
def test_damaged_entries(damage: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        RealityCheck.from_dict(made(popularity=(0.1, False)).to_dict() | damage)
