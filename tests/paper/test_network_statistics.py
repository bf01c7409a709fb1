"""Network statistics compared with slow references, the `powerlaw` package, and known laws."""

from __future__ import annotations

import warnings

import numpy as np
import powerlaw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from lorentzrec import Interactions
from lorentzrec.data.arrays import Integers
from lorentzrec.errors import InputError
from lorentzrec_paper import power_law as tail
from lorentzrec_paper.network_statistics import PAPER_TABLE, network_statistics, network_table, paper_row
from lorentzrec_paper.power_law import fit_power_law, log_zeta

Pairs = list[tuple[int, int]]


def zipf(exponent: float, minimum: int, count: int, seed: int = 0) -> Integers:
    """Whole numbers from a power law, drawn by SciPy from 1, those from `minimum` on."""
    drawn = stats.zipf(exponent).rvs(size=count, random_state=seed).astype(np.int64)
    return drawn[drawn >= minimum]


def statistics_of(pairs: Pairs) -> dict[str, object]:
    users, items = zip(*pairs, strict=True)
    return network_statistics(Interactions.from_pairs(list(users), list(items)), trials=0).to_dict()


def test_a_small_network_by_hand() -> None:
    """User 1 has 1, 2, 3; user 2 has 1 (twice) and 2; user 3 has 4. Shared customers: 1-2 two, 1-3 and 2-3 one."""
    data = Interactions.from_pairs([1, 1, 1, 2, 2, 2, 3], [1, 2, 3, 1, 1, 2, 4])
    found = network_statistics(data, trials=0)
    assert (found.users, found.items, found.links, found.repeated_events) == (3, 4, 6, 1)
    assert found.density == 6 / (3 * 4)
    assert found.mean_item_degree == 6 / 4
    assert found.degrees.tolist() == [2, 2, 1, 1]
    assert found.weighted_degrees.tolist() == [3, 3, 2, 0]
    assert found.isolated_items == 1


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=60))
@settings(deadline=None, max_examples=60)
def test_the_projection_is_that_of_the_matrix_product(pairs: Pairs) -> None:
    """The reference builds the projection: B' B for the 0/1 matrix B, without its diagonal."""
    users, items = zip(*pairs, strict=True)
    found = network_statistics(Interactions.from_pairs(list(users), list(items)), trials=0)
    matrix = np.zeros((7, 9), np.int64)
    matrix[list(users), list(items)] = 1
    projection = matrix.T @ matrix
    np.fill_diagonal(projection, 0)
    met = matrix.any(axis=0)
    assert found.weighted_degrees.tolist() == sorted(projection.sum(axis=1)[met], reverse=True)
    assert found.degrees.tolist() == sorted(matrix.sum(axis=0)[met], reverse=True)
    assert found.links == matrix.sum()


def test_customers_and_items_without_events_do_not_count() -> None:
    """Parts of a split keep the vocabularies of the whole."""
    data = Interactions.from_pairs([1, 1, 2], [1, 2, 3])
    part = data.select(np.array([True, True, False]))
    found = network_statistics(part, trials=0)
    assert (found.users, found.items, found.density) == (1, 2, 1.0)


def test_equal_degrees_have_no_fit() -> None:
    found = statistics_of([(1, 1), (2, 2)])
    assert found["degree_fit"] is None
    assert found["weighted_degree_fit"] is None


@pytest.mark.parametrize("exponent", [1.2, 2.5, 5.5])
def test_log_zeta_is_the_logarithm_of_the_sum(exponent: float) -> None:
    starts = np.array([1, 2, 10, 31, 32, 33, 1_000, 10**7])
    assert log_zeta(exponent, starts) == pytest.approx(np.log(special.zeta(exponent, starts)), abs=1e-8)


def test_log_zeta_does_not_underflow() -> None:
    """zeta(40, 10^9), about 10^-353, is below every double. Its logarithm is -39 log(10^9) - log(39), and 2e-8 more."""
    assert log_zeta(40.0, np.array([10**9]))[0] == pytest.approx(-39 * np.log(1e9) - np.log(39), abs=1e-6)


