"""The paper's three simulations: small graphs in two dimensions, checked in numbers and over many seeds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.data.interactions import Interactions
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import to_poincare
from lorentzrec.geometry.hyperboloid import distance, lift, origin
from lorentzrec.tuning.parts import Part
from lorentzrec_paper.experiment import Answer, Column, Context, Experiment, Outcome, Table, Verdict

USERS = "ABCDEF"
HUB = "7"
"""The item that everybody bought."""
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
"""The paper's, and for what it does not say: inner products, which it favours, and 100 epochs."""
SEEDS = 20


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


def learn(graph: str, reading: str, seed: int, epochs: int) -> dict[str, Any]:
    """Train once, and measure distances inside and between groups, and where item 7 is."""
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
    return measure(names, points) | {"names": names, "places": to_poincare(points).tolist()}


def group_of(name: str) -> int:
    """0, 1, 2; -1 for item 7, which belongs to all."""
    return -1 if name == HUB else USERS.index(name) // 2 if name in USERS else (int(name) - 1) // 2


def measure(names: list[str], points: FloatArray) -> dict[str, Any]:
    """Distances of all pairs in one group and in two; of item 7, its place by distance from the origin."""
    groups = np.array([group_of(name) for name in names])
    first, second = np.triu_indices(len(names), k=1)
    distances = distance(points[first], points[second])
    grouped = (groups[first] >= 0) & (groups[second] >= 0)
    together = groups[first] == groups[second]
    within, between = distances[grouped & together], distances[grouped & ~together]
    result = {
        "within_mean": float(within.mean()),
        "within_largest": float(within.max()),
        "between_mean": float(between.mean()),
        "between_smallest": float(between.min()),
    }
    if HUB in names:
        radii = distance(origin(2), points)
        to_hub = distance(points[[name in USERS for name in names]], points[names.index(HUB)])
        result |= {
            "hub_radius": float(radii[names.index(HUB)]),
            "other_radius": float(np.delete(radii, names.index(HUB)).min()),
            "hub_nearest": float(to_hub.min()),
            "hub_farthest": float(to_hub.max()),
        }
    return result


def learn_seeds(graph: str, reading: str, seeds: int, epochs: int) -> list[dict[str, Any]]:
    return [learn(graph, reading, seed, epochs) for seed in range(seeds)]


def run(context: Context) -> Outcome:
    seeds, epochs = (3, 30) if context.quick else (SEEDS, SETTINGS["epochs"])
    cells = [(graph, reading) for reading in READINGS for graph in GRAPHS]
    results = context.run(
        Part(
            f"{graph}, 0.02 as {reading}",
            SETTINGS | READINGS[reading] | {"links": links_of(graph), "seeds": seeds, "epochs": epochs},
            partial(learn_seeds, graph, reading, seeds, epochs),
        )
        for graph, reading in cells
    )
    found = dict(zip(cells, results, strict=True))
    stems = {"rate decay": "simulations", "penalty": "simulations-penalty"}
    explained = {
        "rate decay": "0.02 read as a decay of the learning rate",
        "penalty": "0.02 read as a penalty on the distance to the origin",
    }
    return Outcome(
        tables=(_table(found),),
        verdicts=tuple(verdict for reading in READINGS for verdict in _verdicts(found, reading, seeds)),
        figures={stem: partial(_draw, found, reading) for reading, stem in stems.items()},
        captions={
            stem: "Above: who bought what; users are circles with letters, items squares with numbers. Below: the "
            f"points learned in two dimensions, on the Poincaré disk, seed 0; {explained[reading]}."
            for reading, stem in stems.items()
        },
        notes=(
            'the paper does not say what decays at its "decay rate of 0.02", nor for how many epochs it trained: both '
            f"readings are run, for {epochs} epochs",
        ),
        settings=SETTINGS | {"readings": READINGS, "seeds": seeds, "epochs": epochs},
    )


