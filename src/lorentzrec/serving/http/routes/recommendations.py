"""Recommendations: for a history, for a customer, with a basket, similar to an item, and instead of one."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from litestar import get, post
from litestar.params import JSONBody
from msgspec.structs import asdict

from lorentzrec.errors import RecordDamaged, StoreUnavailable
from lorentzrec.points.fallbacks import render_fallbacks
from lorentzrec.serving.http.messages import (
    OutfitRequest,
    OutfitResponse,
    RecommendRequest,
    RecommendResponse,
    TrendingResponse,
)
from lorentzrec.serving.http.problems import READING_ITEM, WITH_BODY
from lorentzrec.serving.http.requests import ItemInPath, StrictRequest, TheWorker, UserInPath, Worker, cost, decode_id
from lorentzrec.serving.rules.document import Route
from lorentzrec.serving.stores.histories import StoredEvent
from lorentzrec.serving.worker.guarded_store import STORE_UNAVAILABLE
from lorentzrec.serving.worker.query import (
    CustomerOptions,
    Id,
    ListOptions,
    RankedItems,
    RankingOptions,
    TrendingItem,
)
from lorentzrec.serving.worker.recommender import Recommender

logger = logging.getLogger("lorentzrec.serving")


@post("/recommend", status_code=200, responses=WITH_BODY | READING_ITEM)
async def recommend(data: JSONBody[RecommendRequest], worker: TheWorker) -> RecommendResponse:
    """Recommend items for the history in the request, or for that of a customer in the store.

    Every history is accepted: for an unknown or empty one the popular items are returned, and `fallback` reports it.
    """
    user = None if data.user is None else str(data.user)
    return await _run(worker, data, data.history_length, partial(rank_for, data, worker), user=user)


@get("/users/{user:str}/recommendations", responses=READING_ITEM)
async def recommend_for_user(
    user: UserInPath, request: StrictRequest[CustomerOptions], worker: TheWorker
) -> RecommendResponse:
    """Recommend items for a customer. An event sent a moment ago already counts."""
    sent = RecommendRequest(user=decode_id(user), **asdict(request.query))
    return await _run(worker, sent, sent.history_length, partial(rank_for, sent, worker), user=str(sent.user))


Rank = Callable[[Recommender], tuple[RankedItems, str | None]]
"""The items that a recommender recommends, and why the history could not be read, if it could not."""


def rank_for(sent: RecommendRequest, worker: Worker, recommender: Recommender) -> tuple[RankedItems, str | None]:
    """The items for a request, and why the history of its customer could not be read, if it could not."""
    items: Sequence[Id] = sent.history or ()
    weights: list[float] = []
    times: list[float] = []
    degraded = None
    if sent.user is not None:
        events, degraded = _read_history(str(sent.user), worker)
        items, times = [event.item for event in events], [event.time for event in events]
        weights = [event.weight for event in events]
    weights = [] if weights.count(1) == len(weights) else [*weights, *[1.0] * len(sent.context)]
    if sent.context:
        times = [*(times or [0.0] * len(items)), *[math.nan] * len(sent.context)]
    ranked = recommender.recommend(
        [*items, *sent.context], sent, weights=weights, times=times, exclude_seen=sent.exclude_seen
    )
    return ranked, degraded


@post("/outfits", status_code=200, responses=WITH_BODY | READING_ITEM)
async def complete_outfit(data: JSONBody[OutfitRequest], worker: TheWorker) -> OutfitResponse:
    """Recommend items that go with those of a basket, by what is bought together: at most `per_category` of each
    category that is not in the basket, or of the categories in `slots`, within a budget.

    A model that has not learned this from orders recommends what customers of the basket would like, of other
    categories, and `fallback_kinds` has `not_learned`.
    """
    ranked: list[RankedItems] = []

    def rank(recommender: Recommender) -> tuple[RankedItems, str | None]:
        ranked.append(recommender.complete(data.basket, data))
        return ranked[0], None

    found = await _run(worker, data, len(data.basket), rank, route="outfits")
    return OutfitResponse(**asdict(found), slots=ranked[0].slots, price=ranked[0].price)


@get("/items/{item:str}/similar", responses=READING_ITEM)
async def similar_items(
    item: ItemInPath, request: StrictRequest[RankingOptions], worker: TheWorker
) -> RecommendResponse:
    """The items most similar to an item, by what customers buy. Popular items have no advantage."""
    options = request.query

    def rank(recommender: Recommender) -> tuple[RankedItems, str | None]:
        return recommender.similar(decode_id(item), options), None

    return await _run(worker, options, 1, rank, route="similar")


@get("/items/{item:str}/alternatives", responses=READING_ITEM)
async def alternatives(
    item: ItemInPath, request: StrictRequest[RankingOptions], worker: TheWorker
) -> RecommendResponse:
    """Items to buy instead of an item, such as one that is sold out: the best live ones of its category.

    If there are fewer than `k`, items of the parent category follow, and `fallback_kinds` has `widened`.
    """
    options = request.query

    def rank(recommender: Recommender) -> tuple[RankedItems, str | None]:
        return recommender.alternatives(decode_id(item), options), None

    return await _run(worker, options, 1, rank, route="alternatives")


@get("/trending", responses=READING_ITEM)
async def trending(request: StrictRequest[ListOptions], worker: TheWorker) -> TrendingResponse:
    """Items that have more customers than usual in the last days: of all items, or of some categories.

    A customer counts once for an item. Without enough customers in the last days the list is empty, and
    `fallback_kinds` has `not_trending`.
    """
    options = request.query
    handle = partial(_respond_trending, worker, options)
    return await worker.threads.run(cost(options, 1, worker.versions.in_use, "trending"), handle, at_once=True)


def _respond_trending(worker: Worker, options: ListOptions) -> TrendingResponse:
    begun = perf_counter()
    arm, recommender, ranked, _ = _rank(
        worker, options, None, lambda recommender: (recommender.trending(options), None)
    )
    return TrendingResponse(
        items=[item for item in ranked.items if isinstance(item, TrendingItem)],
        model=recommender.version.name,
        arm=arm,
        days=recommender.trend_days,
        fallback=render_fallbacks(ranked.fallbacks),
        fallback_kinds=[fallback.kind for fallback in ranked.fallbacks],
        rules=ranked.rules,
        milliseconds=round((perf_counter() - begun) * 1000, 3),
    )


async def _run(
    worker: Worker,
    options: ListOptions,
    history: int,
    rank: Rank,
    *,
    route: Route = "recommend",
    user: str | None = None,
) -> RecommendResponse:
    """Respond, in a thread if ranking is costly or the store is remote.

    history: the number of items in the history, at most.
    route: what the list is for.
    user: the customer, whose arm answers unless the request names one.
    """
    at_once = user is None or worker.store.nearby
    handle = partial(respond, worker, options, rank, user)
    return await worker.threads.run(cost(options, history, worker.versions.in_use, route), handle, at_once=at_once)


def respond(worker: Worker, options: ListOptions, rank: Rank, user: str | None) -> RecommendResponse:
    """Rank, count and describe. user: see `_run`."""
    begun = perf_counter()
    arm, recommender, ranked, degraded = _rank(worker, options, user, rank)
    worker.health.count_response(empty=not ranked.items)
    if degraded:
        worker.metrics.degraded.inc()
    return RecommendResponse(
        items=ranked.items,
        model=recommender.version.name,
        arm=arm,
        fallback=render_fallbacks(ranked.fallbacks),
        fallback_kinds=[fallback.kind for fallback in ranked.fallbacks],
        rules=ranked.rules,
        degraded=degraded,
        milliseconds=round((perf_counter() - begun) * 1000, 3),
    )


def _rank(
    worker: Worker, options: ListOptions, user: str | None, rank: Rank
) -> tuple[str, Recommender, RankedItems, str | None]:
    """The arm that answers, its recommender, its items, and why the history could not be read. It is counted."""
    arm, recommender, unusable = worker.versions.choose(options.arm, user)
    ranked, degraded = rank(recommender)
    metrics = worker.metrics
    for fallback in ranked.fallbacks:
        metrics.fallbacks.labels(fallback.kind).inc()
    metrics.arms.labels(arm).inc()
    if unusable is not None:
        metrics.arm_fallbacks.labels(unusable).inc()
    if shown := sum(item.new for item in ranked.items):
        metrics.new_items_shown.inc(shown)
    return arm, recommender, ranked, degraded


def _read_history(user: str, worker: Worker) -> tuple[list[StoredEvent], str | None]:
    """A customer's stored history, and why it could not be read."""
    try:
        return worker.store.call_nearby(lambda store: store.history(user)), None
    except StoreUnavailable:
        return [], f"the history of the customer could not be read: {STORE_UNAVAILABLE}"
    except RecordDamaged as error:
        logger.error("%s", error)
        return [], f"the history of the customer could not be read: {error}"
