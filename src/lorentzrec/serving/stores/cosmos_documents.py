"""Documents of Cosmos DB with their concurrency made plain: a write that somebody else was faster with is a `Conflict`.

Every other failure becomes one of our own errors here, and a server that is gone is told within seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast
from urllib.parse import urlsplit

from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.cosmos import ContainerProxy, CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError, CosmosResourceExistsError, CosmosResourceNotFoundError

from lorentzrec.errors import InputError, StoreBroken, StoreUnavailable, how_to_get

CONNECT_SECONDS, READ_SECONDS = 3, 5
THROTTLED_TRIES, THROTTLED_SECONDS = 9, 10
"""A request above the booked throughput (429) is repeated after the delay that the server names, so often, so long."""

Document = dict[str, Any]


class Conflict(Exception):  # noqa: N818 - not a failure: the caller reads again and repeats
    """Somebody else changed, made or removed the document meanwhile."""


class Account:
    """A database of a Cosmos DB account, with the key from COSMOS_KEY, else with whoever azure-identity finds."""

    def __init__(self, address: str) -> None:
        self._closed = False
        parts = urlsplit(address)
        self._database = parts.path.strip("/")
        if not parts.netloc or not self._database or "/" in self._database or parts.username:
            raise InputError(f"{parts.scheme}://.../ is not complete: give {parts.scheme}://ACCOUNT-HOST/DATABASE")
        self.url = f"{parts.scheme}://{parts.netloc}/{self._database}"
        with self._told():
            self._client = CosmosClient(
                f"{'http' if parts.scheme.endswith('+http') else 'https'}://{parts.netloc}",
                os.environ.get("COSMOS_KEY") or _identity(),
                enable_endpoint_discovery=not parts.scheme.endswith("+http"),
                connection_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retry_total=THROTTLED_TRIES,
                retry_backoff_max=THROTTLED_SECONDS,
                retry_connect=1,
                retry_read=0,
            )

    def container(self, name: str, partition: str, *, create: bool) -> Documents:
        """The container `name`, whose documents lie together that have the same value of `partition`."""
        database = self._client.get_database_client(self._database)
        with self._told():
            if create:
                # Nothing is searched for but ids and partitions: an index of all events would cost more than they do.
                paths = {"includedPaths": [{"path": f"/{partition}/?"}], "excludedPaths": [{"path": "/*"}]}
                with suppress(CosmosResourceExistsError):  # another process was faster
                    self._client.create_database_if_not_exists(self._database)
                with suppress(CosmosResourceExistsError):
                    database.create_container_if_not_exists(
                        name, PartitionKey(f"/{partition}"), indexing_policy={"indexingMode": "consistent", **paths}
                    )
            container = database.get_container_client(name)
            try:
                container.read()
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
            if error.status_code in (401, 403):
                raise StoreBroken(f"{self.url} refuses ({reason}): check COSMOS_KEY or the rights") from error
            if error.status_code in (400, 413):
                # It is the fault of whoever asked, and reaches them: it must not name the address.
                raise InputError(
                    f"the store cannot keep this (status {error.status_code}): make it smaller or simpler"
                ) from error
            raise StoreUnavailable(
                f"{self.url} cannot answer now ({reason}): look at the account, try again"
            ) from error
        except AzureError as error:
            reason = " ".join(str(error).split())[:200]
            raise StoreUnavailable(
                f"{self.url} cannot be reached ({reason}): look at the network, try again"
            ) from error


class Documents:
    """The documents of one container. Those of one partition are read by one cheap request."""

    def __init__(self, account: Account, container: ContainerProxy, partition: str) -> None:
        self._account = account
        self._container = container
        self._partition = partition

    def read(self, partition: str, id: str) -> Document | None:
        with self._account._told():
            try:
                return dict(self._container.read_item(id, partition))
            except CosmosHttpResponseError as error:
                if error.status_code == 404:
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
            return list(self._container.query_items(query, parameters=parameters, partition_key=partition))

    def everywhere(self, fields: str) -> list[Document]:
        """Some fields of all documents of the container: a search through all partitions, for rare use."""
        with self._account._told():
            query = f"SELECT {fields} FROM c"
            return cast(list[Document], list(self._container.query_items(query, enable_cross_partition_query=True)))

    def create(self, document: Document) -> Document:
        """Make a document that is not there yet; gives it back with its ETag."""
        with self._account._told(), _conflicts():
            return dict(self._container.create_item(document))

    def put(self, document: Document) -> None:
        """Make a document or replace it, whoever wrote it."""
        with self._account._told():
            self._container.upsert_item(document)

    def replace(self, document: Document) -> Document:
        """Replace a document if it is still the one that was read."""
        with self._account._told(), _conflicts():
            return dict(
                self._container.replace_item(
                    document["id"], document, etag=document["_etag"], match_condition=MatchConditions.IfNotModified
                )
            )

    def delete(self, document: Document) -> None:
        """Remove a document if it is still the one that was read, or whatever it is now if it was read without ETag."""
        condition: Document = {}
        if "_etag" in document:
            condition = {"etag": document["_etag"], "match_condition": MatchConditions.IfNotModified}
        with self._account._told(), _conflicts():
            self._container.delete_item(document["id"], document[self._partition], **condition)


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except CosmosHttpResponseError as error:
        if error.status_code in (404, 409, 412):
            raise Conflict from error
        raise


def _identity() -> Any:
    try:
        from azure.identity import DefaultAzureCredential
    except ImportError as error:
        raise InputError(f"neither COSMOS_KEY nor azure-identity is there: {how_to_get('azure')}") from error
    return DefaultAzureCredential()
