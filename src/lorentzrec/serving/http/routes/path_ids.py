"""Ids in paths."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias
from urllib.parse import unquote

from litestar.params import PathParameter

from lorentzrec.errors import InputError
from lorentzrec.serving.http.identifiers import PATTERN
from lorentzrec.serving.stores.store import LONGEST_ID

_SCHEMA = {"minLength": 1, "maxLength": LONGEST_ID, "pattern": PATTERN}
ItemInPath: TypeAlias = Annotated[str, PathParameter(description="The id of an item.", schema_extra=_SCHEMA)]
UserInPath: TypeAlias = Annotated[str, PathParameter(description="The id of a customer.", schema_extra=_SCHEMA)]


def from_path(part: str) -> str:
    """The id that a part of a path stands for: percent signs are decoded here, since `Gate` hands paths on as sent."""
    try:
        decoded = unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InputError("the id in the path is not UTF-8: encode it as UTF-8, then with percent signs") from None
    if len(decoded) > LONGEST_ID or not re.fullmatch(PATTERN[1:-1], decoded):
        raise InputError(f"the id in the path is empty, longer than {LONGEST_ID} or has control characters: check it")
    return decoded
