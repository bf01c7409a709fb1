"""The layout: forces against the gradient of the divergence they descend, and cells against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import (
    exp_map,
    lift,
    minkowski_dot,
    project_to_tangent,
    squared_lorentzian_distance,
)
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.maps import layout
from lorentzrec.maps.layout import Layout
from lorentzrec.maps.neighbours import neighbours_of_each


def small_layout(count: int, sharpness: float = 3.0, levels: bool = False) -> Layout:
    generator = np.random.default_rng(5)
    points = lift(generator.normal(size=(count, 4)).astype(np.float32))
    start = lift(generator.normal(size=(count, 2)).astype(np.float32))
    wanted = np.linspace(0.5, 3, count, dtype=np.float32) if levels else None
    made = Layout(neighbours_of_each(points, 4, "hyperboloid"), start, 1.8, wanted, seed=0)
    made.sharpness = sharpness
    return made


def divergence(links: FloatArray, positions: FloatArray, sharpness: float) -> float:
    """Kullback-Leibler, n times, without its constant: -sum p log(w / z)."""
    kernel = 1 / (1 + sharpness * squared_lorentzian_distance(positions[:, None], positions[None]))
    np.fill_diagonal(kernel, 0)
    logarithm = np.log(np.where(kernel > 0, kernel, 1) / kernel.sum())
    return -float((links * logarithm).sum())


def test_the_force_is_the_descent_of_the_divergence() -> None:
    """Along a geodesic from any one point, the divergence changes by -4 a <force, direction> per unit of way."""
    made = small_layout(12)
    repulsion, total = made._repulsion(map)
    force = made._attraction() - repulsion * (12 / total)
    positions, links = made.positions.astype(np.float64), made.links.toarray().astype(np.float64)
    generator = np.random.default_rng(6)
    for row in range(12):
        tangent = project_to_tangent(positions[row], generator.normal(size=3))
        step = 1e-4
        ends = []
        for sign in (1, -1):
            moved = positions.copy()
            moved[row] = exp_map(positions[row], sign * step * tangent)
            ends.append(divergence(links, moved, made.sharpness))
        slope = (ends[0] - ends[1]) / (2 * step)
        expected = -4 * made.sharpness * float(minkowski_dot(force[row].astype(np.float64), tangent))
        assert slope == pytest.approx(expected, rel=2e-3, abs=2e-3)


def test_cells_are_near_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turned again and again, groups push as their members do one by one: what borders do wrong is averaged out."""
    made = small_layout(900, sharpness=30.0)
    exact, exact_total = made._repulsion(map)
    monkeypatch.setattr(layout, "EXACT_UP_TO", 10)
    assert made._cells().shape == (5, 5, 36)
    grouped = [made._repulsion(map) for _ in range(20)]
    assert np.mean([total for _, total in grouped]) == pytest.approx(exact_total, rel=0.1)
    forces = [project_to_tangent(made.positions, force) for force, _ in grouped]
    wanted = project_to_tangent(made.positions, exact)
    assert agreement(np.mean(forces, axis=0), wanted) > 0.95
    assert agreement(np.mean(forces, axis=0), wanted) > agreement(forces[0], wanted)


def agreement(left: FloatArray, right: FloatArray) -> float:
    """The cosine of the angle between two fields of tangent vectors."""
    lengths = minkowski_dot(left, left).sum() * minkowski_dot(right, right).sum()
    return float(minkowski_dot(left, right).sum() / np.sqrt(lengths))


def test_cells_hold_every_point_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "EXACT_UP_TO", 10)
    cells = small_layout(101)._cells()
    assert cells.shape == (3, 3, 12)
    assert sorted(cells[cells >= 0].tolist()) == list(range(101))
    assert int((cells < 0).sum()) == 7


def test_a_run_keeps_size_and_centre_and_comes_nearer_to_the_levels() -> None:
    made = small_layout(80, levels=True)
    assert made.levels is not None
    before = np.abs(np.arccosh(made.positions[:, 0]) - made.levels).mean()
    shares: list[float] = []
    positions = made.run(60, shares.append).astype(np.float64)
    radii = np.arccosh(positions[:, 0])
    assert shares[-1] == 1
    assert np.sqrt((radii**2).mean()) == pytest.approx(1.8, rel=1e-3)
    assert normalise_sum(positions.sum(axis=0))[0] == pytest.approx(1, abs=0.05)
    assert np.abs(radii - made.levels).mean() < before / 2
