"""Ids as they come over HTTP: text without control characters, at most 512 of them; JSON may also bring integers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, TypeAlias
from urllib.parse import unquote

from litestar.params import Parameter
from msgspec import Meta

from lorentzrec.errors import InputError

LONGEST_ID = 512
_PATTERN = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"

IdText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=_PATTERN)]
JsonId: TypeAlias = IdText | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An id in a body. A shop that counts its products sends numbers; they mean their text."""

_SCHEMA_OF_PATHS = {"minLength": 1, "maxLength": LONGEST_ID, "pattern": _PATTERN}
ItemInPath: TypeAlias = Annotated[str, Parameter(description="The id of an item.", schema_extra=_SCHEMA_OF_PATHS)]
UserInPath: TypeAlias = Annotated[str, Parameter(description="The id of a customer.", schema_extra=_SCHEMA_OF_PATHS)]


def texts(ids: Iterable[str | int]) -> tuple[str, ...]:
    """Ids of a body as text."""
    return tuple(text(one) for one in ids)


def text(id: str | int) -> str:
    """An id of a body as text. Its pattern has been checked, but for a line's end after all else, which $ lets pass."""
    if isinstance(id, str) and id.endswith("\n"):
        raise InputError(f"the id {id!r} ends with a line end: send it without")
    return str(id)


def from_path(part: str) -> str:
    """The id that a part of a path stands for: percent signs are decoded here, since `Gate` hands paths on as sent."""
    try:
        decoded = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InputError("the id in the path is not UTF-8: encode it as UTF-8, then with percent signs") from None
    if len(decoded) > LONGEST_ID or not re.fullmatch(_PATTERN[1:-1], decoded):
        raise InputError(f"the id in the path is empty, longer than {LONGEST_ID} or has control characters: check it")
    return decoded
