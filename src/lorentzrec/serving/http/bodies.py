"""Bodies of requests: JSON of exactly the declared type, without keys that occur twice."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from lorentzrec.serving.http.messages import Fault
from lorentzrec.serving.http.problems import ServiceProblem, describe_unknown_field

_ESCAPES = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
"""Pairs of surrogates, a surrogate alone (the group), and other escapes."""

_UNKNOWN = re.compile("Object contains unknown field `(.*)`", re.DOTALL)


def decode_body(body: bytes, kind: Any) -> Any:
    """The message in a body.

    A key that occurs twice is refused, where msgspec would take the last value. A whole number may be written 330.0: in
    the OpenAPI document it is an integer.
    """
    try:
        found = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        if unknown := _UNKNOWN.fullmatch(str(error)):
            fault = Fault(unknown[1], describe_unknown_field(kind.__struct_fields__, "field", unknown[1]))
            raise ServiceProblem(f"{fault.where}: {fault.what}", 400, "invalid-request", [fault]) from None
        if "got `float`" not in str(error):
            raise
        found = _decode_whole_numbers(body, kind, error)
    except msgspec.DecodeError:
        if any(match[1] for match in _ESCAPES.finditer(body)):
            problem = r"a text has half of a character, such as \ud83d without \ude00: send both halves, or UTF-8"
            raise ServiceProblem(problem, 400, "invalid-request") from None
        raise
    if _may_repeat_keys(body):
        json.loads(body, object_pairs_hook=_refuse_repeated)
    return found


def _decode_whole_numbers(body: bytes, kind: Any, error: msgspec.ValidationError) -> Any:
    """The message in a body that is not valid by `error`, with numbers such as 330.0 as integers."""

    def whole(text: str) -> float:
        number = float(text)
        return int(number) if number.is_integer() else number

    try:
        msgspec.json.decode(body)  # which is stricter than json: about NaN, and surrogates
        found = json.loads(body, parse_float=whole)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise error from None
    return msgspec.convert(found, kind)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ServiceProblem(
                f"{name}: is in one object twice: send it once",
                400,
                "invalid-request",
                [Fault(name, "is in one object twice: send it once")],
            )
        seen.add(name)


def _may_repeat_keys(body: bytes) -> bool:
    """Whether it is worth looking. A key is the last text before a colon, and colons are few, even in long bodies.

    Texts with colons may seem to be keys as well. A key may be written with escapes in two ways.
    """
    names = [before.rstrip().rpartition(b'"')[0].rpartition(b'"')[2] for before in body.split(b":")[:-1]]
    return len(set(names)) < len(names) or b"\\" in body
