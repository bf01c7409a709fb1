"""API keys: who may ask, and who may also write."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from lorentzrec.errors import InputError

SHORTEST_KEY = 16


class ApiKeys:
    """The keys of a file: one a line, perhaps followed by the word `read`. Empty lines and those with # are skipped.

    A key opens everything under /v1; a `read` key opens all but what changes the store: events, erasure, live items.
    Only the digests of keys are held, and all are compared on each request, in a time that tells nothing of them.
    """

    def __init__(self, path: Path) -> None:
        self._digests: dict[bytes, bool] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read as a list of keys: give a text file, one key a line") from error
        for number, line in enumerate(lines, start=1):
            key, *rights = line.split() or ["#"]
            if key.startswith("#"):
                continue
            if len(key) < SHORTEST_KEY or not key.isascii() or rights not in ([], ["read"]):
                raise InputError(
                    f"{path}, line {number}: a key is {SHORTEST_KEY} or more of ASCII, with `read` or nothing after"
                )
            self._digests[sha256(key.encode()).digest()] = not rights
        if not self._digests:
            raise InputError(f"{path} holds no key: add one a line, or serve without --api-key-file")

    def may_write(self, key: str) -> bool | None:
        """Whether a key may write; None if it is no key."""
        asked, found = sha256(key.encode()).digest(), None
        for digest, writes in self._digests.items():
            if hmac.compare_digest(asked, digest):
                found = writes
        return found


def authorise(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Let a request pass, or not; the guard of every route under /v1, if there are keys."""
    keys: ApiKeys = connection.app.state.api_keys
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    key = connection.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
    match keys.may_write(key) if key else None:
        case None:
            raise NotAuthorizedException("send a key: Authorization: Bearer KEY, or X-API-Key: KEY")
        case False if handler.opt.get("writes"):
            raise PermissionDeniedException("this key may only read: use one that may write")
