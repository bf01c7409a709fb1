"""The queries that a history makes, and their gradients passed back, compared with the references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.sums import total_weight, weighted_sum
from lorentzrec.learning.kernels import histories
from lorentzrec.learning.kernels.histories import find_slot
from lorentzrec.learning.kernels.numbers import FOLDS, key_for
from lorentzrec.learning.kernels.structures import HISTORY, TARGET, Slots
from lorentzrec.learning.tables import allocate_step, allocate_workspace, convert_settings
from tests.learning.small_blocks import KEY, events, resolved, table
from tests.reference import blocks as reference
from tests.reference import euclidean, midpoint, sampling
from tests.reference.losses import Geometry
from tests.reference.sampling import folds

ITEMS = 7
LEAD = 4
"""Events of another customer, who precedes the one tested in the same block."""
WAYS: list[dict[str, Any]] = [
    {"history": "causal", "recency": 0.7},
    {"history": "causal", "recency": 0.7, "in_orders": True},
    *({"history": "folds", "folds": count} for count in (2, 3, 99)),
]
every_way = pytest.mark.parametrize("options", WAYS)
every_length = pytest.mark.parametrize("length", [2, 3, 7])
both_labels = pytest.mark.parametrize("labelled", [False, True], ids=["all", "labelled"])
both_geometries = pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])


def every_case(test: Callable[..., None]) -> Callable[..., None]:
    for mark in (both_labels, every_length, every_way, both_geometries):
        test = mark(test)
    return test


def test_slot_of_matches_its_reference() -> None:
    """Slots are numbered in the order of first use, each side separately where the points are not shared."""
    workspace = allocate_workspace(resolved(targets="separate"), rows=9, history_count=9, item_count=9, shared=False)
    step = allocate_step(resolved(targets="separate"), rows=9, item_count=9)
    slots = Slots(
        step.gradients[0], step.mass_gradients[0], step.rows[0], step.sides[0], workspace.histories, workspace.targets
    )
    numbers: dict[tuple[int, int], int] = {}
    used = 0
    for row, side in [(4, HISTORY), (2, HISTORY), (4, HISTORY), (4, TARGET), (2, HISTORY), (4, TARGET), (8, TARGET)]:
        slot, used = find_slot(row, side, used, slots)
        assert slot == numbers.setdefault((row, side), len(numbers))
        assert used == len(numbers)
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
@both_labels
def test_queries_are_the_histories_of_targets(options: dict[str, Any], length: int, labelled: bool) -> None:
    """A query for each prefix with a target; in folds one for each fold, as its events belong to other histories."""
    customer = CustomerQueries(options, "hyperboloid", length, labelled)
    expected_histories = reference.histories_of(
        [1.0] * length, customer.settings, sampling.key_for(KEY, sampling.FOLDS, 1), customer.orders
    )
    causal = options["history"] == "causal"
    expected = {tuple(others) for target, others, _ in expected_histories if not causal or customer.labels[target]}
    assert customer.stop - customer.row == len(expected)


@dataclass
class CustomerQueries:
    """The queries of the second of two customers in a block, by kernel and by reference."""

    options: dict[str, Any]
    geometry: Geometry
    length: int
    labelled: bool = False

    def __post_init__(self) -> None:
        options = {name: value for name, value in self.options.items() if name != "in_orders"}
        config = self.config = resolved(geometry=self.geometry, targets="separate", **options)
        self.settings = convert_settings(config, 1.0)
        kind = {"labelled": self.labelled, "in_orders": "in_orders" in self.options}
        self.events = events([LEAD, self.length], ITEMS, weighted=True, seed=self.length, **kind)
        self.points = table(config, ITEMS, 1).points
        self.workspace = allocate_workspace(config, rows=20, history_count=ITEMS, item_count=ITEMS, shared=False)
        self.row = self._write(0, LEAD, 0, 0)
        self.stop = self._write(LEAD, LEAD + self.length, 1, self.row)

    def _write(self, first: int, last: int, owner: int, count: int) -> int:
        key = key_for(np.uint64(KEY), FOLDS, 1)
        into = self.workspace.queries, self.workspace.positives, self.workspace.sums
        return histories.write_queries(  # type: ignore[no-any-return]
            first, last, owner, count, self.events, self.points, self.settings, key, *into
        )

    @property
    def orders(self) -> list[int] | None:
        return self.events.orders[LEAD:].tolist() if "in_orders" in self.options else None

    @property
    def items(self) -> Any:
        return self.events.items[LEAD:]

    def expected_histories(self) -> dict[float, tuple[NDArray[np.int32], FloatArray]]:
        """The item rows of each target's history and their shares; the weight of an event is its name."""
        weights = self.events.weights[LEAD:].tolist()
        return {
            weights[target]: (self.items[others], np.array(shares))
            for target, others, shares in reference.histories_of(
                weights, self.settings, sampling.key_for(KEY, sampling.FOLDS, 1), self.orders
            )
            if self.labels[target]
        }

    @property
    def labels(self) -> list[bool]:
        """Which events of the second customer are targets."""
        labels: list[bool] = self.events.labels[LEAD:].tolist() if self.labelled else [True] * self.length
        return labels

    def names(self, row: int) -> list[float]:
        """The positives of a query."""
        first, last = self.workspace.queries.offsets[row], self.workspace.queries.ends[row]
        return self.workspace.positives.weights[first:last].tolist()  # type: ignore[no-any-return]


