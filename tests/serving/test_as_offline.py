"""The service and `Model.recommend` return the same items, scores and reasons for the same options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorentzrec.serving.recommending.query import RankingOptions
from lorentzrec.serving.recommending.recommender import Recommender
from serving.small_shop import shop_model, shop_table, shop_version

HISTORY = ["i3", "i17", "i8", "unknown"]


@pytest.mark.parametrize("settings", [{}, {"targets": "separate", "score": "inner"}, {"geometry": "euclidean"}])
def test_the_same_recommendations(settings: dict[str, Any], tmp_path: Path) -> None:
    model = shop_model(**settings)
    recommender = Recommender(shop_version(tmp_path / "version", model))
    options: dict[str, Any] = {"k": 6, "diversity": 0.4, "categories": ["coats", "hats", "rings"], "reasons": True}
    served = recommender.recommend([*HISTORY, "i30"], RankingOptions(**options))
    found = model.recommend(HISTORY, context=["i30"], item_table=shop_table(), **options)
    assert found.ids == [item.id for item in served.items]
    assert found.scores.tolist() == pytest.approx([item.score for item in served.items])
    assert found.reasons is not None
    assert [[reason.item for reason in because] for because in found.reasons] == [
        [reason.item for reason in item.because] for item in served.items
    ]
    assert [reason.kind for because in found.reasons for reason in because] == [
        reason.kind for item in served.items for reason in item.because
    ]
    assert [fallback.cause for fallback in found.fallbacks] == [fallback.cause for fallback in served.fallbacks]
