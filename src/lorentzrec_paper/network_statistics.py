"""Interactions as a network: the statistics of the paper's Table 1, for any data sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.data.arrays import Integers
from lorentzrec.data.interactions import Interactions
from lorentzrec_paper.power_law import PowerLawFit, fit_power_law

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class NetworkStatistics:
    """A bipartite graph of customers and items. A customer and an item have one link, however many events."""

    name: str
    users: int
    """Customers with at least one event; items likewise."""
    items: int
    links: int
    """Distinct (customer, item) pairs."""
    repeated_events: int
    """Events after the first of their pair; no other number counts them."""
    isolated_items: int
    """Items that share no customer with another item: they have no neighbour in the projection."""
    degree_fit: PowerLawFit | None
    """Of item degrees; None where all are equal."""
    weighted_degree_fit: PowerLawFit | None
    """Of weighted degrees in the item-item projection, isolated items left out."""
    degrees: Integers = field(repr=False, compare=False)
    """Customers of each item, in descending order."""
    weighted_degrees: Integers = field(repr=False, compare=False)
    """For each item, shared customers summed over all other items, in descending order."""

    @property
    def density(self) -> float:
        """Share of all possible pairs that are linked."""
        return self.links / (self.users * self.items)

    @property
    def mean_item_degree(self) -> float:
        return self.links / self.items

    def to_dict(self) -> dict[str, Any]:
        """All numbers, without the degrees themselves; ready for JSON."""
        result = asdict(self) | {"density": self.density, "mean_item_degree": self.mean_item_degree}
        del result["degrees"], result["weighted_degrees"]
        return result


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's Table 1. Its p-values follow Kolmogorov's limit law (`PowerLawFit.kolmogorov_p_value`)."""

    name: str
    users: int | None
    """None where the paper does not print it."""
    items: int
    density: float
    mean_item_degree: float
    exponent: float
    distance: float
    p_value: float


PAPER_TABLE = (
    PaperRow("Automotive", 1_211, 24_985, 0.0011, 1.3675, 2.9767, 0.0033, 0.9424),
    PaperRow("Cell Phones and Accessories", 1_141, 17_894, 0.0016, 1.8378, 2.4517, 0.0099, 0.0611),
    PaperRow("Clothing Shoes and Jewelry", 7_917, 165_654, 0.0002, 1.4241, 2.8558, 0.0010, 0.9973),
    PaperRow("Musical Instruments", 471, 11_956, 0.0029, 1.3801, 3.2460, 0.0030, 1.0),
    PaperRow("Patio Lawn and Garden", 374, 6_926, 0.0041, 1.5452, 2.7184, 0.0041, 0.9999),
    PaperRow("Sports and Outdoors", 3_740, 53_184, 0.0006, 2.1269, 2.2874, 0.0065, 0.0214),
    PaperRow("Tools and Home Improvement", 2_047, 34_422, 0.0009, 1.8646, 2.3542, 0.0157, 0.0),
    PaperRow("Toys and Games", 3_143, 60_361, 0.0006, 1.8439, 2.4522, 0.0060, 0.0260),
    PaperRow("MovieLens 100K", 942, 1_447, 0.0406, 38.2688, 5.4731, 0.0634, 0.9959),
    PaperRow("MovieLens 20M", 137_765, 20_720, 0.0035, 482.3648, 3.3181, 0.0510, 0.8825),
    PaperRow("ASOS.com Menswear", None, 132_399, 0.0, 198.1043, 2.5748, 0.0129, 0.1286),
)


def network_statistics(
    data: Interactions,
    *,
    name: str = "data",
    trials: int = 100,
    seed: int = 0,
    watch: Callable[[], None] = lambda: None,
) -> NetworkStatistics:
    """The counts, and power laws fitted to both kinds of degree; `trials`: bootstrap repetitions for each p-value.

    `watch` is called after each of these repetitions, at most twice `trials` times.

    In the projection, the weight between two items is the number of customers they share. It is never built: a customer
    with n items gives each of them n - 1 neighbours, so the weighted degree of an item is the sum of n - 1 over its
    customers.
    """
    # Sorted, because NumPy's unique hashes: many times slower where nearly all pairs differ.
    pairs = np.sort(data.user_rows.astype(np.int64) * len(data.items) + data.item_rows)
    user_rows, item_rows = np.divmod(pairs[np.diff(pairs, prepend=-1) != 0], len(data.items))
    basket_sizes = np.bincount(user_rows)
    degrees = np.bincount(item_rows, minlength=len(data.items))
    # Sums in double precision are exact: no weighted degree comes near 2^53.
    weighted = np.bincount(item_rows, weights=basket_sizes[user_rows] - 1, minlength=len(data.items)).astype(np.int64)
    linked = degrees > 0
    return NetworkStatistics(
        name=name,
        users=int((basket_sizes > 0).sum()),
        items=int(linked.sum()),
        links=len(item_rows),
        repeated_events=len(data) - len(item_rows),
        isolated_items=int((linked & (weighted == 0)).sum()),
        degree_fit=_fit(degrees[linked], trials, seed, watch),
        weighted_degree_fit=_fit(weighted[weighted > 0], trials, seed, watch),
        degrees=np.sort(degrees[linked])[::-1],
        weighted_degrees=np.sort(weighted[linked])[::-1],
    )


def paper_row(statistics: NetworkStatistics) -> PaperRow | None:
    """The paper's row for the same data: the one with the same numbers of customers and items."""
    counts = (statistics.users, statistics.items)
    return next((row for row in PAPER_TABLE if (row.users, row.items) == counts), None)


def network_table(many: Sequence[NetworkStatistics]) -> pl.DataFrame:
    """Table 1 for any data: a row for each data set, and the paper's row below it if the data are the same."""
    import polars as pl

    rows: list[dict[str, Any]] = []
    for statistics in many:
        fits = _fit_columns("", statistics.degree_fit) | _fit_columns("projection ", statistics.weighted_degree_fit)
        rows.append({"data": statistics.name, **_counts(statistics), **fits})
        if row := paper_row(statistics):
            fit = {"exponent": row.exponent, "KS distance": row.distance, "p (Kolmogorov)": row.p_value}
            rows.append({"data": f"{row.name} (paper)", **_counts(row), **fit})
    return pl.DataFrame(rows, infer_schema_length=None)


def _counts(one: NetworkStatistics | PaperRow) -> dict[str, Any]:
    counts = {"users": one.users, "items": one.items}
    return counts | {"density": one.density, "mean item degree": one.mean_item_degree}


def _fit_columns(prefix: str, fit: PowerLawFit | None) -> dict[str, Any]:
    return {
        f"{prefix}exponent": fit and fit.exponent,
        f"{prefix}minimum": fit and fit.minimum,
        f"{prefix}tail": fit and fit.tail_count,
        f"{prefix}KS distance": fit and fit.distance,
        f"{prefix}p (bootstrap)": fit and fit.p_value,
        f"{prefix}p (Kolmogorov)": fit and fit.kolmogorov_p_value,
    }


def _fit(values: Integers, trials: int, seed: int, watch: Callable[[], None]) -> PowerLawFit | None:
    return fit_power_law(values, trials=trials, seed=seed, watch=watch) if len(np.unique(values)) > 1 else None
