"""The queries that a history makes, and the way of their gradients back, each as its twin says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small_blocks import KEY, events, resolved, settings, table

from lorentzrec.geometry import FloatArray, euclidean, midpoint
from lorentzrec.geometry.sums import total_weight, weighted_sum
from lorentzrec.learning import reference
from lorentzrec.learning.kernels import histories
from lorentzrec.learning.kernels.numbers import mix
from lorentzrec.learning.kernels.slots import slot_of
from lorentzrec.learning.kernels.structures import HISTORY, TARGET
from lorentzrec.learning.losses import Geometry
from lorentzrec.learning.sampling import folds
from lorentzrec.learning.tables import settings_of, workspace_of

ITEMS = 7
LEAD = 4
"""Events of another customer who stands before the one looked at, in the same block."""
WAYS: list[dict[str, Any]] = [
    {"history": "causal", "recency": 0.7},
    *({"history": "leave_one_out", "folds": count} for count in (2, 3, 99)),
]
every_way = pytest.mark.parametrize("options", WAYS)
every_length = pytest.mark.parametrize("length", [2, 3, 7])
both_geometries = pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])


def test_slot_of_is_its_twin() -> None:
    """Numbers in the order of first asking, a side for itself where the points are not shared."""
    slots = workspace_of(resolved(targets="separate"), rows=9, history_count=9, item_count=9, shared=False).slots
    twin: dict[tuple[int, int], int] = {}
    used = 0
    for row, side in [(4, HISTORY), (2, HISTORY), (4, HISTORY), (4, TARGET), (2, HISTORY), (4, TARGET), (8, TARGET)]:
        slot, used = slot_of(row, side, used, slots)
        assert slot == twin.setdefault((row, side), len(twin))
        assert used == len(twin)
        assert (slots.rows[slot], slots.sides[slot]) == (row, side)
        assert (slots.gradients[slot] == 0).all()


@pytest.mark.parametrize(
    ("length", "count", "sizes"), [(2, 5, [1, 1]), (5, 5, [1] * 5), (7, 3, [2, 2, 3]), (6, 2, [3, 3])]
)
def test_folds_are_as_equal_as_can_be(length: int, count: int, sizes: list[int]) -> None:
    assert sorted(np.bincount(folds(length, count, KEY)).tolist()) == sizes
    assert len({tuple(folds(length, count, key)) for key in range(50)}) > 1


@every_way
@every_length
def test_query_count_is_its_twin(options: dict[str, Any], length: int) -> None:
    told = reference.histories_of([1.0] * length, settings(**options), KEY)
    assert histories.query_count(length, settings(**options)) == len({tuple(others) for _, others, _ in told})


@dataclass
class Asked:
    """The queries of the second of two customers in a block, by kernel and by twin."""

    options: dict[str, Any]
    geometry: Geometry
    length: int

    def __post_init__(self) -> None:
        config = resolved(geometry=self.geometry, targets="separate", **self.options)
        self.settings = settings_of(config, 1.0)
        self.events = events([LEAD, self.length], ITEMS, weighted=True, seed=self.length)
        self.points = table(config, ITEMS, 1).points
        self.workspace = workspace_of(config, rows=20, history_count=ITEMS, item_count=ITEMS, shared=False)
        self.row = self._write(0, LEAD, 0, 0)
        self.stop = self._write(LEAD, LEAD + self.length, 1, self.row)

    def _write(self, first: int, last: int, owner: int, count: int) -> int:
        key = mix(np.uint64(KEY))
        return histories.write_queries(  # type: ignore[no-any-return]
            first, last, owner, count, self.events, self.points, self.settings, key, self.workspace
        )

    @property
    def items(self) -> Any:
        return self.events.items[LEAD:]

    def told(self) -> dict[float, tuple[NDArray[np.int32], FloatArray]]:
        """The item rows of each target's history and their shares; the weight of an event is its name."""
        weights = self.events.weights[LEAD:].tolist()
        return {
            weights[target]: (self.items[others], np.array(shares))
            for target, others, shares in reference.histories_of(weights, self.settings, KEY)
        }

    def names(self, row: int) -> list[float]:
        """The positives of a query."""
        ends = self.workspace.queries.ends
        return self.workspace.positives.weights[ends[row - 1] : ends[row]].tolist()  # type: ignore[no-any-return]


@both_geometries
@every_way
@every_length
def test_write_queries_is_its_twin(options: dict[str, Any], geometry: Geometry, length: int) -> None:
    asked = Asked(options, geometry, length)
    told = asked.told()
    middle = midpoint.einstein_midpoint if geometry == "hyperboloid" else euclidean.midpoint
    found = [name for row in range(asked.row, asked.stop) for name in asked.names(row)]
    assert sorted(found) == sorted(told)
    for row in range(asked.row, asked.stop):
        assert asked.workspace.queries.owners[row] == 1
        for name in asked.names(row):
            rows, shares = told[name]
            expected = middle(asked.points[rows].astype(np.float64), shares)
            np.testing.assert_allclose(asked.workspace.queries.points[row], expected, rtol=1e-5, atol=1e-6)
    first = asked.workspace.queries.ends[asked.row - 1]
    items = dict(zip(asked.events.weights[LEAD:].tolist(), asked.items.tolist(), strict=True))
    assert asked.workspace.positives.targets[first : first + len(found)].tolist() == [items[name] for name in found]


@both_geometries
@every_way
@every_length
def test_spread_gradients_is_its_twin(options: dict[str, Any], geometry: Geometry, length: int) -> None:
    asked = Asked(options, geometry, length)
    work, told = asked.workspace, asked.told()
    work.queries.gradients[:] = np.random.default_rng(length).normal(size=work.queries.gradients.shape)
    expected = np.zeros((ITEMS, asked.points.shape[1]))
    for row in range(asked.row, asked.stop):
        rows, shares = told[asked.names(row)[0]]
        points, gradient = asked.points[rows].astype(np.float64), work.queries.gradients[row].astype(np.float64)
        if geometry == "hyperboloid":
            in_sum = midpoint.midpoint_gradient(weighted_sum(points, shares), gradient)
        else:
            in_sum = euclidean.midpoint_gradient(total_weight(points, shares), gradient)
        np.add.at(expected, rows, shares[:, None] * in_sum)
    first, last = LEAD, LEAD + length
    used = histories.spread_gradients(first, last, asked.row, asked.events, asked.settings, 0, work)
    assert sorted(work.slots.rows[:used].tolist()) == sorted(set(asked.items.tolist()))
    found = np.zeros_like(expected)
    found[work.slots.rows[:used]] = work.slots.gradients[:used]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
