"""The largest scores are those of a full sort, with ties, exclusions and allow-lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from lorentzrec.points import topk
from lorentzrec.points.topk import best_scores, contenders, top_columns, top_k

FEW_VALUES = arrays(
    np.float32, st.tuples(st.integers(1, 3), st.integers(1, 400)), elements=st.sampled_from([-np.inf, 0, 1, 2])
)


@pytest.mark.parametrize("few", [0, topk.FEW_SCORES], ids=["groups", "partition"])
@given(
    # Few distinct values, so that there are ties in every place.
    scores=arrays(np.float32, st.integers(0, 40), elements=st.integers(-3, 3).map(float)),
    k=st.integers(1, 50),
    excluded=st.lists(st.integers(0, 39)),
    allowed=st.none() | st.lists(st.integers(0, 39)),
)
def test_top_k_is_a_full_sort(
    few: int, scores: NDArray[np.float32], k: int, excluded: list[int], allowed: list[int] | None
) -> None:
    rows = range(len(scores))
    out = [row for row in excluded if row in rows]
    only = None if allowed is None else [row for row in allowed if row in rows]
    left = [row for row in rows if row not in out and (only is None or row in only)]
    expected = sorted(left, key=lambda row: (-scores[row], row))[:k]
    before = scores.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk, "FEW_SCORES", few)
        found = top_k(scores, k, np.array(out, np.int64), None if only is None else np.array(only, np.int64))
    assert found.tolist() == expected
    assert np.array_equal(scores, before)


@pytest.mark.parametrize("few", [0, topk.FEW_SCORES], ids=["groups", "partition"])
def test_contenders_are_within_the_slack_of_place_k(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "FEW_SCORES", few)
    scores = np.random.default_rng(0).permutation(1000).astype(np.float32)
    assert sorted(scores[contenders(scores, 10, slack=5.0)].tolist()) == list(range(985, 1000))


@given(scores=FEW_VALUES, data=st.data())
def test_best_scores_are_the_head_of_a_sorted_list(scores: NDArray[np.float32], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, scores.shape[1]))
    expected = np.sort(scores, axis=1)[:, ::-1][:, :count]
    np.testing.assert_array_equal(best_scores(scores, count), expected)
    columns, values = top_columns(scores, count)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.take_along_axis(scores, columns, axis=1), expected)
    assert all(len(set(row)) == count for row in columns.tolist())


def test_best_of_many_different_scores() -> None:
    scores = np.random.default_rng(0).standard_normal((5, 10_007)).astype(np.float32)
    np.testing.assert_array_equal(best_scores(scores, 20), np.sort(scores, axis=1)[:, ::-1][:, :20])
    np.testing.assert_array_equal(top_columns(scores, 20)[0], np.argsort(-scores, axis=1)[:, :20])


@pytest.mark.parametrize("width", [1, 63, 349, 1000, 3706])
def test_the_best_score_is_found_in_every_column(width: int) -> None:
    """Also in the columns at the end that are left over when columns are cut into groups."""
    scores = np.eye(width, dtype=np.float32)
    assert top_columns(scores, 1)[0][:, 0].tolist() == list(range(width))
    assert np.all(best_scores(scores, 1) == 1)
