"""Query strings as messages: a parameter is a field of a message, as in a body, and a list is a repeated parameter."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec
from litestar.handlers import BaseRouteHandler

from lorentzrec.serving.http.messages import Fault, NoQuery
from lorentzrec.serving.http.problems import ServiceProblem, describe_unknown_field, find_fault

LONGEST_QUERY = 2**15
"""Bytes. It is decoded while other requests wait, so that long lists belong into a body."""

Query = TypeVar("Query", bound=msgspec.Struct)


@lru_cache
def query_type(handler: BaseRouteHandler) -> type[msgspec.Struct]:
    """The message of a handler's parameters: it takes a `StrictRequest` of that message."""
    request = handler.parsed_fn_signature.parameters.get("request")
    kinds: tuple[type[msgspec.Struct]] = get_args(request.annotation) if request else (NoQuery,)
    return kinds[0]


@lru_cache(maxsize=64)  # most clients send the same few parameters, or none
def decode_query(text: bytes, kind: type[Query]) -> Query:
    """The parameters of a request. Unknown ones are refused, and repeated ones that are no lists.

    An empty list is sent as a parameter without a value, `allow=`.
    """
    if len(text) > LONGEST_QUERY:
        raise ServiceProblem(
            f"the parameters are longer than {LONGEST_QUERY:,} bytes: send fewer ids, or a body with POST",
            414,
            "too-large",
        )
    try:
        pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        problem = "the parameters are not UTF-8: encode them as UTF-8, then with percent signs"
        raise ServiceProblem(problem, 400, "invalid-request") from None
    sent: dict[str, list[str]] = {}
    for name, value in pairs:
        sent.setdefault(name, []).append(value)
    lists, objects, faults = _lists(kind), _objects(kind), []
    values: dict[str, Any] = {}
    for name, texts in sent.items():
        if name not in lists:
            faults.append(Fault(name, describe_unknown_field(lists, "parameter", name)))
        elif name in objects and len(texts) == 1:
            try:
                values[name] = msgspec.json.decode(texts[0])
            except msgspec.DecodeError as error:
                faults.append(Fault(name, f"is no JSON ({error}): send an object, encoded with percent signs"))
        elif lists[name]:
            values[name] = [] if texts == [""] else texts
        elif len(texts) > 1:
            faults.append(Fault(name, f"is given {len(texts)} times: send it once"))
        else:
            values[name] = texts[0]
    try:
        if not faults:
            return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        faults.append(find_fault(error, "query"))
    detail = "; ".join(f"{fault.where}: {fault.what}" for fault in faults)
    raise ServiceProblem(detail, 400, "invalid-request", faults)


@cache
def _objects(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters of a message that are objects, which are sent as JSON."""
    return frozenset(name for name, schema in _fields(kind).items() if schema.get("type") == "object")


@cache
def _lists(kind: type[msgspec.Struct]) -> dict[str, bool]:
    """The parameters of a message, and whether each is a list."""
    return {
        name: any(part.get("type") == "array" for part in (schema, *schema.get("anyOf", ())))
        for name, schema in _fields(kind).items()
    }


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """The schemas of the parameters of a message."""
    _, schemas = msgspec.json.schema_components([kind])
    return dict(schemas[kind.__name__]["properties"])
