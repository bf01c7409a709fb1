"""Groups of rows in flat arrays."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.data.arrays import spans_within


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
