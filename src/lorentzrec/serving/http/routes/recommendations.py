"""Recommendations: for a history, for a customer, for a basket, and around an item."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Annotated

from litestar import get, post
from litestar.params import FromQuery, JSONBody, QueryParameter

from lorentzrec.errors import RecordDamaged, StoreUnavailable
from lorentzrec.serving.http.costs import cost
from lorentzrec.serving.http.current import Serving
from lorentzrec.serving.http.guarded_store import GuardedStore
from lorentzrec.serving.http.identifiers import text, texts
from lorentzrec.serving.http.messages import (
    LARGEST_K,
    BasketRequest,
    Reason,
    Recommended,
    RecommendedItem,
    RecommendRequest,
    Wishes,
)
from lorentzrec.serving.http.metrics import Metrics
from lorentzrec.serving.http.problems import HISTORY_DAMAGED, STORE_AWAY, described
from lorentzrec.serving.http.routes.path_ids import ItemInPath, UserInPath, from_path
from lorentzrec.serving.http.routes.worker import TheWorker
from lorentzrec.serving.recommending.recommender import Answer, Question
from lorentzrec.serving.stores.store import USUAL_HISTORY

Count = Annotated[int, QueryParameter(ge=1, le=LARGEST_K, description="How many items.")]
Diversity = Annotated[
    float, QueryParameter(ge=0, le=1, description="0: the best items; towards 1: more different ones.")
]
Categories = Annotated[list[str] | None, QueryParameter(max_items=1_000, description="Only these; may be repeated.")]
Excluded = Annotated[list[str] | None, QueryParameter(max_items=1_000, description="Never these; may be repeated.")]

logger = logging.getLogger("lorentzrec.serving")


@post("/recommend", status_code=200, responses=described(400, 401, 403, 413, 415, 421))
async def recommend(
    data: JSONBody[RecommendRequest],
    worker: TheWorker,
) -> Recommended:
    """What somebody might like: by the history in the request, or by that of a customer in the store.

    Anybody can be asked for: of a customer without a history the popular items are the answer, and `fallback` says so.
    """

    def handle() -> Recommended:
        begun, serving = perf_counter(), worker.current.serving
        if data.history is not None:
            history, degraded = texts(data.history), None
            weights: tuple[float, ...] = ()
        else:
            history, weights, degraded = _history_of(text(data.user or ""), worker.store)
        context = texts(data.context)
        if weights:
            weights += (1.0,) * len(context)
        question = _question(data, history + context, weights, exclude_seen=data.exclude_seen)
        return _message(serving, serving.answerer.recommend(question), begun, worker.metrics, degraded)

    return await worker.costly.run(_cost(data, data.history_length), handle)


@get("/users/{user:str}/recommendations", responses=described(400, 401, 403, 421))
async def recommend_for_user(
    user: UserInPath,
    worker: TheWorker,
    k: Count = 10,
    diversity: Diversity = 0.0,
    categories: Categories = None,
    reasons: FromQuery[bool] = False,
) -> Recommended:
    """A customer's own page. An event sent a moment ago counts already."""
    wishes = Wishes(k=k, diversity=diversity, categories=categories or [], reasons=reasons)

    def handle() -> Recommended:
        begun, serving = perf_counter(), worker.current.serving
        history, weights, degraded = _history_of(from_path(user), worker.store)
        answer = serving.answerer.recommend(_question(wishes, history, weights))
        return _message(serving, answer, begun, worker.metrics, degraded)

    return await worker.costly.run(_cost(wishes, USUAL_HISTORY), handle)


@post("/basket", status_code=200, responses=described(400, 401, 403, 413, 415, 421))
async def complete_basket(data: JSONBody[BasketRequest], worker: TheWorker) -> Recommended:
    """What goes with the items of a basket: items of other categories than those that are in it."""

    def handle() -> Recommended:
        begun, serving = perf_counter(), worker.current.serving
        answer = serving.answerer.basket(_question(data, texts(data.items)))
        return _message(serving, answer, begun, worker.metrics)

    return await worker.costly.run(_cost(data, len(data.items)), handle)


@get("/items/{item:str}/similar", responses=described(400, 401, 403, 404, 421))
async def similar_items(
    item: ItemInPath,
    worker: TheWorker,
    k: Count = 10,
    diversity: Diversity = 0.0,
    categories: Categories = None,
    exclude: Excluded = None,
    twin: FromQuery[bool] = False,
) -> Recommended:
    """The items nearest to an item."""

    def handle() -> Recommended:
        begun, serving = perf_counter(), worker.current.serving
        answer = serving.answerer.similar(
            from_path(item),
            k,
            categories=tuple(categories or ()),
            exclude=tuple(exclude or ()),
            diversity=diversity,
            twin=twin,
        )
        return _message(serving, answer, begun, worker.metrics)

    return await worker.costly.run(_cost(Wishes(k=k, diversity=diversity), 1), handle)


def _cost(wishes: Wishes, history: int) -> int:
    ids = history + len(wishes.exclude) + len(wishes.allow or ())
    return cost(wishes.k, ids, history=history, diversity=wishes.diversity, reasons=wishes.reasons)


def _history_of(user: str, store: GuardedStore) -> tuple[tuple[str, ...], tuple[float, ...], str | None]:
    """The history of a customer with its weights, read on every request; or nothing, and why it could not be read."""
    try:
        touches = store.call(lambda opened: opened.history(user))
    except StoreUnavailable:
        return (), (), f"the history of the customer could not be read: {STORE_AWAY}"
    except RecordDamaged as error:
        logger.error("%s", error)
        return (), (), f"the history of the customer could not be read: {HISTORY_DAMAGED}"
    weights = tuple([touch.weight for touch in touches])
    weighted = weights.count(1) < len(weights)
    return tuple([touch.item for touch in touches]), weights if weighted else (), None


def _question(
    wishes: Wishes, history: tuple[str, ...], weights: tuple[float, ...] = (), *, exclude_seen: bool = True
) -> Question:
    return Question(
        history=history,
        weights=weights,
        k=wishes.k,
        exclude=texts(wishes.exclude),
        allow=None if wishes.allow is None else texts(wishes.allow),
        categories=tuple(wishes.categories),
        exclude_seen=exclude_seen,
        diversity=wishes.diversity,
        reasons=wishes.reasons,
        twin=wishes.twin,
    )


def _message(
    serving: Serving, answer: Answer, begun: float, metrics: Metrics, degraded: str | None = None
) -> Recommended:
    metrics.count_fallback(answer.fallback, degraded)
    items = [
        RecommendedItem(
            item.id,
            item.row,
            item.score,
            item.title,
            item.category,
            [Reason(reason.item, reason.title, reason.share) for reason in item.because],
        )
        for item in answer.items
    ]
    milliseconds = round((perf_counter() - begun) * 1000, 3)
    return Recommended(items, serving.version.name, answer.fallback, degraded, milliseconds)
