"""The largest scores are those of a full sort, with ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from lorentzrec.points.topk import best_scores, top_columns

FEW_VALUES = arrays(
    np.float32, st.tuples(st.integers(1, 3), st.integers(1, 400)), elements=st.sampled_from([-np.inf, 0, 1, 2])
)


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