@pytest.mark.parametrize(
    ("exponent", "minimum", "count"), [(2.0, 1, 2_000), (2.5, 1, 3_000), (2.5, 5, 30_000), (3.5, 2, 4_000)]
)
def test_the_fit_is_that_of_the_powerlaw_package(exponent: float, minimum: int, count: int) -> None:
    """The same minimum of the tail; exponent and distance to the package's own precision."""
    values = zipf(exponent, minimum, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = powerlaw.Fit(
            values, discrete=True, estimate_discrete=False, parameter_ranges={"alpha": [1.001, 50.0]}, verbose=False
        ).power_law
    fit = fit_power_law(values, trials=0)
    assert fit.minimum == library.xmin
    assert fit.exponent == pytest.approx(library.alpha, abs=2e-3)
    assert fit.distance == pytest.approx(library.D, abs=2e-4)


@pytest.mark.parametrize(("exponent", "minimum"), [(2.2, 1), (2.8, 3), (4.0, 1)])
def test_a_known_exponent_is_found(exponent: float, minimum: int) -> None:
    fit = fit_power_law(zipf(exponent, minimum, 20_000, seed=1), trials=0)
    assert fit.exponent == pytest.approx(exponent, abs=3 * fit.standard_error)


def test_the_likeliest_exponent_equals_that_of_a_fine_grid() -> None:
    values = zipf(2.6, 1, 500)
    grid = np.arange(1.5, 4.0, 1e-4)
    likelihood = -len(values) * np.log(special.zeta(grid, 1)) - grid * np.log(values).sum()
    found = tail._likeliest_exponents(np.array([1]), np.array([np.log(values).mean()]))
    assert found[0] == pytest.approx(grid[likelihood.argmax()], abs=1e-4)


def test_the_body_is_left_out() -> None:
    """Uniform below 20 and a power law from 20 on, which a continuous draw approximates there: found near 20."""
    generator = np.random.default_rng(0)
    law = np.floor(19.5 * (1 - generator.random(4_000)) ** (-1 / 1.7) + 0.5).astype(np.int64)
    values = np.concatenate([generator.integers(1, 20, 6_000), law])
    fit = fit_power_law(values, trials=0)
    assert 18 <= fit.minimum <= 30
    assert fit.exponent == pytest.approx(2.7, abs=3 * fit.standard_error)


def test_draws_follow_the_law_in_the_table_and_beyond() -> None:
    """Shares of at least k from 3 on: zeta(2, k) / zeta(2, 3), also past the table's end at 4,099."""
    drawn = tail._draw_tail(np.random.default_rng(0), 400_000, 2.0, 3)
    assert drawn.min() == 3
    for k in (4, 10, 1_000, 4_099, 20_000):
        share = special.zeta(2.0, k) / special.zeta(2.0, 3)
        assert (drawn >= k).mean() == pytest.approx(share, abs=5 * np.sqrt(share / 400_000))


def test_p_values_of_true_power_laws_are_spread_evenly() -> None:
    """So that 0.1 means one in ten: their mean over 40 data sets is 1/2, within four times 1 / sqrt(12 * 40)."""
    p_values = [fit_power_law(zipf(2.5, 1, 300, seed=seed), trials=30).p_value for seed in range(40)]
    assert np.mean([p for p in p_values if p is not None]) == pytest.approx(0.5, abs=4 / np.sqrt(12 * 40))


def test_a_lumpy_tail_is_rejected() -> None:
    """Powers of two alone, with the mean slope of a power law: no tail of them is smooth, as draws from a law are."""
    values = 2 ** np.random.default_rng(0).geometric(0.6, 2_000)
    assert fit_power_law(values, trials=50).p_value == 0


def test_the_paper_uses_the_limit_law_of_kolmogorov() -> None:
    """Rows of Table 1 whose tail is all items: the p-value follows from the distance, as far as that is printed."""
    for name in ("Automotive", "Cell Phones and Accessories", "Sports and Outdoors", "Toys and Games"):
        row = next(row for row in PAPER_TABLE if row.name == name)
        low, high = (special.kolmogorov(np.sqrt(row.items) * (row.distance + half)) for half in (5e-5, -5e-5))
        assert low <= row.p_value <= high


def test_the_same_seed_gives_the_same_p_value() -> None:
    values = zipf(2.5, 1, 400)
    assert fit_power_law(values, trials=20, seed=3) == fit_power_law(values, trials=20, seed=3)


@pytest.mark.parametrize("values", [[], [4, 4, 4], [0, 1, 2]])
def test_values_without_a_tail_are_refused(values: list[int]) -> None:
    with pytest.raises(InputError):
        fit_power_law(np.array(values, np.int64))


def test_the_table_shows_the_papers_row_for_the_same_data_only() -> None:
    """942 customers and 1,447 items, invented: each customer has item 0, and the other items are distributed evenly."""
    users = [item % 942 for item in range(1_447)] + list(range(942))
    items = list(range(1_447)) + [0] * 942
    same = network_statistics(Interactions.from_pairs(users, items), name="mine", trials=0)
    other = network_statistics(Interactions.from_pairs([1, 1, 2], [1, 2, 1]), name="other", trials=0)
    row = paper_row(same)
    assert row is not None
    assert row.name == "MovieLens 100K"
    assert paper_row(other) is None
    table = network_table([same, other])
    assert table["data"].to_list() == ["mine", "MovieLens 100K (paper)", "other"]
    assert table["exponent"][1] == 5.4731
    assert table["users"].to_list() == [942, 942, 2]
