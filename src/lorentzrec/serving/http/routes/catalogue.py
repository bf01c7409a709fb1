"""The catalogue: the version in use, its items and its map, and which items are live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from litestar import Request, Response, delete, get, patch, post, put
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody

from lorentzrec.errors import InputError
from lorentzrec.serving.http.messages import (
    ArmInformation,
    CheckInformation,
    DayInformation,
    IndexInformation,
    ItemResponse,
    ItemsResponse,
    LiveItemsChange,
    LiveItemsChanged,
    LiveItemsRequest,
    LiveItemsResponse,
    LookupRequest,
    LookupResponse,
    ModelInformation,
    NewItemRemoved,
    NewItemRequest,
    NewItemResponse,
    NewItemsQuery,
    NewItemsRemoved,
    NoQuery,
    RowsQuery,
    RowsRequest,
    RowsResponse,
    SearchQuery,
    TrendInformation,
    VersionInformation,
)
from lorentzrec.serving.http.problems import READING, READING_ITEM, WITH_BODY, ServiceProblem, describe_problems
from lorentzrec.serving.http.requests import ItemInPath, StrictRequest, TheWorker, Worker, decode_id
from lorentzrec.serving.stores.activations import MAIN
from lorentzrec.serving.stores.catalogue import SPARE_LIVE_IDS, LiveCounts, LiveItems
from lorentzrec.serving.stores.live_doubts import MANY, KnownItems, doubt_change, doubt_list
from lorentzrec.serving.stores.new_items import NewItem, Origin
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.live_trend import LiveTrend
from lorentzrec.serving.worker.new_items import can_be_placed
from lorentzrec.serving.worker.recommender import UnknownItem

NOT_MODIFIED = ResponseSpec(None, generate_examples=False, description="The version is still the one of If-None-Match.")
LIVE_SECONDS = 8.0
"""A store may need this long to send a million rows."""
REMOVAL_SECONDS = 8.0
"""A part has thousands of items."""
LIST_TOO_LONG = (
    "the list is longer than this service takes, and cannot be sent in parts: run `lorentzrec live STORE --set FILE`, "
    "or make every item live with null and remove the others with PATCH and `force`, which can be sent in parts"
)


@get("/items", sync_to_thread=True, responses=READING)
def search_items(request: StrictRequest[SearchQuery], worker: TheWorker) -> ItemsResponse:
    """Items by the words of their titles, popular ones first; without a query, the most popular ones."""
    recommender = worker.versions.recommender
    return ItemsResponse(recommender.search(request.query.query, request.query.limit), recommender.version.name)


@get("/items/{item:str}", sync_to_thread=True, responses=READING_ITEM)
def get_item(item: ItemInPath, worker: TheWorker) -> ItemResponse:
    """The details of an item."""
    recommender, id = worker.versions.recommender, decode_id(item)
    (found,) = recommender.find_items([id])
    if found is None:
        raise UnknownItem(id, recommender.version.name)
    return ItemResponse(**asdict(found), model=recommender.version.name)


@post("/items/lookup", status_code=200, sync_to_thread=True, responses=WITH_BODY)
def look_up_items(data: JSONBody[LookupRequest], worker: TheWorker) -> LookupResponse:
    """The details of many items at once, and which ids are unknown."""
    recommender, ids = worker.versions.recommender, [*dict.fromkeys(str(id) for id in data.ids)]
    found = recommender.find_items(ids)
    unknown = [id for id, item in zip(ids, found, strict=True) if item is None]
    return LookupResponse([item for item in found if item is not None], unknown, recommender.version.name)


@put("/items/{item:str}", sync_to_thread=True, opt={"writes": True}, responses=WITH_BODY | describe_problems(409))
def describe_item(item: ItemInPath, data: JSONBody[NewItemRequest], worker: TheWorker) -> NewItemResponse:
    """Create an item that the version does not contain, or replace what was sent about it.

    It is recommended, and marked as new, until a version that contains it is published.
    """
    version, id, new_items = worker.versions.recommender.version, decode_id(item), worker.versions.new_items
    if Origin.PUT not in new_items.origins:
        raise ServiceProblem(
            "this service takes no new items (--new-items-from none): publish a model that contains the item",
            409,
            "new-items-off",
        )
    like = tuple(str(other) for other in data.like)
    row, *rows = version.items.rows([id, *like]).tolist()
    if row >= 0:
        raise ServiceProblem(
            f"the item {id!r} is in version {version.name}, and its details with it: publish to change them",
            409,
            "known-item",
        )
    attributes = {name: _to_text(value) for name, value in data.attributes.items()}
    known = version.points.attributes
    if attributes and known is None:
        raise InputError(
            f"the model of version {version.name} was trained without attributes: send `like`, or publish a model that "
            "was trained with them"
        )
    unknown = 0 if known is None else known.find_rows(attributes)[1]
    new = NewItem(id, Origin.PUT, data.title, data.category, data.price, data.image, like, attributes)
    if not worker.store.call(lambda store: store.describe_item(new, limit=new_items.limit), writes=True):
        worker.metrics.new_items_left_out.inc()
        raise ServiceProblem(new_items.describe_full(Origin.PUT), 409, "too-many-new-items")
    worker.versions.poll_now()
    placed = can_be_placed(version, new)
    return NewItemResponse(id, placed, sum(other < 0 for other in rows), unknown, version.name)


def _to_text(value: str | float | Sequence[str]) -> str:
    """As in a table: 3 for 3.0."""
    if isinstance(value, float | int):
        return str(value).removesuffix(".0")
    return value if isinstance(value, str) else "|".join(value)


@delete(
    "/items/{item:str}", status_code=200, sync_to_thread=True, opt={"writes": True}, responses=READING_ITEM | WITH_BODY
)
def remove_item(item: ItemInPath, worker: TheWorker) -> NewItemRemoved:
    """Remove a new item. It is a new item again when it is sent again, or when enough other customers interact with it:
    to sell out, remove it from the live items."""
    id = decode_id(item)
    if not worker.store.call(lambda store: store.remove_new_items([id]), writes=True):
        raise ServiceProblem(f"the item {id!r} is not a new item of the store: check the id", 404, "unknown-item")
    worker.versions.poll_now()
    return NewItemRemoved(id, worker.versions.name)


@delete("/items", status_code=200, sync_to_thread=True, opt={"writes": True}, responses=READING)
def remove_items(request: StrictRequest[NewItemsQuery], worker: TheWorker) -> NewItemsRemoved:
    """Remove all new items of one origin, such as ids of a faulty tracker that were never sent with `PUT`.

    An item by events is a new item again when enough customers interact with it from now on.
    """
    origin, fewer_than = Origin(request.query.origin), request.query.fewer_than
    parts = worker.store.call(lambda store: store.find_new_items_of(origin, fewer_than), seconds=LIVE_SECONDS)
    removed = 0
    for part in parts:  # each has a deadline of its own: together they may take longer than one write should
        remove = partial(Store.remove_new_items, items=part, origin=origin, fewer_than=fewer_than)
        removed += worker.store.call(remove, writes=True, seconds=REMOVAL_SECONDS)
    worker.versions.poll_now()
    return NewItemsRemoved(removed, worker.versions.name)


@get("/live", sync_to_thread=True, responses=READING)
def get_live_items(worker: TheWorker) -> LiveItemsResponse:
    """The live items in the store."""
    live = _read_live_items(worker)
    return LiveItemsResponse(live.items, worker.versions.name, live.removed)


def _read_live_items(worker: Worker) -> LiveItems:
    return worker.store.call(lambda store: store.live_items(), seconds=LIVE_SECONDS)


def _catalogue(worker: Worker) -> KnownItems | None:
    """What ids are compared with; None without a version."""
    if (used := worker.versions.in_use) is None:
        return None
    return KnownItems(used.version.name, len(used.version.items) + len(used.new_items.items), used.count_known)


def _refuse_doubtful(doubt: str | None) -> None:
    if doubt is not None:
        raise ServiceProblem(f"{doubt}: check it, and send it with `force` if it is meant", 409, "doubtful-live-items")


def _refuse_long_list(request: Request[Any, Any, Any], _: Exception) -> Response[Any]:
    return ServiceProblem(LIST_TOO_LONG, 413, "too-large").to_response(request)


@put(
    "/live",
    sync_to_thread=True,
    opt={"writes": True},
    responses=WITH_BODY | describe_problems(409),
    exception_handlers={RequestEntityTooLarge: _refuse_long_list},
)
def set_live_items(data: JSONBody[LiveItemsRequest], worker: TheWorker) -> LiveItemsChanged:
    """Replace the live items; null makes every item live, also removed ones. Workers follow within about a second.

    A list that is empty, that has mostly unknown ids, or that is less than half as long as the list that it replaces is
    refused with 409 unless it comes with `force`.
    """
    items = None if data.items is None else [str(id) for id in data.items]
    if items is not None and not data.force:
        _refuse_doubtful(doubt_list(items, _read_live_items(worker), _catalogue(worker)))
    counts = worker.store.call(lambda store: store.set_live_items(items), writes=True, seconds=LIVE_SECONDS)
    return _report_change(worker, counts, items or ())


@patch("/live", sync_to_thread=True, opt={"writes": True}, responses=WITH_BODY | describe_problems(409))
def change_live_items(data: JSONBody[LiveItemsChange], worker: TheWorker) -> LiveItemsChanged:
    """Make items live, and others not: what comes into stock, and what is sold out.

    If there is no list of live items, every item stays live except those that are removed. Workers follow within about
    a second. A change that removes more than 100 items, and more than half of those that are live, is refused with 409
    unless it comes with `force`. So is a list that grows to 100,000 more ids than the version has items, always.
    """
    add, remove = [str(id) for id in data.add], [str(id) for id in data.remove]
    if len(remove) > MANY and not data.force:
        _refuse_doubtful(doubt_change(add, remove, _read_live_items(worker), _catalogue(worker)))
    version = worker.versions.version
    limit = SPARE_LIVE_IDS + (0 if version is None else len(version.items))
    counts = worker.store.call(
        lambda store: store.change_live_items(add, remove, limit=limit), writes=True, seconds=LIVE_SECONDS
    )
    return _report_change(worker, counts, add + remove)


def _report_change(worker: Worker, counts: LiveCounts, ids: Sequence[str]) -> LiveItemsChanged:
    worker.versions.poll_now()
    version = worker.versions.version
    unknown = len(ids) if version is None else int((version.items.rows(ids) < 0).sum())
    return LiveItemsChanged(counts.live, unknown, version.name if version else None, counts.removed)


@get("/model", sync_to_thread=False, responses=READING)
def get_model(worker: TheWorker) -> ModelInformation:
    """The version in use."""
    recommender, state = worker.versions.recommender, worker.versions.state
    version, arms, index = recommender.version, [], recommender.index
    for name, arm in state.arms.items():
        used = recommender if name == MAIN else state.others.get(name)
        described = (None, None, None) if used is None else (used.version.name, *used.version.points.space[:2])
        arms.append(ArmInformation(name, arm.share, *described))
    return ModelInformation(
        items=len(version.points),
        **version.points.space._asdict(),
        dimension=version.points.dimension,
        metrics=version.manifest["metrics"],
        map=version.manifest["map"],
        model=version.name,
        categories=version.categories,
        live=recommender.live_count,
        index=None if index is None else IndexInformation(index.count, len(index.lists), index.probes, index.recall),
        new_items=recommender.new_items.placed_count,
        rules=recommender.rules_revision,
        sets=[] if recommender.rules is None else sorted(recommender.rules.compiled.sets),
        text_columns=sorted(version.columns.texts),
        number_columns=sorted(version.columns.numbers),
        trend=None if recommender.trend is None else _describe_trend(recommender.trend),
        arms=arms,
        version=_describe_version(version),
    )


def _describe_version(version: Version) -> VersionInformation:
    check, days, (compared_with, overlap) = version.check, version.days, version.compared
    described: CheckInformation | None = None
    if check is not None:
        best = max(check.baselines, key=lambda row: row.ndcg)
        described = CheckInformation(check.ours.ndcg, best.name, best.ndcg, check.customers, check.events)
    return VersionInformation(
        version.created.timestamp(),
        version.newest_time,
        described,
        compared_with,
        overlap,
        None if days is None else [DayInformation(**asdict(day)) for day in days],
    )


def _describe_trend(live: LiveTrend) -> TrendInformation:
    counted, counts = live.counted, None if live.counted is None else live.counted.by_days.get(live.days)
    return TrendInformation(
        live.source,
        live.reason,
        live.days,
        0.0 if live.trend is None else live.trend.weight,
        live.total,
        0 if counts is None else counts.customers,
        live.unknown,
        0 if counts is None else counts.capped,
        0 if counted is None else counted.ahead,
        0 if counted is None else counted.left_out,
        None if counted is None else counted.read,
    )


@get("/map", sync_to_thread=True, media_type="application/octet-stream", responses=READING_ITEM | {304: NOT_MODIFIED})
def get_map(worker: TheWorker, request: StrictRequest[NoQuery]) -> Response[bytes]:
    """The positions of all items in the Poincaré disk, little-endian, in row order.

    First float32 x and y of each item, then int32 category codes (-1: none), then float32 popularity.
    """
    version = worker.versions.recommender.version
    if version.map is None:
        raise ServiceProblem(f"version {version.name} has no map: publish one with a map", 404, "no-map")
    headers = {"ETag": f'"{version.name}"', "X-Items": str(len(version.map)), "Cache-Control": "private, no-cache"}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=headers)
    parts = (version.map.astype("<f4"), version.category_codes.astype("<i4"), version.points.item_counts.astype("<f4"))
    return Response(b"".join(part.tobytes() for part in parts), headers=headers)


@get("/map/items", sync_to_thread=True, responses=READING)
def get_items_of_rows(request: StrictRequest[RowsQuery], worker: TheWorker) -> ItemsResponse:
    """The items in some rows of the map."""
    version = worker.versions.recommender.version
    wanted = np.array([int(row) for row in request.query.rows.split(",")])
    if wanted.max() >= len(version.items):
        raise InputError(
            f"row {wanted.max()} is beyond the {len(version.items)} items of version {version.name}: check it"
        )
    return ItemsResponse(version.items.items(wanted), version.name)


@post("/map/rows", status_code=200, sync_to_thread=True, responses=WITH_BODY)
def get_rows_of_items(data: JSONBody[RowsRequest], worker: TheWorker) -> RowsResponse:
    """The rows of items on the map."""
    version = worker.versions.recommender.version
    rows = version.items.rows([str(id) for id in data.items]).tolist()
    return RowsResponse([None if row < 0 else row for row in rows], version.name)
