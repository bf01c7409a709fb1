"""The copies of a table become one table: against the row by row reference, and by what must stay as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.geometry import hyperboloid
from lorentzrec.spark.merging import Changes, find_changes, merge
from reference.merging import merge_row

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


def copies_of(before: dict[str, NDArray[Any]], random: np.random.Generator, *, hyperbolic: bool) -> list[Changes]:
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
        assert copies[-1].rows.tolist() == rows.tolist()
    return copies


@pytest.mark.parametrize("hyperbolic", [True, False])
def test_merged_rows_equal_the_reference(hyperbolic: bool) -> None:
    random = np.random.default_rng(1)
    before = state(random, hyperbolic=hyperbolic)
    copies = copies_of(before, random, hyperbolic=hyperbolic)
    merged = merge(before, copies, hyperbolic=hyperbolic, adagrad=True)
    counts = np.zeros(ROWS, int)
    for row in range(ROWS):
        own = [
            (copy.state["points"][place].astype(float), float(copy.state["squared"][place]))
            for copy in copies
            for place in np.flatnonzero(copy.rows == row)
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
    merged = merge(before, [copy], hyperbolic=True, adagrad=False)
    after = {name: array.copy() for name, array in before.items()}
    for name, array in after.items():
        array[copy.rows] = copy.state[name]
        assert merged[name].tobytes() == array.tobytes()


def test_equal_copies_without_adagrad_are_merged_to_themselves() -> None:
    random = np.random.default_rng(3)
    before = state(random, hyperbolic=True, adam=True)
    copy = copies_of(before, random, hyperbolic=True)[0]
    merged = merge(before, [copy, copy], hyperbolic=True, adagrad=False)
    for name, array in copy.state.items():
        np.testing.assert_allclose(merged[name][copy.rows], array, rtol=1e-6, atol=1e-7)


def test_a_row_that_moves_without_gradient_mass_has_a_centroid() -> None:
    random = np.random.default_rng(4)
    before = state(random, hyperbolic=True)
    copies = copies_of(before, random, hyperbolic=True)
    weightless = [Changes(copy.rows, dict(copy.state) | {"squared": before["squared"][copy.rows]}) for copy in copies]
    merged = merge(before, weightless, hyperbolic=True, adagrad=True)
    assert np.isfinite(merged["points"]).all()
    assert merged["squared"].tobytes() == before["squared"].tobytes()
