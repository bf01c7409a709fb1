"""Kernels far from the origin, up to the largest radius, against their references in float64.

The tolerances follow from float32 alone. With u = 2^-24, the relative rounding of a coordinate, and x0 = cosh(radius):

- A stored point is off by up to u x0 in each coordinate, and by about that in distance.
- An inner product of two points has terms as large as x0 y0 and is off by u x0 y0, however it is summed.
- The projection h + <x, h> x of a gradient h = c y is off by u x0 h0 = c u x0 y0 in length, where the tangent vector
  itself has the length c sinh d(x, y). Of points about one apart it is off by a share of u x0^2, and so is a step along
  it.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lorentzrec.geometry import FloatArray, hyperboloid, midpoint
from lorentzrec.learning.kernels.histories import write_queries
from lorentzrec.learning.kernels.steps import step_rows
from lorentzrec.learning.kernels.structures import BROKEN, Table
from lorentzrec.learning.tables import allocate_workspace, convert_settings, make_table
from lorentzrec.model.config import ResolvedConfig
from tests.learning.small_blocks import KEY, events, resolved, run_both, settings
from tests.reference import blocks as reference
from tests.reference import sampling

RADII = [0.0, 1.0, 4.0, 6.0, 8.0]
ROUNDING = 2.0**-24
ITEMS = 7


def around(radius: float, count: int, dimension: int, seed: int, spread: float = 0.5) -> FloatArray:
    """Points `spread` from a point at this radius, which is the same for all seeds, in all directions equally."""
    away = np.random.default_rng(seed).normal(size=(count, dimension))
    near_origin = hyperboloid.lift(np.sinh(spread) * away / np.linalg.norm(away, axis=1, keepdims=True))
    direction = np.cos(np.arange(dimension))
    centre = hyperboloid.lift(np.sinh(radius) * direction / np.linalg.norm(direction))
    return np.asarray(near_origin @ hyperboloid.boost(centre))


def table_around(radius: float, count: int, config: ResolvedConfig, seed: int) -> Table:
    return make_table(around(radius, count, config.dimension, seed)[:, 1:].astype(np.float32), config)


def exact(points: FloatArray) -> FloatArray:
    return hyperboloid.lift(points[..., 1:].astype(np.float64))


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("kind", ["radial", "across"])
def test_the_length_of_a_tangent_vector_is_known_far_out(radius: float, kind: str) -> None:
    """A step along a given tangent vector is as long as the vector: its relative error does not grow with x0^2."""
    chosen = settings(optimiser="rsgd", learning_rate=1.0, clip_norm=None, dimension=15)
    for seed in range(40):
        random = np.random.default_rng(seed)
        direction = random.normal(size=15)
        direction /= np.linalg.norm(direction)
        config = resolved(optimiser="rsgd", dimension=15)
        start = make_table((np.sinh(radius) * direction)[None].astype(np.float32), config)
        point = exact(start.points)[0]
        if kind == "radial":
            tangent = np.append(np.linalg.norm(point[1:]), point[0] * direction)
        else:
            across = random.normal(size=15)
            tangent = np.append(0, across - (across @ direction) * direction)
        tangent *= 0.05 / hyperboloid.tangent_norm(point, tangent)
        gradient = tangent[None].astype(np.float32)
        gradient[0, 0] = 0  # so that <x, h> is not the small difference of two large numbers
        gradient[0, 1:] /= point[0] ** 2 if kind == "radial" else 1  # h + <x, h> x is x0^2 times as long then
        ones = np.zeros(1, np.int32)
        step_rows(start, ones, ones, gradient, chosen, np.zeros(5, np.int64))
        moved = float(hyperboloid.distance(point, exact(start.points)[0]))
        # both ends of the step are rounded, and the series of 15 terms
        assert moved == pytest.approx(0.05, abs=4 * ROUNDING * point[0], rel=2e-3)


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("options", [{"history": "causal"}, {"history": "folds", "folds": 2}])
def test_queries_are_as_exact_as_their_coordinates(radius: float, options: dict[str, str | int]) -> None:
    """Sums are in float64, so that only the coordinates of the query are rounded; it is on the sheet."""
    config = resolved(targets="separate", **options)
    data = events([2, 9], ITEMS, weighted=True, seed=1)
    points = table_around(radius, ITEMS, config, seed=2).points
    workspace = allocate_workspace(config, rows=20, history_count=ITEMS, item_count=ITEMS, shared=False)
    key = sampling.key_for(KEY, sampling.FOLDS, 1)
    queries, positives = workspace.queries, workspace.positives
    settings = convert_settings(config, 1.0)
    stop = write_queries(2, 11, 0, 0, data, points, settings, np.uint64(key), queries, positives, workspace.sums)
    weights = data.weights[2:].tolist()
    histories = {
        weights[target]: midpoint.einstein_midpoint(exact(points[data.items[2:][others]]), np.array(shares))
        for target, others, shares in reference.histories_of(weights, convert_settings(config, 1.0), key)
    }
    for row in range(stop):
        found = queries.points[row].astype(np.float64)
        assert found[0] == np.float32(hyperboloid.lift(found[1:])[0]), "the float32 that is nearest to the sheet"
        expected = histories[float(positives.weights[queries.offsets[row]])]
        assert hyperboloid.distance(exact(found), expected) < 8 * ROUNDING * expected[0]


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("loss", ["bpr", "wmrb", "softmax"])
@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
def test_blocks_far_out_move_points_as_in_the_reference(radius: float, loss: str, optimiser: str) -> None:
    """RSGD moves a point by rate * c for each point that pulls at it. Adagrad and Adam divide by the length of the sum:
    where pulls cancel, rounding has a larger share in it, here up to ten times."""
    rate = 0.02
    for model, history, kind in product(("asymmetric", "symmetric"), ("causal", "folds"), ("inner", "distance")):
        options = {"model": model, "history": history, "score": kind, "loss": loss, "optimiser": optimiser}
        config = resolved(
            **options,
            dimension=15,
            recency=1.0,
            scale=1.0,
            negative_count=3,
            learning_rate=rate,
            clip_norm=None,
            blocks_per_step=2,
        )
        histories = table_around(radius, 4 if model == "symmetric" else ITEMS, config, seed=5)
        items = table_around(radius, ITEMS, config, seed=3)
        start = (histories, items) if model == "symmetric" or config.targets == "separate" else (items, items)
        # no item twice: the direction from a point to itself is that of rounding
        data = events([2, 3, 2, 3], ITEMS, weighted=False, seed=4)
        data.items[:] = [0, 1, 2, 3, 4, 5, 6, 6, 1, 3]
        time = float(max(histories.points[:, 0].max(), items.points[:, 0].max()))
        found, expected = run_both(config, data, ITEMS, start=start)
        assert found.counters[BROKEN] == 0
        pulls = 12  # of at most ten events, three negatives each, on one point
        share = 4 * ROUNDING * time**2 * (1 if optimiser == "rsgd" else 10)
        assert found.loss == pytest.approx(expected.loss, rel=1e-5 + share)
        for fast, slow in ((found.items, expected.items), (found.histories, expected.histories)):
            apart = hyperboloid.distance(exact(fast.points), slow.points)
            assert (apart <= pulls * rate * share + 8 * ROUNDING * time).all(), (options, apart.max(), share)
