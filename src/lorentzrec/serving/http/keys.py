"""API keys, which allow reading, or reading and writing."""

from __future__ import annotations

import hmac
import json
import logging
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.rules import LONGEST_NAME

if TYPE_CHECKING:  # the parent of workers imports this file, before it sets what prometheus_client reads when imported
    from lorentzrec.serving.worker.metrics import Metrics

SHORTEST_KEY = 16
NAME = "name="

logger = logging.getLogger("lorentzrec.serving")


class Key(NamedTuple):
    """What a key allows."""

    writes: bool
    name: str | None = None
    """For the log of rules."""


def read_key_file(path: Path) -> dict[str, Key]:
    """The digests of the keys in a file, and what each allows.

    The file has one key per line, perhaps with the word `read` and with `name=NAME` after it. Empty lines and # are
    skipped. A key opens everything under /v1; a `read` key opens all but what changes the store: events, erasure, live
    items, new items, rules.
    """
    digests: dict[str, Key] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a list of keys: give a text file, one key per line") from error
    for number, line in enumerate(lines, start=1):
        key, *rights = line.split() or ["#"]
        if key.startswith("#"):
            continue
        names = [word.removeprefix(NAME) for word in rights if word.startswith(NAME)]
        others = [word for word in rights if not word.startswith(NAME)]
        fits = others in ([], ["read"]) and len(names) <= 1 and all(0 < len(name) <= LONGEST_NAME for name in names)
        if len(key) < SHORTEST_KEY or not key.isascii() or not fits:
            raise InputError(
                f"{path}, line {number}: a key is {SHORTEST_KEY} or more of ASCII, with `read`, `name=NAME`, both or "
                "nothing after"
            )
        digests[sha256(key.encode()).hexdigest()] = Key(not others, *names)
    if not digests:
        raise InputError(f"{path} holds no key: add one per line, or serve without --api-key-file")
    return digests


class ApiKeys:
    """The keys that all workers of a service use. Only their parent reads the file of keys, when it makes this.

    The parent puts the digests into a file of its private folder and replaces that file on `reload`. Workers look at it
    on every request: from the moment it is replaced, all of them decide by the new keys, and none has to be restarted.
    A worker that is started later inherits the keys in memory, even if the file of keys is invalid by then.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        """`folder`: private to the service."""
        self._source, self._shared = source, folder / "keys.json"
        self._digests = read_key_file(source)
        self._state: tuple[int, ...] | None = None
        self._share(self._digests)

    def reload(self) -> None:
        """Take the file of keys into use as it is now; if it is invalid, keep the current keys and log why."""
        try:
            digests = read_key_file(self._source)
            self._share(digests)
        except (InputError, OSError) as error:
            logger.error("keys not reloaded, the current ones stay in use: %s", error)
        else:
            self._digests = digests
            # Not only at `info`: from this line on no worker accepts a key that was removed.
            logger.warning("keys reloaded: %d in %s", len(digests), self._source)

    def find(self, key: str) -> Key | None:
        """What a key allows; None if it is unknown. All are compared, in a time that reveals nothing of them."""
        self._follow()
        sent, found = sha256(key.encode()).hexdigest(), None
        for digest, allowed in self._digests.items():
            if hmac.compare_digest(sent, digest):
                found = allowed
        return found

    def _follow(self) -> None:
        """Take over the keys that the parent has shared, if they are new."""
        with suppress(OSError):  # the temporary folder was cleaned up: the keys in memory are the last that were shared
            found = self._shared.stat()
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
            if state != self._state:
                shared = json.loads(self._shared.read_bytes())
                self._digests = {digest: Key(*allowed) for digest, allowed in shared.items()}
                self._state = state

    def _share(self, digests: dict[str, Key]) -> None:
        new = self._shared.with_suffix(".new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(json.dumps(digests))
        new.replace(self._shared)


def read_key(authorization: str, own_header: str) -> str:
    """The key that a request sends in one of two headers; empty if it has none."""
    scheme, _, token = authorization.partition(" ")
    return own_header or (token.strip() if scheme.lower() == "bearer" else "")


def authorise(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Check the key of a request; the guard of every route under /v1, if there are keys."""
    keys: ApiKeys = connection.app.state.api_keys
    headers = connection.headers
    key = read_key(headers.get("authorization", ""), headers.get("x-api-key", ""))
    metrics: Metrics = connection.app.state.metrics
    found = keys.find(key) if key else None
    if found is None:
        metrics.refused_keys.labels("unknown" if key else "missing").inc()
        raise NotAuthorizedException("send a key: Authorization: Bearer KEY, or X-API-Key: KEY")
    if handler.opt.get("writes") and not found.writes:
        metrics.refused_keys.labels("read-only").inc()
        raise PermissionDeniedException("this key may only read: use one that may write")
    scope: Any = connection.scope
    scope["key_name"] = found.name
