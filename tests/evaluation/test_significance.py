"""Intervals and p-values against enumeration, tables and simulation."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.evaluation import significance
from lorentzrec.evaluation.report import Metric, Report
from lorentzrec.evaluation.significance import bootstrap_intervals, compare_seeds, compare_users


def report(values: list[float], users: list[str] | None = None, protocol: str = "full") -> Report:
    return Report(
        protocol=protocol,
        metrics={"hr@1": Metric(float(np.mean(values))), "coverage@1": Metric(0.5)},
        per_user={"hr@1": np.array(values)},
        users=Vocabulary(users or [f"u{number}" for number in range(len(values))]),
        counts={"users": len(values), "events": len(values)},
    )


def test_bootstrap_of_two_values() -> None:
    """Of 0 and 1 a resample has mean 0, 1/2 or 1, with 1/4 for each end: the middle 95 % reach from 0 to 1."""
    low, high = bootstrap_intervals(np.array([[0.0, 5.0], [1.0, 5.0]]))
    assert low.tolist() == [0, 5]
    assert high.tolist() == [1, 5]


def test_bootstrap_is_as_wide_as_the_standard_error_says() -> None:
    values = np.random.default_rng(0).standard_normal((400, 1))
    low, high = bootstrap_intervals(values, resamples=4000)
    error = values.std() / sqrt(400)
    assert (high - low)[0] == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert (high + low)[0] / 2 == pytest.approx(values.mean(), abs=0.1 * error)


@pytest.mark.parametrize("cells", [4_000_000, 1000])
def test_p_value_against_every_pattern_of_signs(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(significance, "CELLS_PER_BLOCK", cells)
    differences = [0.5, 0.25, 1.0, -0.125, 0.75, 0.0, 0.5]
    sums = [abs(np.dot(signs, differences)) for signs in product([-1, 1], repeat=7)]
    exact = np.mean([value >= abs(sum(differences)) - 1e-12 for value in sums])
    compared = compare_users(report(differences), report([0.0] * 7), "hr@1", resamples=40_000)
    assert compared.difference == pytest.approx(sum(differences) / 7)
    # A share of 40,000 draws has a standard error of sqrt(p (1 - p) / 40,000).
    assert compared.p_value == pytest.approx(exact, abs=5 * sqrt(exact * (1 - exact) / 40_000))
    assert compared.low < compared.difference < compared.high


def test_customers_are_paired_by_id() -> None:
    first = report([1.0, 0.0, 0.5], ["a", "b", "c"])
    second = report([0.5, 1.0, 0.0], ["c", "a", "b"])
    compared = compare_users(first, second, "hr@1")
    assert (compared.difference, compared.low, compared.high, compared.p_value) == (0, 0, 0, 1)
    assert not compared.significant


def test_a_clear_difference() -> None:
    compared = compare_users(report([1.0] * 30), report([0.0] * 30), "hr@1", resamples=999)
    assert compared.p_value == 1 / 1000  # no drawn pattern is as extreme; the observed one itself counts
    assert compared.significant
    assert str(compared) == "1.0000 [1.0000, 1.0000], p = 0.001 (randomisation test over customers)"


def test_welch_by_hand() -> None:
    """Means 2 and 5; variances 1 and 4, over 3 runs each: t = -3 / sqrt(5/3)."""
    compared = compare_seeds([1.0, 2.0, 3.0], [3.0, 5.0, 7.0])
    assert compared.difference == -3
    assert (compared.low + compared.high) / 2 == pytest.approx(-3)
    half = (compared.high - compared.low) / 2
    # There are (5/3)^2 / ((1/3)^2 / 2 + (4/3)^2 / 2) = 50/17 degrees of freedom. Tables of t: 4.303 for 2, 3.182 for 3.
    assert 3.182 * sqrt(5 / 3) < half < 4.303 * sqrt(5 / 3)
    # |t| = 2.324 is between the tabulated points for 0.2 (1.886 and 1.638) and 0.1 (2.920 and 2.353).
    assert 0.1 < compared.p_value < 0.2
    assert not compared.significant


def test_welch_as_in_scipy() -> None:
    first, second = [0.31, 0.35, 0.33, 0.30], [0.28, 0.31, 0.27, 0.29, 0.30, 0.26]
    theirs = stats.ttest_ind(first, second, equal_var=False)
    ours = compare_seeds(first, second)
    assert ours.p_value == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert ours.significant


def test_one_method_may_be_deterministic() -> None:
    assert compare_seeds([0.2, 0.2, 0.2], [0.5, 0.51, 0.52]).significant


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0], [1.0, 2.0], "1 runs against 2: .* run more"),
        ([1.0, 1.0], [2.0, 2.0], "vary the seed"),
    ],
)
def test_runs_that_cannot_be_compared(first: list[float], second: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare_seeds(first, second)


@pytest.mark.parametrize(
    ("second", "metric", "message"),
    [
        (report([1.0, 0.0], protocol="sampled"), "hr@1", "compare within one protocol"),
        (report([1.0, 0.0]), "coverage@1", "choose from hr@1"),
        (report([1.0, 0.0], ["u0", "x"]), "hr@1", "different customers"),
        (report([1.0, 0.0, 0.0]), "hr@1", "different customers"),
    ],
)
def test_reports_that_cannot_be_compared(second: Report, metric: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        compare_users(report([0.0, 1.0]), second, metric)
