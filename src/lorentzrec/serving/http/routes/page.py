"""The page: a few files of the package, read once at the start. No path of a request ever reaches the disk."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

POLICY = "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'"
"""Nothing from elsewhere: no script, style, picture or frame, and no script inside the page itself."""

MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Not asked of the system, whose list anybody may have changed."""


class _File(NamedTuple):
    content: bytes
    media_type: str
    tag: str


@cache
def page_files() -> dict[str, _File]:
    """Name -> file, for all files of the page."""
    found = {}
    for entry in (files("lorentzrec.serving") / "page").iterdir():
        if media_type := MEDIA_TYPES.get(entry.name.rpartition(".")[2]):
            content = entry.read_bytes()
            found[entry.name] = _File(content, media_type, f'"{sha256(content).hexdigest()[:16]}"')
    return found


@get("/", sync_to_thread=False, include_in_schema=False)
def get_page(request: Request[Any, Any, Any]) -> Response[bytes]:
    return _respond("index.html", request)


@get("/page/{name:path}", sync_to_thread=False, include_in_schema=False)
def get_page_file(name: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes]:
    return _respond(name.removeprefix("/"), request)


def _respond(name: str, request: Request[Any, Any, Any]) -> Response[bytes]:
    file = page_files().get(name)
    if file is None:
        raise NotFoundException("the page has no such file")
    # Browsers ask each time and are told that nothing has changed: after an update nobody sees old scripts.
    headers = {
        "ETag": file.tag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
    }
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, media_type=file.media_type, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)
