"""The data as networks: the paper's Table 1, its degree distributions, and a bipartite graph with its projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.studies.parts import Part
from lorentzrec_paper.data_sets import CATEGORIES, DATA_SETS, FoundData, MissingData, complete_name
from lorentzrec_paper.experiment import Column, Context, Experiment, Figure, Outcome, Table, Verdict, status_of
from lorentzrec_paper.network_statistics import PAPER_TABLE, NetworkStatistics, network_statistics, paper_row

MINIMUM_RATING = 4.0
"""MovieLens: a rating of 4 or 5 is an interaction."""
MINIMUM_USER_EVENTS = 21
"""Complete Amazon ratings: users with more than 20 interactions."""
REJECTED_BELOW = 0.1
"""A p-value below which a power law is rejected, after Clauset, Shalizi and Newman; the paper gives no level."""
USERS, ITEMS = 10, 7
"""Size of the small graphs."""
DRAWN_SEED = 3


@dataclass(frozen=True)
class Unevenness:
    """Standard deviation over mean of the items' degrees."""

    bipartite: float
    projection: float
    weighted: float
    """In the projection, by weight."""
    regular: float
    """Share of the graphs in which the projection is the least uneven."""


def measure(found: FoundData, filters: Mapping[str, Any], trials: int) -> NetworkStatistics:
    return network_statistics(found.interactions(**filters), name=found.title, trials=trials)


def filters_of(name: str) -> dict[str, Any]:
    """The paper's filters of a data set; the others, which are not the paper's, are not filtered."""
    if name.startswith("movielens"):
        return {"minimum_rating": MINIMUM_RATING}
    return {"minimum_user_events": MINIMUM_USER_EVENTS} if name in map(complete_name, CATEGORIES) else {}


def simulated_graph(seed: int) -> NDArray[np.bool_]:
    """A small shop: customers (rows) of 2 to 4 items, drawn in proportion to 1 / rank, every item at least once."""
    generator = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, ITEMS + 1)
    graph = np.zeros((USERS, ITEMS), bool)
    while not graph.any(axis=0).all():
        graph[:] = False
        for basket in graph:
            size = generator.integers(2, 5)
            basket[generator.choice(ITEMS, size, replace=False, p=popularity / popularity.sum())] = True
    return graph


def unevenness(graph: NDArray[np.bool_]) -> Unevenness:
    """Of one graph."""
    shared = graph.T.astype(np.int64) @ graph.astype(np.int64)
    np.fill_diagonal(shared, 0)
    kinds = (graph.sum(axis=0), (shared > 0).sum(axis=0), shared.sum(axis=0))
    bipartite, projection, weighted = (float(degrees.std() / degrees.mean()) for degrees in kinds)
    return Unevenness(bipartite, projection, weighted, regular=float(projection < min(bipartite, weighted)))


def small_graphs(count: int) -> Unevenness:
    """The mean over many small graphs."""
    return Unevenness(*np.mean([astuple(unevenness(simulated_graph(seed))) for seed in range(count)], axis=0).tolist())


def run(context: Context) -> Outcome:
    trials, graphs = (10, 10) if context.quick else (100, 200)
    key = {"graphs": graphs, "size": [USERS, ITEMS]}
    (small,) = context.run(Unevenness, [Part("small graphs", key, partial(small_graphs, graphs))])
    try:
        available = context.find_data(list(DATA_SETS))
    except MissingData as error:
        context.say(f"no data set is available: {error}")
        available = []
    parts = (
        Part(
            found.title,
            {"data": found.digest, "filters": filters_of(found.name), "trials": trials},
            partial(measure, found, filters_of(found.name), trials),
        )
        for found in available
    )
    many = context.run(NetworkStatistics, parts)

    def draw_degrees(path: Path) -> None:
        from lorentzrec_paper.degree_plots import plot_degrees

        plot_degrees(many, path, columns=3)

    def draw_projection(path: Path) -> None:
        from lorentzrec_paper.figures import plot_projection

        plot_projection(simulated_graph(DRAWN_SEED), path)

    tables = [_paper_table(many)] if any(map(paper_row, many)) else []
    tables += [_own_table(many)] if many else []
    measured = {row.name for row in map(paper_row, many) if row}
    absent = [row.name for row in PAPER_TABLE if row.name not in measured]
    figures = {
        "bipartite": Figure(
            "A small shop, and its projection: items that share customers are linked.", draw_projection
        ),
        "degrees": Figure(
            "Degree distributions, cumulative, on logarithmic scales, with the fitted power law. Main plot: weighted "
            "degree in the item-item projection. Inset: degree of items in the bipartite graph.",
            draw_degrees,
        ),
    }
    return Outcome(
        tables=(*tables, _small_table(small)),
        verdicts=_verdicts(many, small),
        figures={name: figure for name, figure in figures.items() if many or name == "bipartite"},
        notes=(f"rows of the paper's table whose data are missing: {', '.join(absent)}",) if absent else (),
        settings={
            "trials": trials,
            "graphs": graphs,
            "minimum_rating": MINIMUM_RATING,
            "minimum_user_events": MINIMUM_USER_EVENTS,
        },
    )


