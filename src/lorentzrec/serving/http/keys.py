"""API keys, which allow reading, or reading and writing."""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler

from lorentzrec.errors import InputError

SHORTEST_KEY = 16

logger = logging.getLogger("lorentzrec.serving")


class ApiKeys:
    """The keys of a file: one per line, with the word `read` after it or nothing. Empty lines and # are skipped.

    A key opens everything under /v1; a `read` key opens all but what changes the store: events, erasure, live items.
    Only the digests of keys are held, and all are compared on each request, in a time that reveals nothing of them.
    """

    def __init__(self, digests: Mapping[bytes, bool]) -> None:
        """`digests`: the digest of each key, and whether it may write."""
        self._digests = dict(digests)

    @classmethod
    def from_file(cls, path: Path) -> ApiKeys:
        digests: dict[bytes, bool] = {}
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read as a list of keys: give a text file, one key per line") from error
        for number, line in enumerate(lines, start=1):
            key, *rights = line.split() or ["#"]
            if key.startswith("#"):
                continue
            if len(key) < SHORTEST_KEY or not key.isascii() or rights not in ([], ["read"]):
                raise InputError(
                    f"{path}, line {number}: a key is {SHORTEST_KEY} or more of ASCII, with `read` or nothing after"
                )
            digests[sha256(key.encode()).digest()] = not rights
        if not digests:
            raise InputError(f"{path} holds no key: add one per line, or serve without --api-key-file")
        return cls(digests)

    def __len__(self) -> int:
        return len(self._digests)

    def may_write(self, key: str) -> bool | None:
        """Whether a key may write; None if it is unknown."""
        sent, found = sha256(key.encode()).digest(), None
        for digest, writes in self._digests.items():
            if hmac.compare_digest(sent, digest):
                found = writes
        return found

    def to_json(self) -> str:
        return json.dumps({digest.hex(): writes for digest, writes in self._digests.items()})

    @classmethod
    def from_json(cls, text: str) -> ApiKeys:
        return cls({bytes.fromhex(digest): writes for digest, writes in json.loads(text).items()})


class SharedKeys:
    """The keys that all workers of a service use. Only their parent reads the file of keys.

    The parent puts the digests into a file of its private folder and replaces that file on `reload`. Workers look at it
    on every request: from the moment it is replaced, all of them decide by the new keys, and none has to be restarted.
    A worker that is started later inherits the keys in memory, even if the file of keys is invalid by then.
    """

    def __init__(self, source: Path, folder: Path) -> None:
        self._source, self._shared = source, folder / "keys.json"
        self._keys = ApiKeys.from_file(source)
        self._state: tuple[int, ...] | None = None
        self._share(self._keys)

    def reload(self) -> None:
        """Take the file of keys into use as it is now; if it is invalid, keep the current keys and log why."""
        try:
            keys = ApiKeys.from_file(self._source)
            self._share(keys)
        except (InputError, OSError) as error:
            logger.error("keys not reloaded, the current ones stay in use: %s", error)
        else:
            self._keys = keys
            # Not only at `info`: from this line on no worker accepts a key that was removed.
            logger.warning("keys reloaded: %d in %s", len(keys), self._source)

    def may_write(self, key: str) -> bool | None:
        """Whether a key may write; None if it is unknown."""
        try:
            found = self._shared.stat()
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
            if state != self._state:
                self._keys = ApiKeys.from_json(self._shared.read_text(encoding="ascii"))
                self._state = state
        except OSError:  # the temporary folder was cleaned up: the keys in memory are the last ones that were shared
            pass
        return self._keys.may_write(key)

    def _share(self, keys: ApiKeys) -> None:
        new = self._shared.with_suffix(".new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(keys.to_json(), encoding="ascii")
        new.replace(self._shared)


def authorise(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Check the key of a request; the guard of every route under /v1, if there are keys."""
    keys: ApiKeys | SharedKeys = connection.app.state.api_keys
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    key = connection.headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
    match keys.may_write(key) if key else None:
        case None:
            raise NotAuthorizedException("send a key: Authorization: Bearer KEY, or X-API-Key: KEY")
        case False if handler.opt.get("writes"):
            raise PermissionDeniedException("this key may only read: use one that may write")
