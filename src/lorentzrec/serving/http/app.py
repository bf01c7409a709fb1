"""The service as an ASGI application: the routes, what they share, and what starts and stops with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from litestar import Litestar, Router
from litestar.concurrency import set_asyncio_executor
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.routes import HTTPRoute

from lorentzrec.serving.http.costs import CostlyRequests
from lorentzrec.serving.http.current import Current
from lorentzrec.serving.http.gate import Gate
from lorentzrec.serving.http.guarded_store import GuardedStore
from lorentzrec.serving.http.keys import ApiKeys, SharedKeys, authorise
from lorentzrec.serving.http.metrics import Metrics
from lorentzrec.serving.http.openapi import openapi_config
from lorentzrec.serving.http.problems import EXCEPTION_HANDLERS
from lorentzrec.serving.http.routes import events, health, items, live_items, model, page, recommendations, users
from lorentzrec.serving.http.routes.worker import Worker
from lorentzrec.serving.http.settings import ServiceSettings
from lorentzrec.serving.http.strict_request import StrictRequest
from lorentzrec.serving.stores.address import open_store
from lorentzrec.threads import SINGLE_THREADED_BLAS

VERSIONED = [
    recommendations.recommend,
    recommendations.recommend_for_user,
    recommendations.complete_basket,
    recommendations.similar_items,
    items.search_items,
    items.get_item,
    events.add_events,
    users.get_history,
    users.forget_user,
    live_items.get_live_items,
    live_items.set_live_items,
    live_items.change_live_items,
    model.get_model,
    model.get_map,
    model.get_items_of_rows,
    model.get_rows_of_items,
]
OPEN = [health.get_liveness, health.get_readiness, health.get_metrics, page.get_page, page.get_page_file]


def create_app(settings: ServiceSettings, shared_keys: SharedKeys | None = None) -> Gate:
    """The application of one worker. Its store and its versions are opened when the server starts it.

    `shared_keys` are those of the server that the worker belongs to; without a server, the file of keys is read.
    """
    keys: ApiKeys | SharedKeys | None = shared_keys
    if keys is None and settings.api_key_file is not None:
        keys = ApiKeys.from_file(settings.api_key_file)
    metrics = Metrics()
    store = GuardedStore(
        lambda: open_store(settings.store), seconds=settings.store_seconds, threads=settings.store_threads
    )
    current = Current(store, settings.cache_folder, metrics, settings.poll_seconds)
    worker = Worker(current, store, metrics, CostlyRequests())
    # Ranking is a matrix product that leaves Python's lock alone, so handlers run side by side in threads.
    set_asyncio_executor(ThreadPoolExecutor(settings.request_threads, "request"))

    @asynccontextmanager
    async def running(_: Litestar) -> AsyncIterator[None]:
        # Once for all questions, so that none has to set the limit and lift it again.
        with SINGLE_THREADED_BLAS:
            current.start()
            try:
                yield
            finally:
                current.stop()
                store.close()

    app = Litestar(
        [Router("/v1", route_handlers=VERSIONED, guards=[authorise] if keys else []), *OPEN],
        dependencies={"worker": Provide(lambda: worker, sync_to_thread=False)},
        state=State({"api_keys": keys, "costly": worker.costly}),
        exception_handlers=EXCEPTION_HANDLERS,
        request_class=StrictRequest,
        lifespan=[running],
        openapi_config=openapi_config(keyed=keys is not None),
        cors_config=_cross_origin(settings.allowed_origins),
        request_max_body_size=settings.body_bytes,
        logging_config=None,
    )
    return Gate(app, settings, metrics, _methods(app))


def _methods(app: Litestar) -> dict[str, frozenset[str]]:
    """The methods of each path template."""
    methods: dict[str, frozenset[str]] = {}
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            methods[route.path_format] = methods.get(route.path_format, frozenset()) | {*route.methods}
    return methods


def _cross_origin(origins: tuple[str, ...]) -> CORSConfig | None:
    if not origins:
        return None
    return CORSConfig(
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "x-api-key", "x-request-id"],
    )
