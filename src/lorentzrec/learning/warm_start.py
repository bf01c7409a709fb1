"""Training that starts from a model: its config, its points, and the state of its optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers, make_mask
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.data.vocabulary import UNKNOWN, Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.learning.kernels.structures import Table
from lorentzrec.learning.tables import copy_points
from lorentzrec.model.catalogue import place_users
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.points.attribute_points import decompose
from lorentzrec.points.placement import CustomerEvents, find_surroundings, midpoints, place_new_items

EPOCHS = 2
"""Of a run that starts from a model, unless its config has a number."""
_FIXED = ("geometry", "curvature", "model", "dimension", "targets", "masses")
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
    if given.get("masses") == "auto":
        del given["masses"]
    for name in _FIXED:
        if given.get(name, base[name]) != base[name]:
            raise ConfigError(
                f"the start model has {name}={base[name]}, and the config {name}={given[name]}: "
                "leave it out, or train without a start model"
            )
    rate = own.rate_in(max(int(own.epochs * rate_at), 1))
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
    """Copy the points of a model into the tables of a run on `data`, place what is new to the model, and yield notes.

    New items that cannot be placed keep their initial points. New customers of a symmetric model are placed at the
    midpoint of their items.

    data: the items that the model has come first, see `with_items_of`.
    attributes: those that the run composes points of, which include those of the model. New attributes are placed at
        the midpoint of their items. Items get the own vectors of which their points are composed.
    """
    known = model.items.rows(data.items.series)
    kept = known[known != UNKNOWN]
    count = len(kept)
    if not data.item_counts[:count].any():
        raise InputError(
            f"the data share no item with the start model ({model.items!r} there, {data.items!r} here): "
            "check the ids, or train without a start model"
        )
    known_points = replace(model.points.take(kept), space=config.space)
    users = None if model.users is None or model.user_points is None else model.users.rows(data.users.series)
    points = {"items": known_points.item_points}
    if config.massive and known_points.masses is not None:
        items.masses[:count] = known_points.masses
    if known_points.separate:
        points["histories"] = known_points.history_points
    rows = np.arange(count)
    if len(data.items) > count:
        described = None
        if attributes is not None and model.item_attributes is not None:
            described = attributes.encode_with(model.item_attributes)
            described = described.align(Vocabulary(data.items.series[count:], name="item"))
        found, placed = place_new_items(
            known_points,
            len(data.items) - count,
            CustomerEvents(
                data.offsets,
                data.item_rows,
                data.weights,
                ordered=config.history == "causal",
                user_points=None if users is None else model.user_points[users],  # type: ignore[index]
                with_point=None if users is None else users != UNKNOWN,
            ),
            find_surroundings(model.points, model.user_points),
            attributes=described,
        )
        new_points = {"items": found.item_points, "histories": found.history_points}
        rows = np.append(rows, count + np.flatnonzero(placed))
        if config.massive and found.masses is not None:
            items.masses[count : len(data.items)] = found.masses
        points = {side: np.concatenate([of_known, new_points[side][placed]]) for side, of_known in points.items()}
        yield Note(NoteKind.ITEMS_PLACED, {"items": int(placed.sum()), "others": int((~placed).sum())})
    tables = {"items": items, "histories": histories}
    sides: dict[str, tuple[Table, Any, NDArray[np.int64]]] = {}
    for side, values in points.items():
        sides[side] = tables[side], slice(count), kept
        if attributes is None:
            _write(tables[side], rows, values, config)
            continue
        earlier = None if model.attributes is None else model.attributes.of_side(side)
        _write_composed(tables[side], rows, values, attributes, earlier, config)
        if model.attributes is not None:
            of_values = np.arange(len(model.attributes.values))
            sides[f"{side}_attributes"] = tables[side], len(data.items) + of_values, of_values
    if users is not None:
        assert model.user_points is not None
        old = users != UNKNOWN
        _write(histories, np.flatnonzero(old), model.user_points[users[old]], config)
        item_points = items.points[:, 0 if config.hyperbolic else 1 : config.dimension + 1]
        new_users = place_users(item_points, data, ~old, config.space)
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
    for side, (table, table_rows, rows) in sides.items():
        for name in ("squared", "steps"):
            values = model.optimiser_state.get(f"{side}_{name}")
            if values is not None:
                getattr(table, name)[table_rows] = values[rows]
        sums = model.optimiser_state.get(f"{side}_mass_squared")
        if config.massive and sums is not None:
            table.mass_squared[table_rows] = sums[rows]


def _write_composed(
    table: Table,
    rows: Integers,
    points: NDArray[np.float32],
    attributes: ItemAttributes,
    earlier: NDArray[np.float32] | None,
    config: ResolvedConfig,
) -> None:
    """Set the vectors of attributes, and those of the items in `rows` such that these are their points.

    earlier: the vectors of the first attributes.
    """
    everything, count = copy_points(table, config), len(attributes)
    everything[rows] = points
    own, vectors = everything[:count], everything[count:]
    old = 0 if earlier is None else len(earlier)
    of_new = make_mask(rows, count)[attributes.owners] & (attributes.rows >= old)
    new_rows = attributes.rows[of_new].astype(np.int64)
    found, any_item = midpoints(own[attributes.owners[of_new]], new_rows, len(vectors), config.space)
    vectors[any_item] = found[any_item]
    if earlier is not None:
        vectors[:old] = earlier
    weight, hyperbolic = config.attribute_weight, config.hyperbolic
    own[rows] = decompose(own, attributes, vectors, weight=weight, hyperbolic=hyperbolic)[rows]
    _write(table, slice(None), everything, config)


def _write(table: Table, rows: Any, points: NDArray[np.float32], config: ResolvedConfig) -> None:
    """Set the points of some rows from their public form."""
    table.points[rows, 1 : config.dimension + 1] = points[:, 1:] if config.hyperbolic else points
    if config.hyperbolic:
        space = points[:, 1:]
        table.points[rows, 0] = np.sqrt(1 + np.einsum("ij,ij->i", space, space))


def copy_optimiser_state(
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
    if config.massive and config.optimiser == "adagrad":
        state["items_mass_squared"] = tables["items"].mass_squared[:composed_items].copy()
    return state if any(values.any() for values in state.values()) else None
