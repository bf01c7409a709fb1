"""The data as networks: the paper's Table 1, its degree distributions, and a bipartite graph with its projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.networks.power_law import PowerLawFit
from lorentzrec.networks.statistics import PAPER_TABLE, NetworkStatistics, network_statistics, paper_row
from lorentzrec.tuning.parts import Part
from lorentzrec_paper.data_sets import CATEGORIES, DATA_SETS, FoundData, MissingData, complete_name
from lorentzrec_paper.experiment import Answer, Column, Context, Experiment, Outcome, Table, Verdict

MINIMUM_RATING = 4.0
"""MovieLens: a rating of 4 or 5 is an interaction."""
MINIMUM_USER_EVENTS = 21
"""Complete Amazon ratings: users with more than 20 interactions."""
REJECTED_BELOW = 0.1
"""A p-value under which a power law is ruled out, after Clauset, Shalizi and Newman; the paper names no level."""
USERS, ITEMS = 10, 7
"""Of the small graph that is drawn."""
DRAWN_SEED = 3


def measure(found: FoundData, filters: Mapping[str, Any], trials: int) -> dict[str, Any]:
    """The statistics of one data set as plain JSON; degrees as (distinct, counts), for the figure."""
    statistics = network_statistics(found.interactions(**filters), name=found.title, trials=trials)
    return {
        "statistics": statistics.to_dict(),
        **{name: _counted(getattr(statistics, name)) for name in ("degrees", "weighted_degrees")},
    }


def restored(result: Mapping[str, Any]) -> NetworkStatistics:
    """The statistics that `measure` wrote down."""
    values: dict[str, Any] = dict(result["statistics"])
    del values["density"], values["mean_item_degree"]
    for name in ("degree_fit", "weighted_degree_fit"):
        values[name] = PowerLawFit(**values[name]) if values[name] else None
    for name in ("degrees", "weighted_degrees"):
        values[name] = np.repeat(*map(np.asarray, result[name]))[::-1]
    return NetworkStatistics(**values)


def _counted(degrees: NDArray[np.int64]) -> list[list[int]]:
    return [values.tolist() for values in np.unique(degrees, return_counts=True)]


def filters_of(name: str) -> dict[str, Any]:
    """What the paper keeps of a data set; the others, which are not the paper's, are taken as they come."""
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


def unevenness(graph: NDArray[np.bool_]) -> dict[str, float]:
    """Standard deviation over mean of the items' degrees: in the graph, in its projection, and there by weight."""
    shared = graph.T.astype(np.int64) @ graph.astype(np.int64)
    np.fill_diagonal(shared, 0)
    kinds = {"bipartite": graph.sum(axis=0), "projection": (shared > 0).sum(axis=0), "weighted": shared.sum(axis=0)}
    return {name: float(degrees.std() / degrees.mean()) for name, degrees in kinds.items()}


def small_graphs(count: int) -> dict[str, float]:
    """The mean of `unevenness` over many small graphs, and the share of them in which the paper's order holds."""
    all_values = [unevenness(simulated_graph(seed)) for seed in range(count)]
    means = {name: float(np.mean([values[name] for values in all_values])) for name in all_values[0]}
    regular = np.mean([values["projection"] < min(values["bipartite"], values["weighted"]) for values in all_values])
    return means | {"regular": float(regular)}


def run(context: Context) -> Outcome:
    trials, graphs = (10, 10) if context.quick else (100, 200)
    (small,) = context.run(
        [Part("small graphs", {"graphs": graphs, "size": [USERS, ITEMS]}, partial(small_graphs, graphs))]
    )
    try:
        available = context.available(list(DATA_SETS))
    except MissingData as error:
        context.say(f"no data set is at hand: {error}")
        available = []
    results = context.run(
        Part(
            found.title,
            {"data": found.digest, "filters": filters_of(found.name), "trials": trials},
            partial(measure, found, filters_of(found.name), trials),
        )
        for found in available
    )
    many = [restored(result) for result in results]

    def draw_degrees(path: Path) -> None:
        from lorentzrec.figures.degrees import plot_degrees

        plot_degrees(many, path, columns=3)

    def draw_projection(path: Path) -> None:
        from lorentzrec_paper.figures.small_graphs import plot_projection

        plot_projection(simulated_graph(DRAWN_SEED), path)

    tables = [_paper_table(many)] if any(map(paper_row, many)) else []
    tables += [_own_table(many)] if many else []
    measured = {row.name for row in map(paper_row, many) if row}
    absent = [row.name for row in PAPER_TABLE if row.name not in measured]
    return Outcome(
        tables=(*tables, _small_table(small)),
        verdicts=_verdicts(many, small),
        figures={"bipartite": draw_projection} | ({"degrees": draw_degrees} if many else {}),
        captions={
            "bipartite": "A small shop, and its projection: items that share customers are joined.",
            "degrees": "Degree distributions, cumulative, on logarithmic scales, with the fitted power law. Main plot: "
            "weighted degree in the item-item projection. Inset: degree of items in the bipartite graph.",
        },
        notes=(f"rows of the paper's table whose data are not at hand: {', '.join(absent)}",) if absent else (),
        settings={
            "trials": trials,
            "graphs": graphs,
            "minimum_rating": MINIMUM_RATING,
            "minimum_user_events": MINIMUM_USER_EVENTS,
        },
    )


