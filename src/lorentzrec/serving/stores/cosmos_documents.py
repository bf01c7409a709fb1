"""Documents of Cosmos DB. A write that another process was faster with is a `Conflict`; other failures are our errors.

What is retried, always within the limits below:

429                  throttled: after the delay that the server names
503                  the region is unavailable: once, in the next region if there is one
403/3                the region no longer accepts writes (fail-over): after the list of regions was read again
connection refused   in the next region
response lost        reads only

A write whose response is lost fails with `StoreUnavailable`. Whoever sends the same change again gets a `Conflict`,
reads the document, and finds the change there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from azure.cosmos.exceptions import (
    CosmosClientTimeoutError,
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

from lorentzrec.errors import InputError, StoreBroken, StoreUnavailable, how_to_get

CALL_LIMITS: dict[str, Any] = {"timeout": 4, "connection_timeout": 2, "read_timeout": 4}
"""Seconds for one request, retries included. The service stops waiting earlier (`store_seconds`); this ends the request
as well, so that its thread is free again and no write happens long after the 503."""
TRANSFER_LIMITS: dict[str, Any] = {"timeout": 120, "connection_timeout": 30, "read_timeout": 30}
"""The same for a part of a version, which is large and may exceed the provisioned throughput, and a new container."""
THROTTLED_TRIES, THROTTLED_SECONDS = 200, 120
"""Enough for the limits above, which are what ends the retries."""
HEDGE_MILLISECONDS = 500
"""A read that its region has not answered by then is sent to the next region as well."""

Document = dict[str, Any]


class Conflict(Exception):  # noqa: N818 - not a failure: the caller reads again and repeats
    """Another process has changed, created or removed the document."""


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
        with self._told():
            self._client = CosmosClient(
                f"{'http' if plain else 'https'}://{parts.netloc}",
                key or _identity(),
                # An emulator names an address of its own that may not be the one that leads to it.
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
            account = self._client.get_database_account()
        if account._EnableMultipleWritableLocations:
            self.close()
            raise InputError(
                f"{self.url} accepts writes in several regions, where simultaneous writes overwrite one another: "
                "use an account with one write region"
            )

    def container(self, name: str, partition: str, *, create: bool) -> Documents:
        """The container `name`, whose documents lie together that have the same value of `partition`."""
        database = self._client.get_database_client(self._database)
        with self._told():
            if create:
                # Nothing is searched for but ids and partitions: an index of all events would cost more than they do.
                paths = {"includedPaths": [{"path": f"/{partition}/?"}], "excludedPaths": [{"path": "/*"}]}
                with suppress(CosmosResourceExistsError):  # another process was faster
                    self._client.create_database_if_not_exists(self._database, **TRANSFER_LIMITS)
                with suppress(CosmosResourceExistsError):
                    database.create_container_if_not_exists(
                        name,
                        PartitionKey(f"/{partition}"),
                        indexing_policy={"indexingMode": "consistent", **paths},
                        **TRANSFER_LIMITS,
                    )
            container = database.get_container_client(name)
            try:
                container.read(**CALL_LIMITS)
            except CosmosResourceNotFoundError:
                raise InputError(f"{self.url} holds no store: publish a model to it first") from None
        return Documents(self, container, partition)

    def close(self) -> None:
        self._closed = True
        self._client.__exit__()  # type: ignore[no-untyped-call]

    @contextmanager
    def _told(self) -> Iterator[None]:
        if self._closed:
            raise StoreUnavailable(f"{self.url} is closed: open it again")
        try:
            yield
        except CosmosHttpResponseError as error:
            reason = " ".join(str(error.message).split())[:200]
            if error.status_code == 401 or (error.status_code == 403 and error.sub_status not in (3, 1008)):
                raise StoreBroken(
                    f"{self.url} refuses ({reason}): check COSMOS_KEY, or the role of the identity"
                ) from error
            if error.status_code in (400, 413):
                # The request is at fault, and the message reaches its sender: it must not name the address.
                raise InputError(
                    f"the store cannot keep this (status {error.status_code}): make it smaller or simpler"
                ) from error
            raise StoreUnavailable(
                f"{self.url} cannot answer now ({reason}): look at the account, try again"
            ) from error
        except CosmosClientTimeoutError as error:
            if getattr(error.inner_exception, "status_code", None) == 429:
                raise StoreUnavailable(
                    f"{self.url} is throttled (429): give it more request units per second, try again"
                ) from error
            raise StoreUnavailable(f"{self.url} has not answered in time: look at the network, try again") from error
        except ClientAuthenticationError as error:
            reason = " ".join(str(error).split())[:200]
            raise StoreUnavailable(
                f"{self.url} needs a credential, and there is none ({reason}): set COSMOS_KEY or assign an identity"
            ) from error
        except AzureError as error:
            reason = " ".join(str(error).split())[:200]
            raise StoreUnavailable(
                f"{self.url} cannot be reached ({reason}): look at the network, try again"
            ) from error


class Documents:
    """The documents of one container. Those of one partition are read by one cheap request."""

    def __init__(
        self,
        account: Account,
        container: ContainerProxy,
        partition: str,
        limits: Mapping[str, Any] = CALL_LIMITS,
    ) -> None:
        self._account = account
        self._container = container
        self._partition = partition
        self._limits = dict(limits)

    def for_transfers(self) -> Documents:
        """The same documents with longer time limits, for the parts of a version."""
        return Documents(self._account, self._container, self._partition, TRANSFER_LIMITS)

    def read(self, partition: str, id: str) -> Document | None:
        with self._account._told():
            try:
                return dict(self._container.read_item(id, partition, **self._limits))
            except CosmosHttpResponseError as error:
                if _is_missing(error):
                    return None
                if error.status_code != 500:
                    raise
        # An emulator fails over an id that it does not know; a search says for sure.
        found = self._search(partition, "*", id)
        return found[0] if found else None

    def all(self, partition: str, fields: str = "*") -> list[Document]:
        """All documents of a partition in the order of their ids, or only some of their fields."""
        return sorted(self._search(partition, fields), key=lambda document: str(document["id"]))

    def _search(self, partition: str, fields: str, id: str | None = None) -> list[Document]:
        query = f"SELECT {fields} FROM c WHERE c.{self._partition} = @partition"
        parameters: list[Document] = [{"name": "@partition", "value": partition}]
        if id is not None:
            query += " AND c.id = @id"
            parameters.append({"name": "@id", "value": id})
        with self._account._told():
            return list(
                self._container.query_items(query, parameters=parameters, partition_key=partition, **self._limits)
            )

    def everywhere(self, fields: str) -> list[Document]:
        """Some fields of all documents of the container: a search through all partitions, for rare use."""
        with self._account._told():
            found = self._container.query_items(
                f"SELECT {fields} FROM c", enable_cross_partition_query=True, **self._limits
            )
            return cast(list[Document], list(found))

    def create(self, document: Document) -> Document:
        """Make a document that is not there yet; gives it back with its ETag."""
        with self._account._told(), _conflicts():
            return dict(self._container.create_item(document, **self._limits))

    def put(self, document: Document) -> None:
        """Make a document or replace it, whoever wrote it."""
        with self._account._told():
            self._container.upsert_item(document, **self._limits)

    def replace(self, document: Document) -> Document:
        """Replace a document if it is still the one that was read."""
        with self._account._told(), _conflicts():
            return dict(
                self._container.replace_item(
                    document["id"],
                    document,
                    etag=document["_etag"],
                    match_condition=MatchConditions.IfNotModified,
                    **self._limits,
                )
            )

    def delete(self, document: Document) -> None:
        """Remove a document if it is still the one that was read, or whatever it is now if it was read without ETag."""
        condition: Document = {}
        if "_etag" in document:
            condition = {"etag": document["_etag"], "match_condition": MatchConditions.IfNotModified}
        with self._account._told(), _conflicts():
            self._container.delete_item(document["id"], document[self._partition], **condition, **self._limits)


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except CosmosHttpResponseError as error:
        # 449: two writes of one document at the same moment, neither of which was done.
        if _is_missing(error) or error.status_code in (409, 412, 449):
            raise Conflict from error
        raise


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
    """Managed identity, workload identity, the variables AZURE_*, or the Azure CLI: whichever is there."""
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError as error:
        raise InputError(f"neither COSMOS_KEY nor azure-identity is there: {how_to_get('azure')}") from error
    return DefaultAzureCredential()
