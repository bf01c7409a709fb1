"""What a service answers when it cannot answer: problem documents (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import ExceptionHandlersMap

from lorentzrec.errors import InputError, LorentzrecError, RecordDamaged, StoreUnavailable
from lorentzrec.serving.http.messages import Fault, Problem
from lorentzrec.serving.recommending.recommender import UnknownItem
from lorentzrec.serving.versions.item_directory import DirectoryDamaged

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
"""What Retry-After says: a worker looks at its store about once a second."""

STORE_AWAY = "the store cannot answer now, and the log of the service says why: try again in a second"
"""What callers are told. Why it cannot may name internal hosts and users, which are for the log alone."""

HISTORY_DAMAGED = "the history of this customer is damaged in the store: erase the customer or restore a copy"

TITLES = {
    400: "The request cannot be used as it is",
    401: "A key is needed",
    403: "This is not allowed",
    404: "There is no such thing",
    405: "The method is not allowed here",
    408: "The request took too long to arrive",
    413: "The request is too large",
    415: "The media type cannot be read",
    421: "The service does not answer to this host name",
    500: "The service failed",
    503: "The service cannot answer now",
}

logger = logging.getLogger("lorentzrec.serving")


class ServiceUnavailable(LorentzrecError):  # noqa: N818, it is what the service answers with 503
    """The service has nothing to answer with yet, or too much to do."""


class Overloaded(LorentzrecError):  # noqa: N818, it is what the service answers with 503
    """A limit on what a worker does at once is reached."""


class ClientGone(LorentzrecError):  # noqa: N818, it is what a client does
    """The client closed the connection, or broke the rules of HTTP, before its request was complete."""


class NoMap(LorentzrecError):  # noqa: N818, it is what the service answers with 404
    """The version was published without a map."""


def problem(status: int, detail: str, kind: str | None = None, errors: list[Fault] | None = None) -> Problem:
    """The document of a status. `kind` names the problem more closely than the status does."""
    title = TITLES.get(status, "The request failed")
    return Problem(f"urn:lorentzrec:{kind}" if kind else "about:blank", title, status, detail, errors or [])


def described(*statuses: int) -> dict[int, ResponseSpec]:
    """The problems of a route, for the OpenAPI document; those that every route has need not be named."""
    return {
        status: ResponseSpec(Problem, generate_examples=False, description=TITLES[status], media_type=MEDIA_TYPE)
        for status in sorted({*statuses, 500, 503})
    }


def headers_of(status: int) -> dict[str, str]:
    match status:
        case 401:
            return {"WWW-Authenticate": "Bearer"}
        case 503:
            return {"Retry-After": str(RETRY_SECONDS)}
    return {}


def _respond(document: Problem, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    every = {**headers_of(document.status), **(headers or {})}
    return Response(document, status_code=document.status, media_type=MEDIA_TYPE, headers=every)


def _bad_request(_: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """What Litestar found wrong: a route, a method, a parameter, the body."""
    kinds = {400: "invalid-request", 404: "no-such-route", 413: "too-large"}
    hints = {
        404: "there is nothing at this path: see /schema",
        405: "the path takes other methods: see /schema",
        413: "the body is longer than this service takes: send it in parts",
    }
    errors = _faults(error) if isinstance(error, ValidationException) else []
    detail = "; ".join(f"{fault.where}: {fault.what}" for fault in errors) or hints.get(error.status_code, error.detail)
    return _respond(problem(error.status_code, detail, kinds.get(error.status_code), errors), error.headers)


def _faults(error: ValidationException) -> list[Fault]:
    """What Litestar says of each, in our words: it calls the body data, and a body that is missing a missing key."""
    found = error.extra if isinstance(error.extra, list) else []
    pairs = [(one.get("key", "data"), one["message"]) for one in found if isinstance(one, dict) and "message" in one]
    return [
        Fault("body" if key == "data" else key, "is empty: send JSON" if what == "'data'" else what)
        for key, what in pairs
    ]


def _unreadable(_: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """A body that is no JSON, or not the JSON that the route takes."""
    match error:
        case msgspec.ValidationError():
            what, _at, where = str(error).partition(" - at ")
            errors = [Fault(where.strip("`").removeprefix("$").lstrip(".") or "body", what)]
            detail = f"{errors[0].where}: {what}"
        case RecursionError():
            errors, detail = [], "the body is nested too deeply: send JSON as the schema has it"
        case UnicodeDecodeError():
            errors, detail = [], "the body is not UTF-8: send JSON as the schema has it"
        case _:
            errors, detail = [], f"{error}: send JSON as the schema has it"
    return _respond(problem(400, detail, "invalid-request", errors))


def _bad_input(_: Request[Any, Any, Any], error: LorentzrecError) -> Response[Problem]:
    match error:
        case UnknownItem():
            return _respond(problem(404, str(error), "unknown-item"))
        case DirectoryDamaged():
            detail = "files of the version are damaged, and the log of the service has the details: try again"
            return _respond(problem(503, detail, "not-ready"))
        case RecordDamaged():
            logger.error("%s", error)
            return _respond(problem(500, HISTORY_DAMAGED, "damaged-history"))
        case InputError():
            return _respond(problem(400, str(error), "invalid-request"))
        case NoMap():
            return _respond(problem(404, str(error), "no-map"))
        case StoreUnavailable():
            return _respond(problem(503, STORE_AWAY, "store-unavailable"))
        case ServiceUnavailable():
            return _respond(problem(503, str(error), "not-ready"))
        case Overloaded():
            return _respond(problem(503, str(error), "overloaded"))
        case ClientGone():  # a client that only stopped sending can still read this
            return _respond(problem(400, str(error), "invalid-request"))
    return _failed(_, error)


def _failed(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """A defect: the log has the traceback, and the caller a number to ask for it by."""
    request_id = request.scope.get("request_id", "")
    logger.error("request %s failed", request_id, exc_info=error)
    return _respond(problem(500, f"look for request {request_id} in the log of the service", "failed"))


EXCEPTION_HANDLERS: ExceptionHandlersMap = {
    HTTPException: _bad_request,
    msgspec.MsgspecError: _unreadable,
    UnicodeDecodeError: _unreadable,
    RecursionError: _unreadable,
    LorentzrecError: _bad_input,
    Exception: _failed,
}
