"""Routes that never need a key: probes, metrics, documentation, and the page, whose files are read once."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from litestar import MediaType, Request, Response, get
from litestar.exceptions import NotFoundException

from lorentzrec.serving.http.documentation import documentation_page, exact_document
from lorentzrec.serving.http.messages import Liveness, Readiness
from lorentzrec.serving.http.problems import PROBING, NotReady
from lorentzrec.serving.http.requests import TheWorker
from lorentzrec.serving.worker.worker_records import describe_hung, find_problems, merge_warnings

PAGE_HEADERS = {
    # Browsers check each time whether a file has changed: after an update, no page runs old scripts.
    "Cache-Control": "no-cache",
    # Nothing from other sites but pictures of items: no script, style or frame; and no script inside the page itself.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' https: http:; base-uri 'none'; object-src 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Not those of the system, whose list may have been changed."""
NAMED_FILES = {"/": "index.html", "/favicon.ico": "icon.svg"}
"""Files with a path of their own. Browsers ask for the icon wherever a page names none, such as next to /schema."""


@get("/healthz", sync_to_thread=False, responses=PROBING)
def get_liveness(worker: TheWorker) -> Liveness:
    """The service runs: no worker has hung for a minute. Restart it if this fails or does not respond."""
    if hung := worker.health.find_hung():
        raise NotReady(describe_hung(hung))
    return Liveness()


@get("/readyz", sync_to_thread=False, responses=PROBING)
def get_readiness(worker: TheWorker) -> Readiness:
    """Every worker of the service responds, has a version, and can recommend from it. If not, 503 gives the reason.

    `warnings` report everything else: without the store, recommendations are still possible, and writes fail.
    """
    records = worker.health.records()
    if problems := find_problems(records, worker.health.workers):
        raise NotReady("; ".join(problems))
    return Readiness(True, str(records[0].model), merge_warnings(records))


@get("/metrics", sync_to_thread=True, media_type=MediaType.TEXT, responses=PROBING)
def get_metrics(worker: TheWorker) -> Response[bytes]:
    """Metrics of all workers, in the text format of Prometheus."""
    return Response(worker.metrics.text(), media_type="text/plain; version=0.0.4")


@get([*NAMED_FILES, "/page/{name:path}"], sync_to_thread=False, include_in_schema=False)
def get_page_file(request: Request[Any, Any, Any]) -> Response[bytes]:
    name = NAMED_FILES.get(request.scope["path_template"]) or str(request.path_params["name"]).removeprefix("/")
    if (file := _page_files().get(name)) is None:
        raise NotFoundException
    headers = {"ETag": file.tag, **PAGE_HEADERS}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, media_type=file.media_type, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


@get("/docs", sync_to_thread=True, include_in_schema=False)
def get_documentation(request: Request[Any, Any, Any]) -> Response[str]:
    page = documentation_page(exact_document(request.app), str(request.base_url))
    return Response(page, media_type=MediaType.HTML, headers=PAGE_HEADERS)


class _File(NamedTuple):
    content: bytes
    media_type: str
    tag: str


@cache
def _page_files() -> dict[str, _File]:
    """All files of the page by name. A request only selects one of them, so no path of a request reaches the disk."""
    found = {}
    for entry in (files("lorentzrec.serving") / "page").iterdir():
        if media_type := MEDIA_TYPES.get(entry.name.rpartition(".")[2]):
            content = entry.read_bytes()
            found[entry.name] = _File(content, media_type, f'"{sha256(content).hexdigest()[:16]}"')
    return found