@every_case
def test_write_queries_matches_its_reference(
    options: dict[str, Any], geometry: Geometry, length: int, labelled: bool
) -> None:
    customer = CustomerQueries(options, geometry, length, labelled)
    expected_histories = customer.expected_histories()
    middle = midpoint.einstein_midpoint if geometry == "hyperboloid" else euclidean.midpoint
    found = [name for row in range(customer.row, customer.stop) for name in customer.names(row)]
    assert sorted(found) == sorted(expected_histories)
    for row in range(customer.row, customer.stop):
        assert customer.workspace.queries.owners[row] == 1
        for name in customer.names(row):
            rows, shares = expected_histories[name]
            expected = middle(customer.points[rows].astype(np.float64), shares)
            np.testing.assert_allclose(customer.workspace.queries.points[row], expected, rtol=1e-5, atol=1e-6)
    items = dict(zip(customer.events.weights[LEAD:].tolist(), customer.items.tolist(), strict=True))
    queries, positives = customer.workspace.queries, customer.workspace.positives
    places = [p for row in range(customer.row, customer.stop) for p in range(queries.offsets[row], queries.ends[row])]
    assert positives.targets[places].tolist() == [items[name] for name in found]


@every_case
def test_spread_gradients_matches_its_reference(
    options: dict[str, Any], geometry: Geometry, length: int, labelled: bool
) -> None:
    customer = CustomerQueries(options, geometry, length, labelled)
    work, expected_histories = customer.workspace, customer.expected_histories()
    work.queries.gradients[:] = np.random.default_rng(length).normal(size=work.queries.gradients.shape)
    expected = np.zeros((ITEMS, customer.points.shape[1]))
    for row in range(customer.row, customer.stop):
        if not customer.names(row):  # a fold without a target has no gradient
            work.queries.gradients[row] = 0
            continue
        rows, shares = expected_histories[customer.names(row)[0]]
        points, gradient = customer.points[rows].astype(np.float64), work.queries.gradients[row].astype(np.float64)
        if geometry == "hyperboloid":
            in_sum = midpoint.midpoint_gradient(weighted_sum(points, shares), gradient)
        else:
            in_sum = euclidean.midpoint_gradient(total_weight(points, shares), gradient)
        np.add.at(expected, rows, shares[:, None] * in_sum)
    first, last = LEAD, LEAD + length
    step = allocate_step(customer.config, rows=20, item_count=ITEMS)
    slots = Slots(step.gradients[0], step.mass_gradients[0], step.rows[0], step.sides[0], work.histories, work.targets)
    parts = work.queries, work.positives, work.vectors
    used = histories.spread_gradients(first, last, 1, customer.events, customer.settings, 0, slots, *parts)
    assert sorted(slots.rows[:used].tolist()) == sorted(set(customer.items.tolist()))
    found = np.zeros_like(expected)
    found[slots.rows[:used]] = slots.gradients[:used]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
