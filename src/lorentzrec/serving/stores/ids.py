"""Ids that every store can keep, and keys that represent ids where a database limits what a key may hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from lorentzrec.data.vocabulary import LONGEST_ID as LONGEST_ID
from lorentzrec.errors import InputError

UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which PostgreSQL or a log line cannot take, and lone surrogates, which are not text."""


def check_ids(kind: str, ids: Iterable[str]) -> None:
    """Refuse ids that one of the stores could not keep, so that all stores keep the same ones."""
    listed = list(ids)
    # One search in all of them is much faster than a search in each.
    if not (all(listed) and max(map(len, listed), default=0) <= LONGEST_ID and not UNFIT.search("".join(listed))):
        unfit = next(id for id in listed if not 0 < len(id) <= LONGEST_ID or UNFIT.search(id))
        raise InputError(
            f"{kind} id {unfit[:60]!r} cannot be kept: give 1 to {LONGEST_ID} characters without control characters"
        )


def make_key(*texts: str) -> str:
    """32 hexadecimal digits that represent texts of any length and content where a database limits its keys."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.hexdigest()


def salted_key(key: str, salt: str) -> str:
    """What an erasure keeps of a customer's key: a different one in every store, so that two cannot be compared."""
    return hashlib.sha256(f"{salt}{key}".encode()).hexdigest()[:32]
