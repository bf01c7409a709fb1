"""Groups of rows in flat arrays, and the correlation of two arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lorentzrec.data import arrays
from lorentzrec.data.arrays import count_pairs, rank_correlation, spans_within, sum_columns


@pytest.mark.parametrize(
    ("sizes", "most", "spans"),
    [
        ([2, 2, 2, 2], 4, [(0, 2), (2, 4)]),
        ([2, 2, 2, 2], 5, [(0, 2), (2, 4)]),
        ([1, 9, 1, 1], 4, [(0, 1), (1, 2), (2, 4)]),
        ([9], 4, [(0, 1)]),
        ([4, 0, 0, 1, 0], 4, [(0, 3), (3, 5)]),
        ([0, 0], 4, [(0, 2)]),
        ([1, 1], 0, [(0, 1), (1, 2)]),
        ([], 4, []),
    ],
)
def test_spans_hold_as_many_groups_as_fit(sizes: list[int], most: int, spans: list[tuple[int, int]]) -> None:
    assert list(spans_within(np.array(sizes, np.int64), most)) == spans


@pytest.mark.parametrize("part", [1, 2, 1000])
def test_columns_of_a_sparse_matrix_by_hand(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 2, 0, 3 and 1 entries: the first column meets the rows of 2 and 3, and so on."""
    monkeypatch.setattr(arrays, "PART", part)
    matrix = sparse.csr_array(np.array([[2.0, 0, 3, 0], [0, 0, 0, 0], [1, 5, 1, 0], [0, 0, 4, 0]]))
    assert count_pairs(matrix).tolist() == [2 + 3, 3, 2 + 3 + 1, 0]
    assert sum_columns(matrix, 1).tolist() == [2 + 1, 5, 3 + 1 + 4, 0]
    assert sum_columns(matrix, 2).tolist() == [4 + 1, 25, 9 + 1 + 16, 0]


def test_rank_correlation_by_hand() -> None:
    """1 - 6 sum of squared differences of ranks / (n (n^2 - 1)), without equal values; two ranks differ by one."""
    left, right = np.array([0.1, 20, 300, 4000]), np.array([1, 3, 2, 4])
    assert rank_correlation(left, right) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert rank_correlation(left, -left) == pytest.approx(-1)


def test_equal_values_share_their_ranks() -> None:
    """Ranks 1.5, 1.5, 3 and 1, 2, 3: the correlation of (-1, -1, 2) and (-1, 0, 1)."""
    assert rank_correlation(np.array([5, 5, 9]), np.array([1, 2, 3])) == pytest.approx(3 / (6 * 2) ** 0.5)


@pytest.mark.parametrize("left", [[], [3], [3, 3, 3]])
def test_rank_correlation_is_not_defined_without_differences(left: list[float]) -> None:
    other = np.arange(len(left))
    assert rank_correlation(np.array(left), other) is None
    assert rank_correlation(other, np.array(left)) is None
