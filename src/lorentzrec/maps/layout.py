"""t-SNE on the hyperbolic plane: neighbours attract each other, and all points repel each other.

This is our own code because no library combines what a map needs: the positions are on the hyperbolic plane, points can
be pulled to given radii (the levels of the model), and memory grows linearly with the number of points. umap-learn has
a hyperboloid as output, but no levels, and would add scikit-learn as a dependency. One run each from the same
10 neighbours of 5,000 items (synthetic shop, d = 32), umap-learn with its defaults: it preserves 0.35 of them in 29 s
of processor time, compiling included; free radii here 0.46 in 4 s. Levels preserve fewer, 0.27, but also the order
from the centre (rank correlation 0.89 against -0.01).

The similarity of two positions on the map is w = 1 / (1 + a q), where q is the squared Lorentzian distance, about d^2
for small d and about e^d for large d: Student's kernel nearby, and an exponential tail for which the plane has room.
With p the share of links that two points have and z the sum of all w, the descent direction of the Kullback-Leibler
divergence of w / z from p is, at x,  sum_j (p w - w^2 / z) y_j,  projected to the tangent space: q is linear in y.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.threads import ParallelMap, available_cores, thread_pool
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import to_poincare
from lorentzrec.geometry.euclidean import squared_norm
from lorentzrec.geometry.hyperboloid import (
    boost,
    distance_to_origin,
    exp_map,
    lift,
    project_to_tangent,
    squared_lorentzian_distance,
    tangent_norm,
)
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.maps.neighbours import Singles

EXAGGERATION, EXAGGERATED_SHARE = 4.0, 0.35
"""Factor of the attraction in the first steps, and their share of all steps: clusters form before they spread."""
MOMENTUM = (0.5, 0.8)
"""During exaggeration, and after it."""
LONGEST_STEP = 1.0
"""The longest move of a point in one step, in units of the kernel's width 1 / sqrt(a)."""
LEVEL_PULL = 0.05
"""Pull to a given radius, compared with 1 for all neighbours together. `docs/lab/map.md` has the measurements."""
EXACT_UP_TO = 1_000
"""Up to this number, all pairs of points repel each other; beyond it, distant points do so in groups."""


