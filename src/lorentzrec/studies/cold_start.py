"""How good recommendations of items without events are, by their attributes; and what attributes cost other items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.evaluation.baselines import Chance
from lorentzrec.evaluation.cold import AmongItems, AttributeNeighbours, CategoryPopularity, ColdTask, hold_out_items
from lorentzrec.evaluation.protocol import Recommender, evaluate
from lorentzrec.evaluation.report import Report
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.points.placement import midpoints
from lorentzrec.points.points import Points


@dataclass(frozen=True)
class ColdResult:
    """Reports of one system; None where it does not apply."""

    system: str
    cold: Report | None
    """Cold items among cold items."""
    all: Report | None
    """Cold items among all items."""
    warm: Report | None
    """Warm items among warm items."""

    def to_dict(self) -> dict[str, Any]:
        reports = {"cold": self.cold, "all": self.all, "warm": self.warm}
        return {"system": self.system} | {name: one and one.to_dict() for name, one in reports.items()}


def evaluate_cold(
    data: Interactions,
    test: Interactions,
    attributes: ItemAttributes,
    config: TrainingConfig | None = None,
    *,
    histories: Interactions | None = None,
    share: float = 0.2,
    seed: int = 0,
    k: int = 10,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[ColdResult]:
    """Hold out all events of a share of the items, train with and without attributes, and rank what came next.

    data: the events to train on, before those of `test`.
    histories: the events before `test` of its customers, if these are held out of training; None: `data`.
    seed: chooses the cold items.
    """
    task = hold_out_items(data, test, share, seed, histories=histories)
    known = attributes.align(task.learned.items).keep_values_of(task.learned.item_counts > 0)
    say(f"training on {task.train!r}, with attributes")
    informed = train(task.train, config, attributes=known.align(task.train.items), progress=False)
    say("training without attributes")
    plain = train(task.train, config, progress=False)
    grown = informed.add_items(attributes=known.align(task.cold_items))
    systems: dict[str, Recommender] = {
        "model": grown,
        "model, points alone": grown.with_points(memory=None),
        "category midpoint": _at_category_midpoints(plain, task, known),
        "attribute neighbours": AttributeNeighbours(task.learned, known),
        "category popularity": CategoryPopularity(task.learned, known),
        "random": Chance(task.learned),
    }
    warm = {"model": informed, "without attributes": plain}
    options: dict[str, Any] = {"k": k, "histories": task.histories}
    for name in [*systems, "without attributes"]:
        system = systems.get(name)
        yield ColdResult(
            name,
            None if system is None else evaluate(AmongItems(system, task.cold_items), task.cold, **options),
            None if system is None else evaluate(system, task.cold, **options),
            evaluate(warm[name], task.warm, **options) if name in warm else None,
        )


def _at_category_midpoints(model: Model, task: ColdTask, attributes: ItemAttributes) -> Model:
    """The model with each cold item at the midpoint of the items of its category, or of all items if it has none."""
    warm, categories = len(model.items), attributes.categories
    indices = np.where(categories == UNKNOWN, len(attributes.values), categories)
    space = model.points.space

    def grow(points: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = np.concatenate([indices[:warm], np.full(warm, len(attributes.values))])
        of_categories, _ = midpoints(np.concatenate([points, points]), rows, rows.max() + 1, space)
        return np.concatenate([points, of_categories[indices[warm:]]])

    item_points = grow(model.item_points)
    history_points = grow(model.history_points) if model.points.separate else item_points
    masses = model.masses
    if masses is not None:  # that of the median item, as for new items of which nothing else is known
        masses = np.append(masses, np.full(len(item_points) - warm, np.median(masses), np.float32))
    return replace(
        model,
        items=task.learned.items,
        points=Points(item_points, history_points, task.learned.item_counts, space, masses=masses),
        users=None,
        histories=None,
        optimiser_state=None,
    )