def _draw(found: dict[tuple[str, str], list[dict[str, Any]]], reading: str, path: Path) -> None:
    from lorentzrec_paper.figures.small_graphs import SmallEmbedding, plot_embeddings

    shown = []
    for graph in GRAPHS:
        result = found[graph, reading][0]
        places = dict(zip(result["names"], np.asarray(result["places"]), strict=True))
        users = [name for name in result["names"] if name in USERS]
        items = [name for name in result["names"] if name not in USERS]
        links = [(users.index(user), items.index(item)) for user, item in links_of(graph)]
        user_points, item_points = (np.stack([places[name] for name in names]) for names in (users, items))
        shown.append(SmallEmbedding(graph, links, users, items, user_points, item_points))
    plot_embeddings(shown, path)


def _table(found: dict[tuple[str, str], list[dict[str, Any]]]) -> Table:
    columns = (
        Column("graph", "key"),
        Column("0.02 is a", "key"),
        *Column.ours({"mean within groups": ".2f", "mean between": ".2f"}),
        *Column.ours({"largest within": ".2f", "smallest between": ".2f"}),
        *Column.ours({"seeds apart": "", "item 7 innermost": "", "its radius": ".2f"}),
    )
    rows = []
    for (graph, reading), results in found.items():
        hub = "hub_radius" in results[0]
        rows.append(
            (
                graph,
                reading,
                float(np.mean([one["within_mean"] for one in results])),
                float(np.mean([one["between_mean"] for one in results])),
                max(one["within_largest"] for one in results),
                min(one["between_smallest"] for one in results),
                f"{_apart(results)} of {len(results)}",
                f"{_innermost(results)} of {len(results)}" if hub else None,
                float(np.mean([one["hub_radius"] for one in results])) if hub else None,
            )
        )
    return Table("Distances over all seeds", columns, tuple(rows))


def _apart(results: list[dict[str, Any]]) -> int:
    """Seeds in which every distance inside a group is below every distance between groups."""
    return sum(one["within_largest"] < one["between_smallest"] for one in results)


def _innermost(results: list[dict[str, Any]]) -> int:
    return sum(one["hub_radius"] < one["other_radius"] for one in results)


def _answer(good: int, all_of: int) -> Answer:
    return "holds" if good == all_of else "partly" if good > all_of / 2 else "fails"


def _verdicts(found: dict[tuple[str, str], list[dict[str, Any]]], reading: str, seeds: int) -> list[Verdict]:
    read = f" [0.02 as {reading}]"
    verdicts = []
    for graph in GRAPHS:
        results = found[graph, reading]
        apart = _apart(results)
        ratio = np.mean([one["between_mean"] for one in results]) / np.mean([one["within_mean"] for one in results])
        verdicts.append(
            Verdict(
                f"{graph}: groups lie close together and far from one another{read}",
                "section 6.1",
                f"between groups {ratio:.1f} times the distance within, on average; in {apart} of {seeds} seeds every "
                "distance within is below every one between",
                _answer(apart, seeds),
                "" if apart == seeds else f"in {seeds - apart} seeds a group is torn wider than the gap to the next",
            )
        )
    inner = _innermost(results)
    radii = [np.mean([one[name] for one in results]) for name in ("hub_radius", "other_radius")]
    spread = np.median([one["hub_farthest"] / one["hub_nearest"] for one in results])
    verdicts.append(
        Verdict(
            f"item 7 is embedded near the origin{read}",
            "section 6.1",
            f"innermost of all points in {inner} of {seeds} seeds, {radii[0]:.2f} from the origin on average, and the "
            f"next {radii[1]:.2f}",
            _answer(inner, seeds),
        )
    )
    even = sum(one["hub_farthest"] < 1.5 * one["hub_nearest"] for one in results)
    verdicts.append(
        Verdict(
            f"all users are equally close to item 7{read}",
            "section 6.1",
            f"the farthest user is {spread:.2f} times as far as the nearest (median seed), and less than 1.5 times in "
            f"{even} of {seeds}",
            _answer(even, seeds),
        )
    )
    return verdicts


EXPERIMENT = Experiment("simulations", "Three simulations in two dimensions", run)
