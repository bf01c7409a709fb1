"""Ids as they come over HTTP: text without control characters, at most 512 of them; JSON may also bring integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

from msgspec import Meta

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.store import LONGEST_ID

PATTERN = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"

IdText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=PATTERN)]
JsonId: TypeAlias = IdText | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An id in a body. A shop that counts its products sends numbers; they mean their text."""


def texts(ids: Iterable[str | int]) -> tuple[str, ...]:
    """Ids of a body as text."""
    return tuple(text(one) for one in ids)


def text(id: str | int) -> str:
    """An id of a body as text. Its pattern has been checked, but for a line's end after all else, which $ lets pass."""
    if isinstance(id, str) and id.endswith("\n"):
        raise InputError(f"the id {id!r} ends with a line end: send it without")
    return str(id)
