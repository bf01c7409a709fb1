"""The paper's three simulations: small graphs in two dimensions, checked in numbers and over many seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import to_poincare
from lorentzrec.geometry.hyperboloid import distance, lift, origin
from lorentzrec.studies.parts import Part
from lorentzrec_paper.experiment import Column, Context, Experiment, Figure, Outcome, Table, Verdict, status_of

USERS = "ABCDEF"
HUB = "7"
"""The item that every user bought."""
GRAPHS = {"two groups": (2, False), "three groups": (3, False), "three groups and item 7": (3, True)}
"""Name -> (groups of two users and two items each, whether all users also bought item 7)."""
READINGS: dict[str, dict[str, Any]] = {
    "rate decay": {"learning_rate_decay": 0.02, "schedule": "inverse"},
    "penalty": {"learning_rate_decay": 0.0, "regularisation": 0.02},
}
"""What "a decay rate of 0.02" may mean: the learning rate's, rate / (1 + 0.02 epoch), or the points', by a penalty."""
SETTINGS: dict[str, Any] = {
    "model": "symmetric",
    "loss": "bpr",
    "score": "inner",
    "optimiser": "rsgd",
    "dimension": 2,
    "learning_rate": 1.0,
    "initialisation": "cube",
    "initial_width": 0.01,
    "negative_count": 1,
    "epochs": 100,
    "threads": 1,
}
"""The paper's; where it gives none: inner products, which it favours, and 100 epochs."""
SEEDS = 20


@dataclass(frozen=True)
class Hub:
    """Distances of item 7."""

    radius: float
    """From the origin."""
    other_radius: float
    """The smallest distance of any other point from the origin."""
    nearest: float
    """To the nearest user."""
    farthest: float


@dataclass(frozen=True)
class Distances:
    """Of all pairs in one group and in two groups, the hub left out."""

    within_mean: float
    within_largest: float
    between_mean: float
    between_smallest: float
    hub: Hub | None

    @property
    def apart(self) -> bool:
        """Whether every distance inside a group is below every distance between groups."""
        return self.within_largest < self.between_smallest


@dataclass(frozen=True)
class Trained:
    """One seed: names of users and items, and their places on the Poincaré disk."""

    distances: Distances
    names: list[str]
    places: FloatArray


Found = Mapping[tuple[str, str], Sequence[Trained]]
"""(graph, reading) -> seeds."""


def links_of(graph: str) -> list[tuple[str, str]]:
    """Who bought what."""
    groups, hub = GRAPHS[graph]
    pairs = [
        (user, str(2 * group + item))
        for group in range(groups)
        for user in USERS[2 * group : 2 * group + 2]
        for item in (1, 2)
    ]
    return pairs + [(user, HUB) for user in USERS[: 2 * groups] if hub]


def learn(graph: str, reading: str, seed: int, epochs: int) -> Trained:
    """Train once and measure."""
    from lorentzrec.learning.trainer import train
    from lorentzrec.model.config import TrainingConfig

    users, items = zip(*links_of(graph), strict=True)
    config = TrainingConfig(**SETTINGS | READINGS[reading] | {"seed": seed, "epochs": epochs})
    model = train(Interactions.from_pairs(users, items), config, progress=False)
    assert model.user_points is not None
    assert model.users is not None
    names = [str(name) for name in (*model.users.ids(np.arange(len(model.users))), *model.item_ids)]
    points = lift(np.concatenate([model.user_points, model.item_points]).astype(np.float64)[:, 1:])
    order = np.argsort(names)  # items 1, 2, ... then users A, B, ...
    names, points = [names[row] for row in order], points[order]
    return Trained(measure(names, points), names, to_poincare(points))


def group_of(name: str) -> int:
    """0, 1, 2; -1 for item 7, which belongs to all."""
    return -1 if name == HUB else USERS.index(name) // 2 if name in USERS else (int(name) - 1) // 2


def measure(names: Sequence[str], points: FloatArray) -> Distances:
    """Distances inside and between groups, and of item 7."""
    groups = np.array([group_of(name) for name in names])
    first, second = np.triu_indices(len(names), k=1)
    distances = distance(points[first], points[second])
    grouped = (groups[first] >= 0) & (groups[second] >= 0)
    together = groups[first] == groups[second]
    within, between = distances[grouped & together], distances[grouped & ~together]
    hub = None
    if HUB in names:
        row, radii = names.index(HUB), distance(origin(2), points)
        to_hub = distance(points[[name in USERS for name in names]], points[row])
        hub = Hub(float(radii[row]), float(np.delete(radii, row).min()), float(to_hub.min()), float(to_hub.max()))
    return Distances(float(within.mean()), float(within.max()), float(between.mean()), float(between.min()), hub)


def learn_seeds(graph: str, reading: str, seeds: int, epochs: int) -> list[Trained]:
    return [learn(graph, reading, seed, epochs) for seed in range(seeds)]


