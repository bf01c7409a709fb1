"""Kernels compute in float32 what their references compute in float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorentzrec.geometry import FloatArray
from lorentzrec.learning.kernels import numbers, scores, steps
from lorentzrec.learning.kernels.compiling import kernel
from lorentzrec.learning.kernels.structures import (
    CAPPED,
    CLIPPED,
    COINCIDENT,
    SATURATED,
    TILE,
    Settings,
)
from lorentzrec.learning.tables import allocate_workspace, convert_settings
from tests.learning.small_blocks import Outcome, events, in_float64, resolved, run_both, settings, table, tables
from tests.reference import euclidean, hyperboloid, losses, optimisers
from tests.reference.losses import Geometry, LossName, ScoreKind

GEOMETRIES: list[Geometry] = ["hyperboloid", "euclidean"]
KINDS: list[ScoreKind] = ["inner", "distance"]
LOSSES: list[LossName] = ["bpr", "wmrb", "softmax"]
OPTIMISERS = ["rsgd", "adagrad", "adam"]
SEEDS = st.integers(0, 2**32)


# --- numbers


@kernel
def sum_is_finite(values):  # type: ignore[no-untyped-def]
    return numbers.is_finite(values[0] + values[1])


@pytest.mark.parametrize("value", [0.0, -3e38, 3e38, np.inf, -np.inf, np.nan])
def test_is_finite_matches_its_reference(value: float) -> None:
    """Also of a sum, in code that may reassociate it."""
    assert numbers.is_finite(np.float32(value)) == np.isfinite(value)
    assert sum_is_finite(np.array([value, 1], np.float32)) == np.isfinite(value)


def test_fast_exp_matches_its_reference() -> None:
    for x in np.linspace(-86.9, 86.9, 2001, dtype=np.float32):
        assert numbers.fast_exp(x) == pytest.approx(np.exp(np.float64(x)), rel=4e-7)
    for far in (-1e30, -88, 88, 1e30):  # saturated, not infinite and not zero
        assert numbers.fast_exp(np.float32(far)) == pytest.approx(np.exp(np.clip(far, -87, 87)), rel=1e-5)


def test_fast_log_matches_its_reference() -> None:
    for x in np.exp(np.linspace(-80, 80, 2001)).astype(np.float32):
        assert numbers.fast_log(x) == pytest.approx(np.log(np.float64(x)), rel=5e-7, abs=1e-7)
    for near_one in np.linspace(0.9, 1.1, 201, dtype=np.float32):
        assert numbers.fast_log(near_one) == pytest.approx(np.log(np.float64(near_one)), rel=2e-6, abs=1e-10)
    assert numbers.fast_log(np.float32(1)) == 0


def test_cosh_and_sinhc_matches_its_reference() -> None:
    squares = np.linspace(0, 1, 501)
    lengths = np.maximum(np.sqrt(squares), 1e-9)
    expected = np.stack([np.cosh(lengths), np.sinh(lengths) / lengths], axis=1)
    found = [numbers.cosh_and_sinhc(np.float32(square)) for square in squares]
    np.testing.assert_allclose(found, expected, rtol=5e-7)


# --- points and pairs of them


def point_and_neighbour(geometry: Geometry, seed: int) -> FloatArray:
    """Two points in float32, from 1e-3 to 3 apart."""
    space = hyperboloid if geometry == "hyperboloid" else euclidean
    random = np.random.default_rng(seed)
    point = np.append(0, random.normal(size=5))
    point = hyperboloid.lift(point[1:]) if geometry == "hyperboloid" else point
    away = np.append(0, random.normal(size=5)) if geometry == "euclidean" else random.normal(size=6)
    away = space.project_to_tangent(point, away)
    away = away / space.tangent_norm(point, away) * 10 ** random.uniform(-3, 0.5)
    pair = np.stack([point, space.exp_map(point, away)]).astype(np.float32)
    if geometry == "hyperboloid":
        pair = hyperboloid.lift(pair[:, 1:])
    return pair


def exact(points: FloatArray, geometry: Geometry) -> FloatArray:
    """The same points in float64, on the sheet to all its digits."""
    wide = points.astype(np.float64)
    return hyperboloid.lift(wide[..., 1:]) if geometry == "hyperboloid" else wide


@given(seed=SEEDS)
def test_dot_matches_its_reference(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(3, 8)).astype(np.float32)
    expected = float(hyperboloid.minkowski_dot(rows[2], rows[1]))
    assert steps.dot(rows, 2, rows, 1) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_score_of_matches_its_reference(geometry: Geometry, kind: ScoreKind, seed: int) -> None:
    pair = point_and_neighbour(geometry, seed)
    counters = np.zeros(5, np.int64)
    inner = steps.dot(pair, 0, pair, 1)
    found, slope = scores.find_score(inner, pair, 0, pair, 1, settings(geometry=geometry, score=kind), counters)
    expected = float(losses.score(geometry, kind, *exact(pair, geometry)))
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6 * float((pair**2).sum()))
    if kind == "distance":
        assert slope == pytest.approx(1 / (np.sinh(-expected) if geometry == "hyperboloid" else -expected), rel=2e-3)
    else:
        assert slope == 1
    assert counters.sum() == 0


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_offset_of_matches_its_reference(geometry: Geometry, kind: ScoreKind, seed: int) -> None:
    """slope (u + k v) is the tangent gradient of the score at v."""
    u, v = exact(point_and_neighbour(geometry, seed), geometry)
    product_ = losses.score(geometry, "inner", u, v)
    apart = -losses.score(geometry, "distance", u, v)
    slope = 1 if kind == "inner" else 1 / (np.sinh(apart) if geometry == "hyperboloid" else apart)
    offset = scores.find_offset(product_, settings(geometry=geometry, score=kind))
    _, gradient = losses.score_gradients(geometry, kind, u, v)
    if geometry == "hyperboloid":
        gradient = hyperboloid.project_to_tangent(v, gradient)
    assert slope * (u + offset * v) == pytest.approx(gradient, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_distances_of_matches_its_reference(geometry: Geometry) -> None:
    """Far pairs by the inner product, near ones by the difference, and those that coincide counted."""
    config = resolved(geometry=geometry)
    negatives = table(config, 40, seed=1).points
    queries = table(config, 9, seed=2).points
    queries[1], queries[2] = negatives[3], negatives[4]
    for row, apart in ((5, 1e-4), (6, 1e-3), (7, 1e-2)):
        queries[row] = negatives[row]
        queries[row, 1] += apart
    if geometry == "hyperboloid":
        queries = hyperboloid.lift(queries[:, 1:]).astype(np.float32)
    pairs = exact(queries, geometry)[:, None], exact(negatives, geometry)[None]
    expected = losses.score(geometry, "distance", *pairs)
    found = losses.score(geometry, "inner", *pairs).astype(np.float32)
    slopes = np.empty_like(found)
    sizes = negatives[:, 0].copy() if geometry == "hyperboloid" else (negatives**2).sum(axis=1)
    counters = np.zeros(5, np.int64)
    chosen = settings(geometry=geometry, score="distance")
    scores.find_distances(found, slopes, queries, negatives, sizes, chosen, counters)
    apart_enough = -expected > 1e-5
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-6)
    true_slopes = 1 / (np.sinh(-expected[apart_enough]) if geometry == "hyperboloid" else -expected[apart_enough])
    np.testing.assert_allclose(slopes[apart_enough], true_slopes, rtol=2e-3)
    assert counters[COINCIDENT] == (~apart_enough).sum() == 2
    assert (slopes[~apart_enough] == 0).all()


# --- losses


@pytest.mark.parametrize("name", LOSSES)
@given(seed=SEEDS, spread=st.sampled_from([0.5, 5.0, 80.0]), masked=st.integers(0, 6))
def test_losses_of_row_matches_its_reference(name: LossName, seed: int, spread: float, masked: int) -> None:
    """Also where the exponentials leave the range of float32, and where some or all negatives are masked."""
    random = np.random.default_rng(seed)
    config = resolved(loss=name, scale=2.0, margin=0.5, negative_count=6)
    workspace = allocate_workspace(config, rows=5, history_count=7, item_count=7, shared=True)
    positives = workspace.positives
    positives.scores[:] = spread * random.normal(size=5)
    positives.weights[:] = random.uniform(0.5, 2, 5)
    negatives = (spread * random.normal(size=6)).astype(np.float32)
    tile = np.array([negatives, negatives])
    row = tile[1]
    row[:masked] = scores.MASKED
    value = scores.losses_of_row(tile, 1, 1, 4, positives, workspace.tile, convert_settings(config, 1.0))
    total, by_negatives = 0.0, np.zeros(6 - masked)
    for p in range(1, 4):
        compared = np.array([positives.scores[p], *negatives[masked:]], np.float64)
        loss, derivatives = losses.loss(name, compared, scale=2.0, margin=0.5, weight=float(positives.weights[p]))
        total += loss
        by_negatives += derivatives[1:]
        assert positives.pulls[p] == pytest.approx(derivatives[0], rel=1e-4, abs=1e-6)
    assert value == pytest.approx(total, rel=1e-5, abs=1e-6)
    assert row[masked:] == pytest.approx(by_negatives, rel=1e-4, abs=1e-6)
    assert row[:masked] == pytest.approx(np.zeros(masked), abs=1e-30)
    assert tile[0].tolist() == negatives.tolist()


# --- steps


@pytest.mark.parametrize("geometry", GEOMETRIES)
@given(seed=SEEDS, radius=st.sampled_from([1e-6, 1e-3, 0.1, 1.0, 5.0]))
def test_pull_to_origin_matches_its_reference(geometry: Geometry, seed: int, radius: float) -> None:
    (point,) = table(resolved(geometry=geometry), 1, seed, radius).points
    pull = steps.pull_to_origin(point[0], settings(geometry=geometry, regularisation=0.3))
    at = exact(point, geometry)
    _, gradient = losses.penalty(geometry, 0.3, at)
    if geometry == "hyperboloid":
        gradient = hyperboloid.project_to_tangent(at, gradient)
    assert pull * at[1:] == pytest.approx(gradient[1:], rel=1e-3)
    assert steps.pull_to_origin(point[0], settings(geometry=geometry, regularisation=0.0)) == 0


@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad"])
@pytest.mark.parametrize("length", [0.0, 1e-3, 0.2, 2.0, 300.0])
def test_step_factor_matches_its_reference(optimiser: str, length: float) -> None:
    """Factor times gradient is how far the reference moves a point."""
    chosen = settings(optimiser=optimiser, clip_norm=50.0)
    slow = in_float64(table(resolved(optimiser=optimiser), 3, seed=1))
    counters, slow_counters = np.zeros(5, np.int64), np.zeros(5, np.int64)
    squared = np.float32(0)
    for _ in range(2):
        factor, squared, was_clipped, was_capped = steps.step_factor(np.float32(length**2), squared, chosen)
        counters[[CLIPPED, CAPPED]] += [was_clipped, was_capped]
        before = slow.points[0].copy()
        tangent = hyperboloid.project_to_tangent(before, np.arange(8.0))
        tangent = tangent / hyperboloid.tangent_norm(before, tangent) * length
        optimisers.row_step(slow, 0, tangent, chosen, slow_counters)
        assert factor * length == pytest.approx(float(hyperboloid.distance(before, slow.points[0])), rel=1e-5, abs=1e-9)
    assert counters.tolist() == slow_counters.tolist()
    assert squared == pytest.approx(slow.squared[0])


def test_a_vector_that_lost_its_length_makes_no_step() -> None:
    """Its first sum would be zero, and Adagrad would divide by it."""
    assert steps.step_factor(np.float32(0), np.float32(0), settings(optimiser="adagrad"))[0] == 0


# --- blocks

SMALL = [3, 2, 4, 8]
"""Events of each customer; the last has all seven items."""
ITEMS = 7


def assert_same(found: Outcome, expected: Outcome, what: object, tolerance: float = 3e-6) -> None:
    assert found.loss == pytest.approx(expected.loss, rel=1e-5), what
    for side in ("items", "histories"):
        fast, slow = getattr(found, side), getattr(expected, side)
        np.testing.assert_allclose(fast.points, slow.points, rtol=tolerance, atol=tolerance, err_msg=str(what))
        np.testing.assert_allclose(fast.squared, slow.squared, rtol=1e-4, atol=1e-6, err_msg=str(what))
        space = fast.momentum[:, 1:], slow.momentum[:, 1:]
        np.testing.assert_allclose(*space, rtol=1e-4, atol=1e-6, err_msg=str(what))
        assert fast.steps.tolist() == slow.steps.tolist(), what
        np.testing.assert_allclose(fast.masses, slow.masses, rtol=tolerance, atol=tolerance, err_msg=str(what))
        np.testing.assert_allclose(fast.mass_squared, slow.mass_squared, rtol=1e-4, atol=1e-6, err_msg=str(what))
    assert found.counters.tolist() == expected.counters.tolist(), what


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_asymmetric_gradients_matches_its_reference(geometry: str, kind: str, loss: str, optimiser: str) -> None:
    fixed = {"geometry": geometry, "score": kind, "loss": loss, "optimiser": optimiser, "negative_count": 3}
    choices = product(["causal", "folds"], ["shared", "separate"], [False, True], [0.0, 0.05], range(2))
    for seed, (history, targets, weighted, regularisation, _) in enumerate(choices):
        options = {"history": history, "targets": targets, "regularisation": regularisation}
        options |= {"folds": 2 + seed % 3, "blocks_per_step": 1 + seed % 2}
        options["masses"] = "on" if seed % 5 > 1 and optimiser != "adam" else "off"
        config = resolved(recency=0.7 if history == "causal" else 1.0, scale=2.0, **fixed, **options)
        data = events(SMALL, ITEMS, weighted=weighted, seed=seed, labelled=seed % 3 == 0, in_orders=seed // 3 % 2 == 1)
        found, expected = run_both(config, data, ITEMS, seed=seed)
        # errors of rounding are as long as the steps, and those as the rate
        assert_same(found, expected, (options, weighted), 1e-5 * max(0.3, config.learning_rate))
        assert found.counters[SATURATED] >= 1


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["wmrb", "softmax"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_symmetric_gradients_matches_its_reference(geometry: str, kind: str, loss: str, optimiser: str) -> None:
    compare_symmetric(geometry=geometry, score=kind, loss=loss, optimiser=optimiser, negative_count=3)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("negative_count", [1, 2])
def test_triplet_steps_matches_its_reference(geometry: str, kind: str, optimiser: str, negative_count: int) -> None:
    compare_symmetric(geometry=geometry, score=kind, loss="bpr", optimiser=optimiser, negative_count=negative_count)


def compare_symmetric(**fixed: Any) -> None:
    choices = product([False, True], [0.0, 0.05], range(2))
    for seed, (weighted, regularisation, _) in enumerate(choices):
        options = {"model": "symmetric", "regularisation": regularisation, "scale": 2.0}
        options["blocks_per_step"] = 1 + seed % 2
        options["masses"] = "on" if seed % 3 and fixed["optimiser"] != "adam" else "off"
        data = events([1, *SMALL], ITEMS, weighted=weighted, seed=seed, labelled=seed % 3 == 0)
        found, expected = run_both(resolved(**fixed, **options), data, ITEMS, seed=seed)
        assert_same(found, expected, (options, weighted))
        assert found.counters[SATURATED] >= 1


@pytest.mark.parametrize(("model", "loss"), [("symmetric", "bpr"), ("symmetric", "wmrb"), ("asymmetric", "softmax")])
def test_rsgd_leaves_the_state_of_other_optimisers_alone(model: str, loss: str) -> None:
    config = resolved(model=model, loss=loss, optimiser="rsgd", negative_count=2)
    data = events(SMALL, ITEMS, weighted=False, seed=0)
    start = tables(config, len(SMALL), ITEMS, 0, 1.0)
    before = start[1].points.copy()
    for one in start:
        for state in (one.squared, one.momentum, one.steps):
            state.fill(7)
    found, _ = run_both(config, data, ITEMS, start=start)
    assert (found.items.points != before).any()
    for one in (found.histories, found.items):
        assert all((state == 7).all() for state in (one.squared, one.momentum, one.steps))


def test_apply_gradients_matches_its_reference() -> None:
    """Three blocks of a step that move the same rows, one after the other, each row by one of the parts."""
    options = {"model": "asymmetric", "targets": "separate", "negative_count": 3}
    config = resolved(**options, blocks_per_step=3)
    data = events([3, 4, 3, 4, 3, 4], ITEMS, weighted=True, seed=1)
    together, expected = run_both(config, data, ITEMS)
    assert_same(together, expected, config)
    one_by_one, _ = run_both(resolved(**options, blocks_per_step=1), data, ITEMS)
    assert np.abs(one_by_one.items.points - together.items.points).max() > 1e-3


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("history", ["causal", "folds"])
def test_blocks_of_several_tiles(geometry: str, kind: str, history: str) -> None:
    """More queries, and more negatives, than a tile has rows."""
    options = {"geometry": geometry, "score": kind, "history": history, "targets": "separate", "optimiser": "rsgd"}
    config = resolved(negative_count=TILE + 6, learning_rate=0.01, **options)
    data = events([2 * TILE + 5, TILE // 2], 150, weighted=True, seed=1)
    found, expected = run_both(config, data, 150)
    assert_same(found, expected, options, tolerance=2e-5)


@pytest.mark.parametrize("model", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("radius", [1e-2, 1e-3, 1e-4])
def test_near_points_move_as_in_the_reference(
    model: str, geometry: str, kind: str, optimiser: str, radius: float
) -> None:
    """Inner products have lost the digits that separate such points, so nothing may be computed from them alone."""
    options = {"model": model, "geometry": geometry, "score": kind, "optimiser": optimiser, "loss": "bpr"}
    config = resolved(targets="shared", negative_count=3 if model == "asymmetric" else 1, clip_norm=None, **options)
    data = events([2, 2] if model == "asymmetric" else [1, 1], ITEMS, weighted=False, seed=1)
    found, expected = run_both(config, data, ITEMS, radius=radius)
    assert found.loss == pytest.approx(expected.loss, rel=1e-4)
    moved = config.learning_rate
    for side in ("items", "histories"):
        fast, slow = getattr(found, side), getattr(expected, side)
        np.testing.assert_allclose(fast.points, slow.points, atol=2e-2 * moved)
    assert found.counters.tolist() == expected.counters.tolist()


def test_settings_are_plain_values() -> None:
    """One set of types for all settings: each kernel is compiled once."""
    kinds = {
        tuple(type(value) for value in settings(geometry=geometry, loss=loss))
        for geometry in GEOMETRIES
        for loss in LOSSES
    }
    assert len(kinds) == 1
    assert isinstance(settings(), Settings)
