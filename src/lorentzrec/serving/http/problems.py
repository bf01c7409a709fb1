"""Problem documents (RFC 9457): the responses to requests that cannot be fulfilled."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.plugins.problem_details import ProblemDetailsConfig, ProblemDetailsException, ProblemDetailsPlugin

from lorentzrec.base.library_faults import locate_json_fault
from lorentzrec.errors import InputError, RecordDamaged, StoreUnavailable
from lorentzrec.serving.http.messages import IMAGE_PATTERN, TEXT_PATTERN, Fault, Problem
from lorentzrec.serving.rules.document import InvalidRules
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.versions.item_directory import DirectoryDamaged
from lorentzrec.serving.worker.guarded_store import STORE_UNAVAILABLE
from lorentzrec.serving.worker.query import ID_PATTERN
from lorentzrec.serving.worker.recommender import UnknownItem
from lorentzrec.serving.worker.version_watcher import NoVersion, UnknownArm

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1
"""The value of Retry-After: a worker polls its store about once per second."""

VERSION_DAMAGED = "files of the version are damaged, and the log of the service has the details: try again"

TITLES = {
    400: "The request is invalid",
    401: "An API key is required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "The store does not take this change",
    408: "The request took too long to arrive",
    413: "The request is too large",
    414: "The address is too long",
    415: "Unsupported media type",
    421: "The host name is not allowed",
    500: "The service failed",
    503: "The service is unavailable",
}
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": str(RETRY_SECONDS)}}

PATTERNS = {
    ID_PATTERN: "must have at least one character and no control characters",
    TEXT_PATTERN: "must not have control characters",
    IMAGE_PATTERN: "must be an address that begins with http:// or https://",
}
"""What texts must be, in words."""

logger = logging.getLogger("lorentzrec.serving")


class ServiceProblem(ProblemDetailsException):
    """An error response. `kind` becomes the `type` of the document, which is more specific than the status."""

    kind: str | None = None

    def __init__(
        self,
        detail: str,
        status: int | None = None,
        kind: str | None = None,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        status, kind = status or self.status_code, kind or self.kind
        super().__init__(
            detail=detail,
            status_code=status,
            title=TITLES.get(status, "The request failed"),
            type_=f"urn:lorentzrec:{kind}" if kind else "about:blank",
            headers={**HEADERS.get(status, {}), **(headers or {})},
            extra={"errors": errors} if errors else None,
        )


class NotReady(ServiceProblem):
    """There is no version to serve yet."""

    status_code, kind = 503, "not-ready"


class Overloaded(ServiceProblem):
    """A limit on what a worker does at once is reached."""

    status_code, kind = 503, "overloaded"


def describe_problems(*statuses: int) -> dict[int, ResponseSpec]:
    """The problems of a route for the OpenAPI document; 500 and 503, which every route has, are added."""
    return {
        status: ResponseSpec(Problem, generate_examples=False, description=TITLES[status], media_type=MEDIA_TYPE)
        for status in sorted({*statuses, 500, 503})
    }


PROBING = describe_problems(400, 414)
"""The problems of probes and metrics."""
READING = describe_problems(400, 401, 403, 414, 421)
READING_ITEM = describe_problems(400, 401, 403, 404, 414, 421)
WITH_BODY = describe_problems(400, 401, 403, 413, 414, 415, 421)
"""The problems of routes under /v1."""


def _from_litestar(error: HTTPException) -> ServiceProblem:
    """What Litestar found wrong: the path, the method, a parameter or the body."""
    kinds = {400: "invalid-request", 404: "no-such-route", 413: "too-large"}
    details = {
        404: "this path does not exist: see /schema",
        405: "this method is not allowed here: see /schema",
        413: "the body is too long for this service: send it in parts",
    }
    errors = _faults(error) if isinstance(error, ValidationException) else []
    status = error.status_code
    detail = "; ".join(f"{fault.where}: {fault.what}" for fault in errors) or details.get(status, error.detail)
    return ServiceProblem(detail, status, kinds.get(status), errors, error.headers)


def _faults(error: ValidationException) -> list[Fault]:
    """Litestar's errors in our terms: it calls the body data, and an empty body a missing key."""
    found = error.extra if isinstance(error.extra, list) else []
    pairs = [(one.get("key", "data"), one["message"]) for one in found if isinstance(one, dict) and "message" in one]
    return [
        Fault("body" if key == "data" else key, "is empty: send JSON" if what == "'data'" else what)
        for key, what in pairs
    ]