def _paper_table(many: list[NetworkStatistics]) -> Table:
    """The paper's rows whose data are available, one line per quantity."""
    rows: list[tuple[Any, ...]] = []
    for statistics in many:
        printed, fit = paper_row(statistics), statistics.degree_fit
        if printed is None or fit is None:
            continue
        for quantity, form, ours, theirs in (
            ("customers", ",", statistics.users, printed.users),
            ("items", ",", statistics.items, printed.items),
            ("density", ".4f", statistics.density, printed.density),
            ("mean item degree", ".4f", statistics.mean_item_degree, printed.mean_item_degree),
            ("exponent", ".4f", fit.exponent, printed.exponent),
            ("KS distance", ".4f", fit.distance, printed.distance),
            ("p-value, limit law", ".4f", fit.kolmogorov_p_value, printed.p_value),
            ("p-value, bootstrap", ".2f", fit.p_value, None),
        ):
            cells = ["-" if value is None else format(value, form) for value in (ours, theirs)]
            rows.append((printed.name, quantity, *cells))
    columns = (*Column.keys("data", "quantity"), Column("value"), Column("value", "paper"))
    return Table("The paper's Table 1, where the data are the same", columns, tuple(rows))


def _own_table(many: list[NetworkStatistics]) -> Table:
    columns = (
        Column("data", "key"),
        *Column.ours({"customers": ",", "items": ",", "density": ".4f", "mean degree": ".2f"}),
        *Column.ours({"exponent": ".2f", "from degree": ",", "items in tail": ",", "KS distance": ".4f"}),
        *Column.ours({"p, limit law": ".3f", "p, bootstrap": ".2f"}),
    )
    rows = []
    for one in many:
        fit = one.degree_fit
        counts = (one.name, one.users, one.items, one.density, one.mean_item_degree)
        numbers = (
            [None] * 6
            if fit is None
            else [fit.exponent, fit.minimum, fit.tail_count, fit.distance, fit.kolmogorov_p_value, fit.p_value]
        )
        rows.append((*counts, *numbers))
    return Table("Power laws of item degrees, all available data", columns, tuple(rows))


def _small_table(small: Unevenness) -> Table:
    columns = (Column("degree of an item", "key"), Column("standard deviation / mean", "ours", ".2f"))
    kinds = (
        ("in the bipartite graph", small.bipartite),
        ("in the projection", small.projection),
        ("in the projection, weighted", small.weighted),
    )
    return Table(f"Small graphs of {USERS} customers and {ITEMS} items, and their projections", columns, kinds)


def _verdicts(many: list[NetworkStatistics], small: Unevenness) -> tuple[Verdict, ...]:
    same = [(one, row) for one in many if (row := paper_row(one)) and one.degree_fit]
    exact = [one.name for one, row in same if one.degree_fit and abs(one.degree_fit.exponent - row.exponent) < 0.005]
    fits = [(one, one.degree_fit) for one in many if one.degree_fit]
    accepted = [(fit.p_value or 0) >= REJECTED_BELOW for _, fit in fits]
    printed_rejected = sum(row.p_value < REJECTED_BELOW for row in PAPER_TABLE)
    shares = sorted(fit.tail_count / one.items for one, fit in fits)
    return (
        Verdict(
            "the statistics of Table 1",
            "Table 1",
            f"{', '.join(exact)}: exponents agree to two digits after the point" if exact else "no data for any row",
            "not measured" if not same else "holds" if len(exact) == len(same) else "partly",
            f"{len(same)} of the {len(PAPER_TABLE)} rows could be measured",
        ),
        Verdict(
            "the data sets are complex networks, with power laws of item degrees",
            "section 4, Table 1",
            f"{sum(accepted)} of {len(fits)} data sets do not reject a power law (bootstrap p from {REJECTED_BELOW}); "
            f"the fitted tail holds {shares[0]:.0%} to {shares[-1]:.0%} of the items"
            if fits
            else "no data available",
            status_of(accepted) if fits else "not measured",
            f"the paper's own p-values are below {REJECTED_BELOW} in {printed_rejected} of {len(PAPER_TABLE)} rows; "
            "its limit law makes them too large, and where the tail is small the exponent describes best sellers only",
        ),
        Verdict(
            "the projection is more regular than the bipartite graph; weights keep part of the heterogeneity",
            "figure of the bipartite graph",
            f"standard deviation / mean of degrees: bipartite {small.bipartite:.2f}, projection "
            f"{small.projection:.2f}, weighted {small.weighted:.2f}; the projection's is the smallest in "
            f"{small.regular:.0%} of the graphs",
            "holds" if small.regular > 0.95 else "partly" if small.regular > 0.5 else "fails",
        ),
    )


EXPERIMENT = Experiment("networks", "The data as complex networks: Table 1 and the degree distributions", run)
