"""The service as an ASGI application: its routes, their shared parts, and its OpenAPI document."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from litestar import Litestar, Request, Response, Router
from litestar.concurrency import set_asyncio_executor
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, ExternalDocumentation, Reference, SecurityScheme
from litestar.routes import HTTPRoute

from lorentzrec._version import __version__
from lorentzrec.base.threads import SINGLE_THREADED_BLAS
from lorentzrec.serving.http.documentation import exact_document
from lorentzrec.serving.http.keys import ApiKeys, authorise
from lorentzrec.serving.http.middleware import RequestMiddleware
from lorentzrec.serving.http.problems import PLUGIN, log_failure
from lorentzrec.serving.http.requests import MessageResponse, RequestThreads, StrictRequest, Worker, check_query
from lorentzrec.serving.http.routes import catalogue, customers, public, recommendations, rules
from lorentzrec.serving.http.short_path import ShortPath
from lorentzrec.serving.settings import SERVICE_FOLDER, ServiceSettings
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.worker.event_writer import EventWriter
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.health import Health
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.version_watcher import VersionWatcher

SECURITY_SCHEMES: dict[str, SecurityScheme | Reference] = {
    "bearer": SecurityScheme(type="http", scheme="bearer"),
    "key": SecurityScheme(type="apiKey", name="X-API-Key", security_scheme_in="header"),
}
CORS = CORSConfig(
    allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
    allow_headers=["authorization", "content-type", "x-api-key", "x-request-id"],
)
"""What pages of allowed sites may use."""


def create_app(settings: ServiceSettings, keys: ApiKeys | None = None) -> RequestMiddleware:
    """The application of one worker. Its store and its versions are opened when the server starts it.

    `keys`: those of the server that the worker belongs to, if its settings name a file of them.
    """
    keyed = settings.api_key_file is not None
    metrics = Metrics()
    threads = settings.store_threads
    connections = settings.store_connections or 2 * threads
    store = GuardedStore(
        lambda: open_store(settings.store, connections=connections),
        seconds=settings.store_seconds,
        threads=threads,
        observe=lambda operation, seconds: metrics.store_seconds[operation].observe(seconds),
    )
    folder = Path(os.environ[SERVICE_FOLDER]) if SERVICE_FOLDER in os.environ else None
    versions = VersionWatcher(store, metrics, settings, folder and folder / "versions")
    health = Health(versions, store, metrics, folder, settings.workers)
    worker = Worker(versions, store, metrics, RequestThreads(), health, EventWriter(store))
    # Ranking is a matrix product that releases Python's lock, so handlers run in parallel in threads.
    set_asyncio_executor(ThreadPoolExecutor(settings.request_threads, "request"))

    @asynccontextmanager
    async def running(_: Litestar) -> AsyncIterator[None]:
        with SINGLE_THREADED_BLAS:  # once, so that no query has to set the limit and lift it again
            versions.start()
            health.start()
            try:
                yield
            finally:
                health.stop()
                versions.stop()
                store.close()

    routes = _list_routes(recommendations, catalogue, customers, rules)
    guards: list[Any] = [authorise] if keyed else []
    v1 = Router("/v1", route_handlers=routes, guards=guards, response_class=MessageResponse)
    origins = [*settings.allowed_origins]
    app = Litestar(
        [v1, *_list_routes(public)],
        dependencies={"worker": Provide(lambda: worker, sync_to_thread=False)},
        state=State({"api_keys": keys, "threads": worker.threads, "metrics": metrics}),
        exception_handlers={Exception: log_failure},
        plugins=[PLUGIN],
        request_class=StrictRequest,
        before_request=check_query,
        lifespan=[running],
        openapi_config=_openapi_config(keyed=keyed),
        cors_config=replace(CORS, allow_origins=origins) if origins else None,
        request_max_body_size=settings.body_bytes,
        logging_config=None,
    )
    methods = {route.path_format: frozenset(route.methods) for route in app.routes if isinstance(route, HTTPRoute)}
    short = ShortPath(app, worker, keys, open_to_all=not keyed, body_bytes=settings.body_bytes)
    return RequestMiddleware(short, settings, metrics, methods)


def _list_routes(*modules: ModuleType) -> list[HTTPRouteHandler]:
    return [value for module in modules for value in vars(module).values() if isinstance(value, HTTPRouteHandler)]


class _ExactDocument(JsonRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return self.render_json(request, exact_document(request.app))


def _refuse_other_paths(response: Response[Any]) -> Response[Any]:
    """Litestar has a page in HTML for unknown paths below /schema; here they are a problem like any other."""
    if response.status_code == 404:
        raise NotFoundException
    return response


def _openapi_config(*, keyed: bool) -> OpenAPIConfig:
    """`keyed`: whether requests need an API key."""
    return OpenAPIConfig(
        title="lorentzrec",
        version=__version__,
        description="Recommendations from a hyperbolic embedding.",
        use_handler_docstrings=True,
        render_plugins=[_ExactDocument(path=["/", "/openapi.json"])],
        openapi_router=Router("/schema", route_handlers=[], include_in_schema=False, after_request=_refuse_other_paths),
        external_docs=ExternalDocumentation(url="/docs", description="This document as a page."),
        components=Components(security_schemes=SECURITY_SCHEMES) if keyed else Components(),
        security=[{"bearer": []}, {"key": []}] if keyed else None,
    )