def find_fault(error: msgspec.ValidationError, whole: str) -> Fault:
    """What msgspec found wrong. `whole`: what the fault is in, if it is in no field."""
    where, what = locate_json_fault(error, whole)
    return Fault(where, next((text for pattern, text in PATTERNS.items() if repr(pattern) in what), what))


def describe_unknown_field(known: Iterable[str], noun: str, name: str) -> str:
    """Says that there is no field of this name, which may be misspelt, and lists those that there are."""
    known = list(known)
    near = difflib.get_close_matches(name, known, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    are = f"the {noun}s are {', '.join(known)}" if known else f"there are no {noun}s"
    return f"is not a {noun} here: {meant}{are}"


def _from_decoding(error: Exception) -> ServiceProblem:
    """A body that is not JSON, or not the JSON that the route takes."""
    invalid = partial(ServiceProblem, status=400, kind="invalid-request")
    match error:
        case msgspec.ValidationError():
            fault = find_fault(error, "body")
            return invalid(f"{fault.where}: {fault.what}", errors=[fault])
        case RecursionError():
            return invalid("the body is nested too deeply: send JSON that matches /schema")
        case UnicodeDecodeError():
            return invalid("the body is not UTF-8: send JSON that matches /schema")
    return invalid(f"{error}: send JSON that matches /schema")


def _from_damaged_record(error: RecordDamaged) -> ServiceProblem:
    logger.error("%s", error)
    return ServiceProblem(str(error), 500, "damaged-history")


def _from_input(error: InputError) -> ServiceProblem:
    if error.kind is StoreFault.LARGE_DETAILS:
        return ServiceProblem(str(error), 413, "too-large")
    if error.kind is StoreFault.LONG_LIVE_LIST:
        return ServiceProblem(str(error), 409, "too-many-live-items")
    if error.kind is StoreFault.OTHER_RULES:
        return ServiceProblem(str(error), 409, "other-rules")
    return ServiceProblem(str(error), 400, "invalid-request")


def _from_rules(error: InvalidRules) -> ServiceProblem:
    return ServiceProblem(str(error), 400, "invalid-rules", [Fault(*fault) for fault in error.faults])


def log_failure(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """The response to a defect: the log has the traceback, and the client a request id to find it by."""
    return _from_defect(error, str(request.scope.get("request_id", ""))).to_response(request)


def _from_defect(error: Exception, request_id: str) -> ServiceProblem:
    logger.error("request %s failed", request_id, exc_info=error)
    return ServiceProblem(f"look for request {request_id} in the log of the service", 500, "failed")


def to_problem(error: Exception, request_id: str) -> ServiceProblem:
    """The problem that an error becomes, as in Litestar's routes."""
    if isinstance(error, ServiceProblem):
        return error
    nearest = next((CONVERSIONS[kind] for kind in type(error).__mro__ if kind in CONVERSIONS), None)
    return _from_defect(error, request_id) if nearest is None else nearest(error)


CONVERSIONS: dict[type[Exception], Callable[[Any], ServiceProblem]] = {
    HTTPException: _from_litestar,
    msgspec.MsgspecError: _from_decoding,
    UnicodeDecodeError: _from_decoding,
    RecursionError: _from_decoding,
    InputError: _from_input,
    InvalidRules: _from_rules,
    UnknownItem: lambda error: ServiceProblem(str(error), 404, "unknown-item"),
    UnknownArm: lambda error: ServiceProblem(str(error), 404, "unknown-arm"),
    NoVersion: lambda error: NotReady(str(error)),
    DirectoryDamaged: lambda _: NotReady(VERSION_DAMAGED),
    RecordDamaged: _from_damaged_record,
    StoreUnavailable: lambda _: ServiceProblem(STORE_UNAVAILABLE, 503, "store-unavailable"),
}
"""The nearest class of an error decides; `log_failure` gets all others."""
PLUGIN = ProblemDetailsPlugin(ProblemDetailsConfig(exception_to_problem_detail_map=CONVERSIONS))
