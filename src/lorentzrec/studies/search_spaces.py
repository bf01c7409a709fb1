"""The search spaces of tuning: ranges of hyper-parameters per model and geometry, and small grids for the baselines.

A hyper-parameter that the user fixes, or that has no effect on the data, is removed from its space.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Between(NamedTuple):
    """Any number from `low` to `high`, both included."""

    low: float
    high: float
    logarithmic: bool = False
    """Whether to sample on a logarithmic scale."""

    def contains(self, value: Any) -> bool:
        return bool(self.low <= value <= self.high)


class OneOf(NamedTuple):
    """One of a few values."""

    values: tuple[Any, ...]

    def contains(self, value: Any) -> bool:
        return value in self.values


Space = dict[str, Between | OneOf]

# Not searched: the loss, because the default was best on every data set (`reproduce ablations`), and the numbers of
# negatives, folds and epochs, which trade quality for time.
_ASYMMETRIC: Space = {
    "learning_rate": Between(0.03, 1.5, logarithmic=True),
    "score": OneOf(("distance", "inner")),
    "scale": Between(1.0, 60.0, logarithmic=True),
    "regularisation": OneOf((0.0, 0.01, 0.03, 0.1, 0.3)),
    "targets": OneOf(("shared", "separate")),
    "recency": Between(0.5, 1.0),
}
_SYMMETRIC: Space = {
    "loss": OneOf(("bpr", "softmax")),
    "learning_rate": Between(0.01, 1.0, logarithmic=True),
    "scale": Between(1.0, 30.0, logarithmic=True),
    "regularisation": OneOf((0.0, 1e-5, 1e-4, 1e-3, 1e-2)),
}
SPACES: dict[tuple[str, str], Space] = {
    ("asymmetric", "hyperboloid"): _ASYMMETRIC,
    ("asymmetric", "euclidean"): _ASYMMETRIC,
    ("symmetric", "hyperboloid"): _SYMMETRIC,
    ("symmetric", "euclidean"): _SYMMETRIC | {"scale": Between(0.5, 40.0, logarithmic=True)},
}
"""(model, geometry) -> its space. The twins search the same hyper-parameters."""

OTHER_SCORE = {"score": "inner", "scale": 4.0}
"""The first trial of the score that is not the default."""

NEEDS_ORDER = frozenset({"recency"})
"""Without effect on data without times."""

GRIDS: dict[str, dict[str, tuple[float | None, ...]]] = {
    "item-knn": {"neighbours": (20, 50, 100, 300), "shrinkage": (0.0, 10.0, 50.0)},
    "recent-popularity": {"days": (7.0, 14.0, 28.0, 56.0)},
    "own-frequency": {"half_life": (None, 20.0, 40.0, 80.0, 160.0)},
    "tifu-knn": {"own": (0.5, 0.7, 0.9), "between": (0.7, 0.9), "group_size": (3, 7)},
    "up-cf": {"window": (5, 25, 100), "locality": (1.0, 5.0, 20.0)},
    "ease": {"regularisation": (50.0, 200.0, 500.0, 1000.0)},
    "gf-cf": {"share": (0.0, 0.1, 0.3)},
    "implicit-als": {"regularization": (0.01, 0.1, 1.0, 10.0), "alpha": (1.0, 10.0, 40.0)},
    "implicit-bpr": {"learning_rate": (0.01, 0.03, 0.1), "regularization": (0.001, 0.01, 0.05)},
}
"""System -> the values of each setting, of which validation chooses. Names are those of the system's class."""
