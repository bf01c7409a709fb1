"""Training that starts from a model: its config, its points, and the state of its optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers, mask_of
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.learning.kernels.structures import Table
from lorentzrec.learning.schedule import learning_rate
from lorentzrec.learning.tables import points_of
from lorentzrec.model.catalogue import place_users, with_attributes
from lorentzrec.model.composing import decompose
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.model.placement import midpoints, place_from_histories, surroundings_of
from lorentzrec.model.ranking import Ranker

EPOCHS = 2
"""Of a run that starts from a model, unless its config has a number."""
_FIXED = ("geometry", "model", "dimension", "targets")
"""Hyper-parameters that decide what points mean."""
_OF_THE_RUN = ("epochs", "learning_rate", "learning_rate_decay", "blocks_per_step", "threads", "deterministic")
"""Hyper-parameters that a run does not take over from the model it starts from."""


def continued_config(
    start: Model, config: TrainingConfig | None = None, *, epochs: int = EPOCHS, rate_at: float = 1.0
) -> TrainingConfig:
    """The config of a run from `start`: its own, with what `config` sets, and with few epochs at the rate that its
    training had after a share of its epochs: by default the last rate."""
    own = start.config
    base = own.to_dict() | dict.fromkeys(_OF_THE_RUN) | {"warmup_epochs": 0, "validation": 0.0}
    given = {} if config is None else {name: value for name, value in config.to_dict().items() if value is not None}
    for name in _FIXED:
        if given.get(name, base[name]) != base[name]:
            raise ConfigError(
                f"the start model has {name}={base[name]}, and the config {name}={given[name]}: "
                "leave it out, or train without a start model"
            )
    rate = learning_rate(own, max(int(own.epochs * rate_at), 1))
    defaults = {"epochs": epochs, "learning_rate": rate, "learning_rate_decay": 0.0}
    return TrainingConfig(**base | defaults | given)


def with_items_of(start: Model, data: Interactions) -> Interactions:
    """The data with the items of a model first, and then their own."""
    return reindex(data, data.users, start.items.union(data.items))


def start_from(
    model: Model,
    data: Interactions,
    config: ResolvedConfig,
    histories: Table,
    items: Table,
    attributes: ItemAttributes | None = None,
) -> Iterator[Note]:
    """Copy the rows of a model into the tables of a run on `data`, place what is new to it, and yield notes.

    The items of `data` that the model has come first. New items that cannot be placed keep their initial points, and
    new customers of a symmetric model are placed at the midpoint of their items.
    attributes: those that the run composes points of, which include those of the model. New attributes are placed at
    the midpoint of their items. Items get the own vectors with which they are where they were.
    """
    known = model.items.rows(data.items.series)
    rows = known[known != UNKNOWN]
    if not len(rows) or not data.item_counts[: len(rows)].any():
        raise InputError(
            f"the data share no item with the start model ({model.items!r} there, {data.items!r} here): "
            "check the ids, or train without a start model"
        )
    count = len(rows)
    separate = model.history_points is not model.item_points
    users = None if model.users is None or model.user_points is None else model.users.rows(data.users.series)
    ranker = Ranker(
        model.item_points[rows],
        model.history_points[rows] if separate else None,
        geometry=config.geometry,
        score=config.score,
        recency=config.recency,
    )
    points = {"items": ranker.item_points} | ({"histories": ranker.history_points} if separate else {})
    places = np.arange(count)
    if count < len(known):
        surroundings = surroundings_of(model.ranker, model.item_counts, model.user_points)
        placed = place_from_histories(
            ranker,
            data.offsets,
            data.item_rows,
            data.weights,
            len(known) - count,
            surroundings,
            ordered=config.history == "causal",
            user_points=None if users is None else model.user_points[users],  # type: ignore[index]
            own=None if users is None else users != UNKNOWN,
        )
        if attributes is not None and model.attributes is not None:
            described = attributes.in_terms_of(model.attributes.of_items)
            described = described.align(Vocabulary(data.items.series[count:], name="item"))
            events = data.item_counts[count:]
            placed = with_attributes(placed, events, described, model.attributes, surroundings.centre, config)
        new_points = {"items": placed.item_points, "histories": placed.history_points}
        new = np.flatnonzero(placed.placed)
        places = np.append(places, count + new)
        points = {side: np.concatenate([of_known, new_points[side][new]]) for side, of_known in points.items()}
        yield Note(NoteKind.ITEMS_PLACED, {"items": len(new), "others": len(known) - count - len(new)})
    tables = {"items": items, "histories": histories}
    sides: dict[str, tuple[Table, Any, NDArray[np.int64]]] = {}
    for side, values in points.items():
        sides[side] = tables[side], slice(count), rows
        if attributes is None:
            _write(tables[side], places, values, config)
            continue
        earlier = None if model.attributes is None else model.attributes.of_side(side)
        _write_composed(tables[side], places, values, attributes, earlier, config)
        if model.attributes is not None:
            of_values = np.arange(len(model.attributes.of_items.values))
            sides[f"{side}_attributes"] = tables[side], len(known) + of_values, of_values
    if users is not None:
        assert model.user_points is not None
        old = users != UNKNOWN
        _write(histories, np.flatnonzero(old), model.user_points[users[old]], config)
        item_points = items.points[:, 0 if config.hyperbolic else 1 : config.dimension + 1]
        new_users = place_users(item_points, data, ~old, hyperbolic=config.hyperbolic)
        _write(histories, np.flatnonzero(~old), new_users, config)
        sides["histories"] = (histories, np.flatnonzero(old), users[old])
    yield from _copy_state(model, config, sides, composed=attributes is not None)
    newest = np.inf if model.newest_time is None else model.newest_time
    old_events = 0 if data.times is None or newest == np.inf else int((data.times <= newest).sum())
    if old_events:
        yield Note(NoteKind.NOT_NEWER, {"events": old_events})


def _copy_state(
    model: Model, config: ResolvedConfig, sides: dict[str, tuple[Table, Any, NDArray[np.int64]]], *, composed: bool
) -> Iterator[Note]:
    """Set the sums of the optimiser, and Adam's counts of steps, to those of the model; its momentum starts at zero.

    composed: whether the run moves vectors that points are composed of; sums of points do not fit these.
    """
    if config.optimiser == "rsgd":
        return
    other = config.optimiser != model.config.optimiser or composed != (model.attributes is not None)
    if model.optimiser_state is None or other:
        yield Note(NoteKind.FRESH_OPTIMISER)
        return
    for side, (table, places, rows) in sides.items():
        for name in ("squared", "steps"):
            values = model.optimiser_state.get(f"{side}_{name}")
            if values is not None:
                getattr(table, name)[places] = values[rows]


def _write_composed(
    table: Table,
    places: Integers,
    points: NDArray[np.float32],
    attributes: ItemAttributes,
    earlier: NDArray[np.float32] | None,
    config: ResolvedConfig,
) -> None:
    """Set the vectors of attributes, and those of the items at `places` such that they have these points.

    earlier: the vectors of the first attributes.
    """
    everything, count = points_of(table, config), len(attributes)
    everything[places] = points
    own, vectors = everything[:count], everything[count:]
    old = 0 if earlier is None else len(earlier)
    of_new = mask_of(places, count)[attributes.owners] & (attributes.rows >= old)
    found, any_item = midpoints(
        own[attributes.owners[of_new]],
        attributes.rows[of_new].astype(np.int64),
        len(vectors),
        hyperbolic=config.hyperbolic,
    )
    vectors[any_item] = found[any_item]
    if earlier is not None:
        vectors[:old] = earlier
    own[places] = decompose(own, attributes, vectors, config)[places]
    _write(table, slice(None), everything, config)


def _write(table: Table, rows: Any, points: NDArray[np.float32], config: ResolvedConfig) -> None:
    """Set the points of some rows from their public form."""
    table.points[rows, 1 : config.dimension + 1] = points[:, 1:] if config.hyperbolic else points
    if config.hyperbolic:
        space = points[:, 1:]
        table.points[rows, 0] = np.sqrt(1 + np.einsum("ij,ij->i", space, space))


def state_of(
    config: ResolvedConfig, tables: dict[str, Table], composed_items: int | None = None
) -> dict[str, NDArray[Any]] | None:
    """What `start_from` reads of an optimiser; None if there is nothing, or the engine did not report it.

    composed_items: how many items the tables have, if they hold vectors of attributes as well.
    """
    names = {"rsgd": (), "adagrad": ("squared",), "adam": ("squared", "steps")}[config.optimiser]
    state = {}
    for (side, table), name in product(tables.items(), names):
        values = getattr(table, name)
        state[f"{side}_{name}"] = values[:composed_items].copy()
        if composed_items is not None:
            state[f"{side}_attributes_{name}"] = values[composed_items:].copy()
    return state if any(values.any() for values in state.values()) else None
