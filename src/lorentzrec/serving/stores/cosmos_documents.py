"""Documents of Cosmos DB. A write that lost a race with another process is a `Conflict`; others fail as `StoreFault`.

What is retried, always within the limits below:

429                  throttled: after the delay that the server names
503                  the region is unavailable: once, in the next region if there is one
403/3                the region no longer accepts writes (fail-over): after the list of regions was read again
connection refused   in the next region
response lost        reads only

A write whose response is lost fails with `StoreUnavailable`. A caller that sends the same change again gets a
`Conflict`, reads the document, and finds the change there.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Any
from urllib.parse import parse_qs, urlsplit

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from azure.cosmos._cosmos_client_connection import CosmosClientConnection
from azure.cosmos.exceptions import (
    CosmosClientTimeoutError,
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

from lorentzrec.base.library_faults import require_extra
from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.faults import StoreFault

CALL_LIMITS: dict[str, Any] = {"timeout": 4, "connection_timeout": 2, "read_timeout": 4}
"""Seconds for one request, retries included. The service stops waiting earlier (`store_seconds`); this ends the request
as well, so that its thread is free again and no write happens long after the 503."""
TRANSFER_LIMITS: dict[str, Any] = {"timeout": 120, "connection_timeout": 30, "read_timeout": 30}
"""The same for a part of a version, which is large and may exceed the provisioned throughput, and a new container."""
THROTTLED_TRIES, THROTTLED_SECONDS = 200, 120
"""Enough for the limits above, which are what ends the retries."""
HEDGE_MILLISECONDS = 500
"""A read that has no response from its region by then is sent to the next region as well."""

Document = dict[str, Any]


class Conflict(Exception):  # noqa: N818 - not a failure: the caller reads again and repeats
    """Another process has changed, created or removed the document."""


class _Connection(CosmosClientConnection):
    """Keeps the headers of the last response by thread.

    The SDK adds to them after each call, and fails if another thread is copying them at that moment.
    """

    _own = threading.local()

    @property
    def last_response_headers(self) -> Any:
        return getattr(self._own, "headers", {})

    @last_response_headers.setter
    def last_response_headers(self, headers: Any) -> None:
        self._own.headers = headers


class Account:
    """A database of a Cosmos DB account, opened with the key in COSMOS_KEY, else with what azure-identity finds."""

    def __init__(self, address: str) -> None:
        self._closed = False
        parts = urlsplit(address)
        self._database = parts.path.strip("/")
        if not parts.netloc or not self._database or "/" in self._database or parts.username:
            raise InputError(f"{parts.scheme}://.../ is not complete: give {parts.scheme}://ACCOUNT-HOST/DATABASE")
        self.url = f"{parts.scheme}://{parts.netloc}/{self._database}"
        regions = _regions(parts.query, self.url)
        plain = parts.scheme.endswith("+http")
        key = os.environ.get("COSMOS_KEY")
        if plain and not key:
            raise InputError(f"{self.url} is not encrypted, so no identity is sent to it: set COSMOS_KEY")
        with self.explain_errors():
            self._client = CosmosClient(
                f"{'http' if plain else 'https'}://{parts.netloc}",
                key or _identity(),
                # An emulator reports an address of its own that clients may not be able to reach.
                enable_endpoint_discovery=bool(regions) or not plain,
                preferred_locations=regions,
                availability_strategy=len(regions) > 1 and {"threshold_ms": HEDGE_MILLISECONDS},
                connection_timeout=CALL_LIMITS["connection_timeout"],
                read_timeout=CALL_LIMITS["read_timeout"],
                retry_throttle_total=THROTTLED_TRIES,
                retry_throttle_backoff_max=THROTTLED_SECONDS,
                retry_total=1,
                retry_connect=0 if len(regions) > 1 else 1,  # with several regions, the next one is tried instead
                retry_read=0 if len(regions) > 1 else 1,
                retry_backoff_factor=0.1,
            )
            self._client.client_connection.__class__ = _Connection

    def refuse_several_regions(self) -> None:
        """An error if the account accepts writes in several regions."""
        with self.explain_errors():
            account = self._client.get_database_account()
        if account._EnableMultipleWritableLocations:
            raise StoreFault.SEVERAL_REGIONS.error(store=self.url)

    def container(self, name: str, partition: str, *, create: bool) -> Documents:
        """The container `name`, whose partitions are the documents with the same value of the field `partition`."""
        database = self._client.get_database_client(self._database)
        with self.explain_errors():
            if create:
                # Queries use only ids and partitions: an index of all events would cost more than the events.
                paths = {"includedPaths": [{"path": f"/{partition}/?"}], "excludedPaths": [{"path": "/*"}]}
                policy = {"indexingMode": "consistent", **paths}
                with suppress(CosmosResourceExistsError):  # another process was first
                    self._client.create_database_if_not_exists(self._database, **TRANSFER_LIMITS)
                with suppress(CosmosResourceExistsError):
                    database.create_container_if_not_exists(
                        name, PartitionKey(f"/{partition}"), indexing_policy=policy, **TRANSFER_LIMITS
                    )
            container = database.get_container_client(name)
            try:
                container.read(**CALL_LIMITS)
            except CosmosResourceNotFoundError:
                raise StoreFault.NO_STORE.error(store=self.url) from None
        return Documents(self, container, partition)

    def close(self) -> None:
        self._closed = True
        self._client.__exit__()  # type: ignore[no-untyped-call]

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        if self._closed:
            raise StoreFault.CLOSED.error(store=self.url)
        try:
            yield
        except AzureError as error:
            raise self._explain(error) from error

    def _explain(self, error: AzureError) -> LorentzrecError:
        reason = " ".join(str(error.message).split())[:200]
        match error:
            case CosmosClientTimeoutError():
                throttled = getattr(error.inner_exception, "status_code", None) == 429
                return (StoreFault.THROTTLED if throttled else StoreFault.TIMED_OUT).error(store=self.url)
            case CosmosHttpResponseError(status_code=401 | 403) if error.sub_status not in (3, 1008):
                check = "COSMOS_KEY, or the role of the identity"
                return StoreFault.REFUSED.error(store=self.url, reason=reason, check=check)
            case CosmosHttpResponseError(status_code=400 | 413):
                return StoreFault.TOO_LARGE.error(status=error.status_code)
            case CosmosHttpResponseError():
                return StoreFault.NOT_RESPONDING.error(store=self.url, reason=reason)
            case ClientAuthenticationError():
                return StoreFault.NO_CREDENTIAL.error(store=self.url, reason=reason)
        return StoreFault.UNREACHABLE.error(store=self.url, reason=reason)


@dataclass
class Documents:
    """The documents of one container. Those of one partition are read by one cheap request."""

    _account: Account
    _container: ContainerProxy
    _partition: str
    _limits: dict[str, Any] = field(default_factory=CALL_LIMITS.copy)

    def for_transfers(self) -> Documents:
        """The same documents with longer time limits, for the chunks of a version."""
        return replace(self, _limits=TRANSFER_LIMITS)

    def read(self, partition: str, id: str) -> Document | None:
        with self._account.explain_errors():
            try:
                return dict(self._container.read_item(id, partition, **self._limits))
            except CosmosHttpResponseError as error:
                if _is_missing(error):
                    return None
                if error.status_code != 500:
                    raise
        # An emulator fails on an id that it does not know; a search is reliable.
        return next(iter(self.all(partition, condition="c.id = @id", id=id)), None)

    def all(self, partition: str, fields: str = "*", condition: str = "", **values: object) -> list[Document]:
        """The documents of a partition in the order of their ids, or only some of their fields.

        condition: on a document `c`, with @NAME for each of the `values`. Only ids have an index: all are scanned.
        """
        with self._account.explain_errors():
            return sorted(self._search(partition, fields, condition, values), key=lambda found: str(found["id"]))

    def first(self, limit: int, order: str, partition: str, condition: str = "", **values: object) -> list[Document]:
        """As `all`, but the first documents by the field `order`. No more than these are in memory at once."""
        with self._account.explain_errors():
            return nsmallest(limit, self._search(partition, "*", condition, values), key=lambda found: found[order])

    def everywhere(self, fields: str) -> list[Document]:
        """Some fields of all documents of the container: a search through all partitions, for rare use."""
        with self._account.explain_errors():
            query = f"SELECT {fields} FROM c"
            return list(self._container.query_items(query, enable_cross_partition_query=True, **self._limits))

    def scan(self, fields: str, condition: str, **values: object) -> Iterator[Document]:
        """Some fields of the documents of all partitions that meet a condition (see `all`), as they arrive."""
        query = f"SELECT {fields} FROM c WHERE {condition}"
        options = {"enable_cross_partition_query": True, "enable_scan_in_query": True, **self._limits}
        options["parameters"] = [{"name": f"@{name}", "value": value} for name, value in values.items()]
        with self._account.explain_errors():
            yield from self._container.query_items(query, **options)

    def count_bytes(self) -> int | None:
        """The size of all documents and their index; None if the server does not report it."""
        with self._account.explain_errors():
            self._container.read(populate_quota_info=True, **self._limits)
            headers = self._container.client_connection.last_response_headers
        usage = dict(re.findall(r"(\w+)=(\d+)", str(headers.get("x-ms-resource-usage", ""))))
        return 1024 * int(usage["collectionSize"]) if "collectionSize" in usage else None

    def _search(self, partition: str, fields: str, condition: str, values: Mapping[str, object]) -> Iterable[Document]:
        query = f"SELECT {fields} FROM c WHERE c.{self._partition} = @partition"
        query += f" AND {condition}" if condition else ""
        parameters = [
            {"name": f"@{name}", "value": value} for name, value in {**values, "partition": partition}.items()
        ]
        return self._container.query_items(
            query,
            parameters=parameters,
            partition_key=partition,
            enable_scan_in_query=bool(condition),
            **self._limits,
        )

    def put(self, document: Document) -> None:
        """Create or replace a document, unconditionally."""
        with self._account.explain_errors():
            self._container.upsert_item(document, **self._limits)

    def create(self, document: Document) -> Document:
        """Create a document that is not there yet; returns it with its ETag."""
        return dict(self._write(self._container.create_item, document))

    def replace(self, document: Document) -> Document:
        """Replace a document if it is still the one that was read; returns it with its new ETag."""
        return dict(self._write(self._container.replace_item, document["id"], document, **_if_unchanged(document)))

    def delete(self, document: Document) -> None:
        """Remove a document if it is still the one that was read; unconditionally if it was read without ETag."""
        condition = _if_unchanged(document) if "_etag" in document else {}
        self._write(self._container.delete_item, document["id"], document[self._partition], **condition)

    def _write(self, operation: Callable[..., Any], *arguments: Any, **condition: Any) -> Any:
        with self._account.explain_errors():
            try:
                return operation(*arguments, **condition, **self._limits)
            except CosmosHttpResponseError as error:
                # 449: two writes of one document at the same moment, neither of which was done.
                if _is_missing(error) or error.status_code in (409, 412, 449):
                    raise Conflict from error
                raise


def _if_unchanged(document: Document) -> dict[str, Any]:
    return {"etag": document["_etag"], "match_condition": MatchConditions.IfNotModified}


def _is_missing(error: CosmosHttpResponseError) -> bool:
    """The document is not there. With a sub-status, a 404 means that a replica lags behind or the container is gone."""
    return error.status_code == 404 and not error.sub_status


def _regions(query: str, url: str) -> list[str]:
    """The preferred regions of an address, in their order."""
    options = parse_qs(query, keep_blank_values=True)
    regions = [region.strip() for text in options.pop("regions", []) for region in text.split(",")]
    if options or not all(regions):
        raise InputError(f"{url}?{query} has an unknown option: give ?regions=REGION,REGION or nothing")
    return regions


def _identity() -> Any:
    """Managed identity, workload identity, the variables AZURE_*, or the Azure CLI: the first that is there."""
    with require_extra("azure", "neither COSMOS_KEY nor azure-identity is available"):
        from azure.identity import DefaultAzureCredential
    return DefaultAzureCredential()
