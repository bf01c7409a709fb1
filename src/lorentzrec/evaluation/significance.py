"""Intervals and significance tests, over customers (one model each) and over seeds (several runs each)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lorentzrec.data.arrays import Floats
from lorentzrec.errors import InputError
from lorentzrec.evaluation.report import Report

CELLS_PER_BLOCK = 4_000_000
"""Signs drawn at a time, over customers and resamples."""


@dataclass(frozen=True)
class Comparison:
    """A difference of means, first minus second, with its 95 % interval and p-value."""

    difference: float
    low: float
    high: float
    p_value: float
    test: str

    def __str__(self) -> str:
        return f"{self.difference:.4f} [{self.low:.4f}, {self.high:.4f}], p = {self.p_value:.2g} ({self.test})"

    @property
    def significant(self) -> bool:
        """At the 5 % level, for one comparison; with m of them require p_value < 0.05 / m."""
        return self.p_value < 0.05

    @property
    def verdict(self) -> str:
        """Whether the difference is significant, for a reader. A high p-value is no evidence of equality."""
        return f"{'significant' if self.significant else 'not significant'} at 5 % (p = {self.p_value:.2g})"


def bootstrap_intervals(values: Floats, *, resamples: int = 1000, seed: int = 0) -> tuple[Floats, Floats]:
    """Bounds of the 95 % percentile interval of the mean of each column; rows (customers) are resampled."""
    generator = np.random.default_rng(seed)
    count = len(values)
    columns = np.ascontiguousarray(values.T)
    means = np.empty((resamples, len(columns)))
    for sample in range(resamples):
        times_drawn = np.bincount(generator.integers(count, size=count), minlength=count)
        means[sample] = columns @ times_drawn.astype(np.float64) / count
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def bootstrap_ratio(
    first: Floats, second: Floats, *, resamples: int = 1000, seed: int = 0
) -> tuple[float, float, float]:
    """The mean of `first` over that of `second`, and the bounds of its 95 % percentile interval.

    Customers are resampled, each with both of their values. Where the second mean is 0, the ratio is infinite.
    """
    generator = np.random.default_rng(seed)
    count, both = len(first), np.stack([first, second])
    sums = np.empty((resamples, 2))
    for sample in range(resamples):
        sums[sample] = both @ np.bincount(generator.integers(count, size=count), minlength=count).astype(np.float64)
    ratios = np.full(resamples, np.inf)
    np.divide(sums[:, 0], sums[:, 1], out=ratios, where=sums[:, 1] > 0)
    low, high = np.quantile(ratios, [0.025, 0.975], method="nearest")
    return float(first.sum() / second.sum()) if second.sum() > 0 else np.inf, float(low), float(high)


def compare_users(first: Report, second: Report, metric: str, *, resamples: int = 10_000, seed: int = 0) -> Comparison:
    """Compare two models on the same customers: whether *these two models* differ, not whether two methods do.

    The p-value is that of a randomisation test: if the models were equally good, each customer's difference could as
    well have the other sign. The interval is a bootstrap over customers.
    """
    if first.protocol != second.protocol:
        raise InputError(
            f"one report is of the {first.protocol} protocol, the other {second.protocol}: compare within one protocol"
        )
    for report in (first, second):
        if metric not in report.per_user:
            raise InputError(
                f"there is no {metric!r} per customer in both reports: choose from {', '.join(report.per_user)}"
            )
    rows = second.users.rows(first.users.series)
    if len(second.users) != len(rows) or (rows < 0).any():
        raise InputError("the reports are about different customers: evaluate both models on the same test part")
    return compare_pairs(first.per_user[metric] - second.per_user[metric][rows], resamples=resamples, seed=seed)


def compare_pairs(differences: Floats, *, resamples: int = 10_000, seed: int = 0) -> Comparison:
    """`compare_users` from the difference of each customer."""
    low, high = bootstrap_intervals(differences[:, None], resamples=1000, seed=seed)
    return Comparison(
        difference=float(differences.mean()),
        low=float(low[0]),
        high=float(high[0]),
        p_value=_randomisation_p_value(differences, resamples, seed),
        test="randomisation test over customers",
    )


def compare_seeds(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Compare two methods by several runs of each, with Welch's t-test, as the paper does.

    `first` and `second` hold one metric of each run: `[report["hr@10"] for report in reports]`.
    """
    from scipy import stats

    if min(len(first), len(second)) < 2:
        raise InputError(
            f"{len(first)} runs against {len(second)}: a test over seeds needs at least two of each, run more"
        )
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        raise InputError("no run differs from another of its method: vary the seed, or use compare_users")
    with warnings.catch_warnings():
        # A baseline gives the same number in every run, and SciPy warns of variances that are 0.
        warnings.simplefilter("ignore", RuntimeWarning)
        result = stats.ttest_ind(first, second, equal_var=False)
    low, high = result.confidence_interval(0.95)
    difference = float(np.mean(first) - np.mean(second))
    return Comparison(difference, float(low), float(high), float(result.pvalue), "Welch's t-test over seeds")


def _randomisation_p_value(differences: Floats, resamples: int, seed: int) -> float:
    """The share of sign patterns, the observed one among them, whose sum is at least as far from 0."""
    moved = differences[differences != 0]  # a zero has no sign to flip, and most differences are zero
    if len(moved) == 0:
        return 1.0
    generator = np.random.default_rng(seed)
    observed = abs(moved.sum()) * (1 - 1e-9)  # so that rounding does not separate equal sums
    extreme, done = 0, 0
    while done < resamples:
        count = min(resamples - done, max(1, CELLS_PER_BLOCK // len(moved)))
        flipped = generator.integers(0, 2, (count, len(moved)), np.int8).astype(np.float64) @ moved
        extreme += int((np.abs(moved.sum() - 2 * flipped) >= observed).sum())
        done += count
    return (extreme + 1) / (resamples + 1)
