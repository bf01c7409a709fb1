"""Power-law tails of integers: exponent, minimum, goodness of fit and its p-value.

The method is that of Clauset, Shalizi and Newman, "Power-law distributions in empirical data" (SIAM Review 51, 2009):
for every possible minimum of the tail, find the exponent of greatest likelihood; choose the minimum whose fit is
nearest to the data (Kolmogorov-Smirnov); a bootstrap that repeats all of it gives the p-value.

The tests compare with the `powerlaw` package. It is not used here because it has no p-value, finds no exponent above 3
by default, and computes a wrong distance for steep tails, where its cumulative shares lose all digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.errors import InputError

CANDIDATES = 400
"""Most minima that are tried; of more distinct values, this many are chosen evenly on the logarithmic scale."""

FLATTEST, STEEPEST = 1.001, 50.0
"""Bounds of the exponent: at 1 the probabilities have no finite sum, above 50 all weight is on one value."""


@dataclass(frozen=True)
class PowerLawFit:
    """P(degree = k) ~ k^-exponent for all k of at least `minimum`."""

    exponent: float
    minimum: int
    tail_count: int
    """Number of values in the tail, which the exponent describes."""
    distance: float
    """Kolmogorov-Smirnov: the largest difference between the cumulative shares of data and fit, in the tail."""
    kolmogorov_p_value: float
    """By Kolmogorov's limit law, as in the paper: too large, because the fit was chosen to be near."""
    p_value: float | None
    """Share of data sets drawn from the fit that are further from their own fit; None without bootstrap."""

    @property
    def standard_error(self) -> float:
        """Of the exponent, for a known minimum."""
        return float((self.exponent - 1) / np.sqrt(self.tail_count))


def fit_power_law(
    values: Integers, *, trials: int = 100, seed: int = 0, watch: Callable[[], None] = lambda: None
) -> PowerLawFit:
    """Fit the tail of positive integers; `trials` repetitions of the bootstrap give the p-value, 0 skips it.

    The standard error of the p-value is at most 0.5 / sqrt(trials). `watch` is called after each repetition.
    """
    from scipy import special

    if len(values) and values.min() < 1:
        raise InputError(f"a power law has no value of {values.min()}: leave out what is below 1")
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 2:
        raise InputError(f"{len(values)} values, {len(distinct)} of them distinct, have no tail: give more data")
    exponent, minimum, distance = nearest_tail(distinct, counts)
    tail_count = int((values >= minimum).sum())
    p_value = None
    if trials:
        generator = np.random.default_rng(seed)
        further = 0
        for _ in range(trials):
            further += nearest_tail(*_resample(generator, distinct, counts, exponent, minimum))[2] >= distance
            watch()
        p_value = float(further / trials)
    kolmogorov = float(special.kolmogorov(np.sqrt(tail_count) * distance))
    return PowerLawFit(exponent, minimum, tail_count, distance, kolmogorov, p_value)


def nearest_tail(distinct: Integers, counts: Integers) -> tuple[float, int, float]:
    """(exponent, minimum, distance) of the tail that is nearest to its own fit, for sorted distinct values."""
    if len(distinct) < 2:
        return STEEPEST, int(distinct[0]), 0.0
    indices = np.arange(len(distinct) - 1)
    if len(indices) > CANDIDATES:
        steps = np.geomspace(distinct[0], distinct[-2], CANDIDATES)
        indices = np.unique(np.searchsorted(distinct, steps.astype(np.int64)))
    logarithms = np.log(distinct)
    at_least = np.cumsum(counts[::-1])[::-1]
    mean_logarithm = np.cumsum((counts * logarithms)[::-1])[::-1][indices] / at_least[indices]
    exponents = _likeliest_exponents(distinct[indices], mean_logarithm)
    start = log_zeta(exponents, distinct[indices])
    distances = np.empty(len(indices))
    for row, index in enumerate(indices):
        tail = distinct[index:]
        fitted = np.exp(log_zeta(exponents[row], tail) - start[row])
        distances[row] = np.abs(at_least[index:] / at_least[index] - fitted).max()
    best = int(distances.argmin())
    return float(exponents[best]), int(distinct[indices[best]]), float(distances[best])


def _likeliest_exponents(minima: Integers, mean_logarithm: Floats) -> Floats:
    """Where the likelihood -log zeta(a, minimum) - a mean(log k) is greatest, by bisection: its slope is decreasing."""
    low, high = np.full(len(minima), FLATTEST), np.full(len(minima), STEEPEST)
    step = 1e-6
    for _ in range(36):
        middle = (low + high) / 2
        slope = (log_zeta(middle + step, minima) - log_zeta(middle - step, minima)) / (2 * step)
        rising = -slope > mean_logarithm
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    exponents: Floats = (low + high) / 2
    return exponents


def log_zeta(exponent: Floats | float, start: Integers) -> Floats:
    """log of the sum of k^-exponent over all integers k from `start` (sorted), without underflow.

    Euler-Maclaurin from 32 on, with an error of 1e-9 for the exponents of degrees (1e-5 at 50); SciPy's zeta below.
    """
    from scipy import special

    a, k = np.asarray(exponent, np.float64), np.maximum(start, 32.0)
    inverse_square = k**-2
    series = 1 / (a - 1) + 0.5 / k + inverse_square * (a / 12 - a * (a + 1) * (a + 2) / 720 * inverse_square)
    result: Floats = (1 - a) * np.log(k) + np.log(series)
    if near := np.searchsorted(start, 32):
        result[:near] = np.log(special.zeta(np.broadcast_to(a, result.shape)[:near], start[:near]))
    return result


def _resample(
    generator: np.random.Generator, distinct: Integers, counts: Integers, exponent: float, minimum: int
) -> tuple[Integers, Integers]:
    """The same number of values: those of the tail drawn from the fit, those below it from the data."""
    body = distinct < minimum
    total = int(counts.sum())
    tail_count = int(generator.binomial(total, counts[~body].sum() / total))
    tail, tail_counts = np.unique(_draw_tail(generator, tail_count, exponent, minimum), return_counts=True)
    if not body.any():
        return tail, tail_counts
    below = generator.multinomial(total - tail_count, counts[body] / counts[body].sum())
    drawn = below > 0
    return np.concatenate([distinct[body][drawn], tail]), np.concatenate([below[drawn], tail_counts])


def _draw_tail(generator: np.random.Generator, count: int, exponent: float, minimum: int) -> Integers:
    """Integers from the power law by its cumulative shares; large ones by the continuous law, rounded."""
    table = minimum + np.arange(1, 4097)
    shares = np.exp(log_zeta(exponent, table) - log_zeta(exponent, np.array([minimum])))
    uniform = 1 - generator.random(count)
    values = minimum + np.searchsorted(-shares, -uniform, side="left")
    far = values >= table[-1]
    continuous = (table[-1] - 0.5) * (uniform[far] / shares[-1]) ** (-1 / (exponent - 1))
    values[far] = np.minimum(continuous + 0.5, 2.0**62).astype(np.int64)
    return values