def run(context: Context) -> Outcome:
    seeds, epochs = (3, 30) if context.quick else (SEEDS, SETTINGS["epochs"])
    cells = [(graph, reading) for reading in READINGS for graph in GRAPHS]
    results = context.run(
        list[Trained],
        (
            Part(
                f"{graph}, 0.02 as {reading}",
                SETTINGS | READINGS[reading] | {"links": links_of(graph), "seeds": seeds, "epochs": epochs},
                partial(learn_seeds, graph, reading, seeds, epochs),
            )
            for graph, reading in cells
        ),
    )
    found = dict(zip(cells, results, strict=True))
    stems = {"rate decay": "simulations", "penalty": "simulations-penalty"}
    explained = {
        "rate decay": "0.02 read as a decay of the learning rate",
        "penalty": "0.02 read as a penalty on the distance to the origin",
    }
    return Outcome(
        tables=(_table(found),),
        verdicts=tuple(verdict for reading in READINGS for verdict in _verdicts(found, reading)),
        figures={
            stem: Figure(
                "Above: who bought what; users are circles with letters, items squares with numbers. Below: the "
                f"points learned in two dimensions, on the Poincaré disk, seed 0; {explained[reading]}.",
                partial(_draw, found, reading),
            )
            for reading, stem in stems.items()
        },
        notes=(
            'the paper gives neither what decays at its "decay rate of 0.02" nor the number of epochs: both '
            f"readings are run, for {epochs} epochs",
        ),
        settings=SETTINGS | {"readings": READINGS, "seeds": seeds, "epochs": epochs},
    )


def _draw(found: Found, reading: str, path: Path) -> None:
    from lorentzrec_paper.figures import SmallEmbedding, plot_embeddings

    shown = []
    for graph in GRAPHS:
        result = found[graph, reading][0]
        places = dict(zip(result.names, result.places, strict=True))
        users = [name for name in result.names if name in USERS]
        items = [name for name in result.names if name not in USERS]
        links = [(users.index(user), items.index(item)) for user, item in links_of(graph)]
        user_points, item_points = (np.stack([places[name] for name in names]) for names in (users, items))
        shown.append(SmallEmbedding(graph, links, users, items, user_points, item_points))
    plot_embeddings(shown, path)


def _table(found: Found) -> Table:
    columns = (
        *Column.keys("graph", "0.02 is a"),
        *Column.ours({"mean within groups": ".2f", "mean between": ".2f"}),
        *Column.ours({"largest within": ".2f", "smallest between": ".2f"}),
        *Column.ours({"seeds apart": "", "item 7 innermost": "", "its radius": ".2f"}),
    )
    rows = []
    for (graph, reading), seeds in found.items():
        every = [seed.distances for seed in seeds]
        hubs = _hubs(seeds)
        rows.append(
            (
                graph,
                reading,
                float(np.mean([one.within_mean for one in every])),
                float(np.mean([one.between_mean for one in every])),
                max(one.within_largest for one in every),
                min(one.between_smallest for one in every),
                f"{sum(one.apart for one in every)} of {len(every)}",
                f"{sum(hub.radius < hub.other_radius for hub in hubs)} of {len(hubs)}" if hubs else None,
                float(np.mean([hub.radius for hub in hubs])) if hubs else None,
            )
        )
    return Table("Distances over all seeds", columns, tuple(rows))


def _hubs(seeds: Sequence[Trained]) -> list[Hub]:
    return [seed.distances.hub for seed in seeds if seed.distances.hub]


def _verdicts(found: Found, reading: str) -> list[Verdict]:
    read = f" [0.02 as {reading}]"
    verdicts = []
    for graph in GRAPHS:
        every = [seed.distances for seed in found[graph, reading]]
        apart = [one.apart for one in every]
        ratio = np.mean([one.between_mean for one in every]) / np.mean([one.within_mean for one in every])
        verdicts.append(
            Verdict(
                f"{graph}: the points of a group are close together and far from other groups{read}",
                "section 6.1",
                f"between groups {ratio:.1f} times the distance within, on average; in {sum(apart)} of {len(apart)} "
                "seeds every distance within is below every one between",
                status_of(apart, 0.5),
                "" if all(apart) else f"in {apart.count(False)} seeds a group is wider than the gap to the next",
            )
        )
    hubs = [hub for graph in GRAPHS for hub in _hubs(found[graph, reading])]
    inner = [hub.radius < hub.other_radius for hub in hubs]
    radius, other_radius = np.mean([(hub.radius, hub.other_radius) for hub in hubs], axis=0)
    spreads = [hub.farthest / hub.nearest for hub in hubs]
    even = [spread < 1.5 for spread in spreads]
    return [
        *verdicts,
        Verdict(
            f"item 7 is embedded near the origin{read}",
            "section 6.1",
            f"innermost of all points in {sum(inner)} of {len(inner)} seeds, {radius:.2f} from the origin on average, "
            f"and the next {other_radius:.2f}",
            status_of(inner, 0.5),
        ),
        Verdict(
            f"all users are equally close to item 7{read}",
            "section 6.1",
            f"the farthest user is {np.median(spreads):.2f} times as far as the nearest (median seed), and less than "
            f"1.5 times in {sum(even)} of {len(even)}",
            status_of(even, 0.5),
        ),
    ]


EXPERIMENT = Experiment("simulations", "Three simulations in two dimensions", run)