class Layout:
    """Places of n points on the plane, improved step by step.

    The root mean square radius is constant; instead, the kernel's `a` changes, because the curvature of the plane is
    fixed. The midpoint stays at the centre.
    """

    def __init__(
        self, neighbours: NDArray[np.int64], start: Singles, radius: float, levels: Singles | None, seed: int
    ) -> None:
        """`neighbours`: (n, k) rows; `start`: positions on the hyperboloid (n, 3); `levels`: a radius per point."""
        from scipy.sparse import csr_array

        count, k = neighbours.shape
        ones, offsets = np.ones(neighbours.size, np.float32), np.arange(0, neighbours.size + 1, k)
        links = csr_array((ones, neighbours.ravel(), offsets), shape=(count, count))
        self.links = csr_array((links + links.T) / np.float32(2 * k))
        """n p: a row sums to 1 on average."""
        self.owners = np.repeat(np.arange(count), np.diff(self.links.indptr))
        self.positions, self.radius, self.levels = start, radius, levels
        self.velocity = np.zeros_like(start)
        self.sharpness = 0.1 / radius**2
        """The kernel's a. At first so small that all points affect each other."""
        self.generator = np.random.default_rng(seed)

    def run(self, steps: int, progress: Callable[[float], None]) -> Singles:
        """Run the steps, of which the last third get shorter and shorter, and return the positions. `progress` is
        called with the share that is done."""
        with thread_pool(available_cores()) as in_threads:
            for step in range(steps):
                early = step < EXAGGERATED_SHARE * steps
                repulsion, total = self._repulsion(in_threads)
                force = (EXAGGERATION if early else 1) * self._attraction() - repulsion * (len(repulsion) / total)
                rate = min(1.0, 3 * (1 - step / steps))
                self._move(np.float32(MOMENTUM[not early]) * self.velocity + np.float32(rate) * force, rate)
                progress((step + 1) / steps)
        return self.positions

    def _attraction(self) -> Singles:
        """sum_j n p w y_j."""
        pulls = self.links.copy()
        squared = squared_lorentzian_distance(self.positions[self.owners], self.positions[pulls.indices])
        pulls.data /= 1 + np.float32(self.sharpness) * squared
        attraction: Singles = pulls @ self.positions
        return attraction

    def _repulsion(self, in_threads: ParallelMap) -> tuple[Singles, float]:
        """sum_j w^2 y_j, and the sum of w over all pairs.

        Points are divided into about sqrt(n) cells of about sqrt(n) points: strips by one coordinate, cut by the other.
        A point is repelled by each point of its own cell, and by the midpoint of every other cell. The axes are rotated
        at random each time, so that the borders between cells change.
        """
        cells = self._cells()
        side, points = len(cells), self.positions[cells]
        there = (cells >= 0).astype(np.float32)
        points *= there[..., None]
        sums = points.sum(axis=2).reshape(-1, 3)
        members = there.sum(axis=2).ravel()
        occupied = members > 0
        midpoints = np.zeros_like(sums)
        midpoints[occupied] = normalise_sum(sums[occupied])
        # 1 + a q = (1 - 2 a) - 2 a <x, y>
        signs = np.float32(2 * self.sharpness) * np.array([1, -1, -1], np.float32)
        forces = np.empty_like(points)

        def compute_strip(strip: int) -> float:
            own, here = points[strip], there[strip]
            near = self._kernel((own * signs) @ own.transpose(0, 2, 1))
            total = float(np.sum(here * (near @ here[..., None])[..., 0]) - here.sum())
            far = self._kernel((own * signs) @ midpoints.T)
            far[np.arange(side), :, strip * side + np.arange(side)] = 0
            total += float(np.sum(here * (far @ members)))
            forces[strip] = (near * near) @ own + (far * far) @ sums
            return total

        total = math.fsum(in_threads(compute_strip, range(side)))
        repulsion = np.empty_like(self.positions)
        repulsion[cells[cells >= 0]] = forces[cells >= 0]
        return repulsion, max(total, 1e-30)

    def _kernel(self, products: Singles) -> Singles:
        """w from -2 a <x, y>, in place."""
        products += np.float32(1 - 2 * self.sharpness)
        np.maximum(products, 1, out=products)  # below one by rounding only
        return np.divide(1, products, out=products)

    def _cells(self) -> NDArray[np.int64]:
        """Rows in (side, side, members) cells of neighbouring positions, padded with -1."""
        count = len(self.positions)
        side = 1 if count <= EXACT_UP_TO else round(count**0.25)
        size = -(-count // side**2)
        angle = self.generator.random() * 2 * math.pi
        turned = to_poincare(self.positions) @ np.array(
            [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], np.float32
        )
        strips = np.full(side**2 * size, -1)
        strips[:count] = np.argsort(turned[:, 0])
        strips = strips.reshape(side, side * size)
        across = np.where(strips >= 0, turned[strips, 1], np.inf)
        return np.take_along_axis(strips, np.argsort(across, axis=1), axis=1).reshape(side, side, size)

    def _move(self, velocity: FloatArray, rate: float) -> None:
        """Make one step, no longer than `LONGEST_STEP`; then restore the midpoint and the root mean square radius."""
        velocity = project_to_tangent(self.positions, velocity)
        if self.levels is not None:
            gaps = self.levels - distance_to_origin(self.positions)
            velocity += (LEVEL_PULL * rate * gaps)[:, None] * _outward(self.positions)
        lengths = tangent_norm(self.positions, velocity)
        longest = LONGEST_STEP / math.sqrt(self.sharpness)
        velocity *= np.minimum(1, longest / np.maximum(lengths, longest))[:, None]
        moved = exp_map(self.positions, velocity)
        middle = normalise_sum(moved.sum(axis=0, dtype=np.float64))
        back = boost(lift(-middle[1:])).astype(np.float32)
        moved, velocity = moved @ back, velocity @ back
        radii = distance_to_origin(moved)
        factor = self.radius / float(np.sqrt(np.mean(radii**2)))
        space = moved[:, 1:] * (np.sinh(radii * factor) / np.maximum(np.sinh(radii), 1e-12))[:, None]
        self.positions = lift(space.astype(np.float32))
        self.velocity = (velocity * factor).astype(np.float32)
        self.sharpness /= factor**2


def _outward(positions: Singles) -> Singles:
    """Unit tangent vectors that point away from the centre: (sinh r, cosh r e); zero at the centre itself."""
    lengths = np.sqrt(squared_norm(positions[:, 1:]))[:, None]
    directions = positions[:, 1:] / np.maximum(lengths, 1e-12)
    outward: Singles = np.concatenate([lengths, positions[:, :1] * directions], axis=1)
    return outward
