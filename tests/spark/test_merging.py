"""The copies of a table become one table: against the row by row reference, and by what must stay as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.geometry import hyperboloid
from lorentzrec.spark.tables import State, find_changes, merge
from tests.reference.merging import merge_row

ROWS, DIMENSION = 40, 5


def state(random: np.random.Generator, *, hyperbolic: bool, adam: bool = False) -> dict[str, NDArray[Any]]:
    space = random.normal(0, 0.5, (ROWS, DIMENSION)).astype(np.float32)
    points = hyperboloid.lift(space) if hyperbolic else np.column_stack([np.zeros(ROWS), space])
    found: dict[str, NDArray[Any]] = {
        "points": points.astype(np.float32),
        "squared": random.random(ROWS).astype(np.float32),
    }
    if adam:
        found["momentum"] = random.normal(size=points.shape).astype(np.float32)
        found["steps"] = random.integers(1, 9, ROWS).astype(np.int32)
    return found


def copies_of(before: dict[str, NDArray[Any]], random: np.random.Generator, *, hyperbolic: bool) -> list[State]:
    """Three workers; each changed a different half of the rows, and all changed the last."""
    copies = []
    for _ in range(3):
        rows = np.union1d(random.choice(ROWS, ROWS // 2, replace=False), [ROWS - 1]).astype(np.int32)
        after = {name: array.copy() for name, array in before.items()}
        space = after["points"][rows, 1:] + random.normal(0, 0.1, (len(rows), DIMENSION)).astype(np.float32)
        after["points"][rows] = hyperboloid.lift(space) if hyperbolic else np.column_stack([np.zeros(len(rows)), space])
        after["squared"][rows] += random.random(len(rows)).astype(np.float32)
        if "steps" in after:
            after["steps"][rows] += 2
            after["momentum"][rows] += 1
        copies.append(find_changes(before, after))
        assert copies[-1]["rows"].tolist() == rows.tolist()
    return copies


@pytest.mark.parametrize("hyperbolic", [True, False])
def test_merged_rows_equal_the_reference(hyperbolic: bool) -> None:
    random = np.random.default_rng(1)
    before = state(random, hyperbolic=hyperbolic)
    copies = copies_of(before, random, hyperbolic=hyperbolic)
    merged = merge(before, copies, hyperbolic=hyperbolic)
    counts = np.zeros(ROWS, int)
    for row in range(ROWS):
        own = [
            (copy["points"][place].astype(float), float(copy["squared"][place]))
            for copy in copies
            for place in np.flatnonzero(copy["rows"] == row)
        ]
        counts[row] = len(own)
        point, squared = merge_row(
            before["points"][row].astype(float), float(before["squared"][row]), own, hyperbolic=hyperbolic
        )
        exact = len(own) < 2  # taken as it is
        np.testing.assert_allclose(merged["points"][row], point, rtol=0 if exact else 1e-6, atol=0 if exact else 1e-6)
        np.testing.assert_allclose(merged["squared"][row], squared, rtol=0 if exact else 1e-6)
    assert set(counts) == {0, 1, 2, 3}
    if hyperbolic:
        np.testing.assert_allclose(merged["points"], hyperboloid.lift(merged["points"][:, 1:]), rtol=1e-6)


def test_one_copy_is_taken_bit_by_bit() -> None:
    random = np.random.default_rng(2)
    before = state(random, hyperbolic=True, adam=True)
    copy = copies_of(before, random, hyperbolic=True)[0]
    merged = merge(before, [copy], hyperbolic=True)
    after = {name: array.copy() for name, array in before.items()}
    for name, array in after.items():
        array[copy["rows"]] = copy[name]
        assert merged[name].tobytes() == array.tobytes()


def test_adam_is_averaged_and_keeps_the_most_steps() -> None:
    random = np.random.default_rng(3)
    before = state(random, hyperbolic=True, adam=True)
    copies = copies_of(before, random, hyperbolic=True)
    merged = merge(before, copies, hyperbolic=True)
    last = [np.flatnonzero(copy["rows"] == ROWS - 1)[0] for copy in copies]  # changed by all
    for name in ("momentum", "squared"):
        mean = np.mean([copy[name][place] for copy, place in zip(copies, last, strict=True)], axis=0)
        np.testing.assert_allclose(merged[name][-1], mean, rtol=1e-5)
    assert merged["steps"][-1] == before["steps"][-1] + 2


def test_copies_far_out_are_merged_within_the_largest_radius() -> None:
    far = hyperboloid.lift(np.array([[np.sinh(7.9), 0.0]])).astype(np.float32)
    before = {"points": hyperboloid.lift(np.zeros((1, 2))).astype(np.float32), "squared": np.zeros(1, np.float32)}
    copy = {"rows": np.zeros(1, np.int32), "points": far, "squared": np.ones(1, np.float32)}
    merged = merge(before, [copy, copy, copy], hyperbolic=True)
    assert np.arcsinh(merged["points"][0, 1]) == pytest.approx(8, rel=1e-4)


def test_masses_go_as_far_as_points() -> None:
    """sqrt(n) times as far as their mean, and their sums rise by the mean of what workers added."""
    before = {"squared": np.zeros(2, np.float32), "points": hyperboloid.lift(np.zeros((2, 2))).astype(np.float32)}
    before |= {"masses": np.array([1, 2], np.float32), "mass_squared": np.array([3, 4], np.float32)}
    copies = [
        before | {"rows": np.arange(2, dtype=np.int32), "masses": np.array([1 + step, 2]), "mass_squared": sums}
        for step, sums in ((0.3, np.array([3, 4])), (0.5, np.array([5, 4])))
    ]
    merged = merge(before, [{name: array[:1] for name, array in copy.items()} for copy in copies], hyperbolic=True)
    np.testing.assert_allclose(merged["masses"], [1 + np.sqrt(2) * 0.4, 2], rtol=1e-6)
    np.testing.assert_allclose(merged["mass_squared"], [4, 4])