def _paper_table(many: list[NetworkStatistics]) -> Table:
    """The paper's rows whose data are at hand, quantity by quantity."""
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
    columns = (Column("data", "key"), Column("quantity", "key"), Column("value", "ours"), Column("value", "paper"))
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
        fit = asdict(one.degree_fit) if one.degree_fit else {}
        names = ("exponent", "minimum", "tail_count", "distance", "kolmogorov_p_value", "p_value")
        counts = (one.name, one.users, one.items, one.density, one.mean_item_degree)
        rows.append((*counts, *(fit.get(name) for name in names)))
    return Table("Power laws of item degrees, all data at hand", columns, tuple(rows))


def _small_table(small: dict[str, float]) -> Table:
    columns = (Column("degree of an item", "key"), Column("standard deviation / mean", "ours", ".2f"))
    kinds = (
        ("in the bipartite graph", small["bipartite"]),
        ("in the projection", small["projection"]),
        ("in the projection, weighted", small["weighted"]),
    )
    return Table(f"Small graphs of {USERS} customers and {ITEMS} items, and their projections", columns, kinds)


def _verdicts(many: list[NetworkStatistics], small: dict[str, float]) -> tuple[Verdict, ...]:
    same = [(one, row) for one in many if (row := paper_row(one)) and one.degree_fit]
    exact = [one.name for one, row in same if one.degree_fit and abs(one.degree_fit.exponent - row.exponent) < 0.005]
    fits = [(one, one.degree_fit) for one in many if one.degree_fit]
    kept = sum((fit.p_value or 0) >= REJECTED_BELOW for _, fit in fits)
    printed_rejected = sum(row.p_value < REJECTED_BELOW for row in PAPER_TABLE)
    shares = sorted(fit.tail_count / one.items for one, fit in fits)
    complex_answer: Answer = (
        "not measured" if not fits else "holds" if kept == len(fits) else "partly" if kept else "fails"
    )
    return (
        Verdict(
            "the statistics of Table 1",
            "Table 1",
            f"{', '.join(exact)}: exponents agree to two digits after the point" if exact else "no row's data at hand",
            "not measured" if not same else "holds" if len(exact) == len(same) else "partly",
            f"{len(same)} of the {len(PAPER_TABLE)} rows could be measured",
        ),
        Verdict(
            "the data sets are complex networks, with power laws of item degrees",
            "section 4, Table 1",
            f"{kept} of {len(fits)} data sets do not reject a power law (bootstrap p from {REJECTED_BELOW}); the "
            f"fitted tail holds {shares[0]:.0%} to {shares[-1]:.0%} of the items"
            if fits
            else "no data at hand",
            complex_answer,
            f"the paper's own p-values are below {REJECTED_BELOW} in {printed_rejected} of {len(PAPER_TABLE)} rows; "
            "its limit law makes them too large, and where the tail is small the exponent speaks of best-sellers only",
        ),
        Verdict(
            "the projection is more regular than the bipartite graph; weights keep part of the heterogeneity",
            "figure of the bipartite graph",
            f"standard deviation / mean of degrees: bipartite {small['bipartite']:.2f}, projection "
            f"{small['projection']:.2f}, weighted {small['weighted']:.2f}; the projection's is the smallest in "
            f"{small['regular']:.0%} of the graphs",
            "holds" if small["regular"] > 0.95 else "partly" if small["regular"] > 0.5 else "fails",
        ),
    )


EXPERIMENT = Experiment("networks", "The data as complex networks: Table 1 and the degree distributions", run)
