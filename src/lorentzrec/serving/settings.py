"""The settings of a service: its store, who may use it, and its limits."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from lorentzrec.base.field_checks import PositiveInt, Range, check_fields
from lorentzrec.errors import ConfigError
from lorentzrec.serving.stores.new_items import MOST_CUSTOMERS

SERVICE_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The private folder that the workers of a service share, if set. The name is that of prometheus_client, which reads it
when imported: each process then keeps its metrics in files of that folder."""
HOST_NAME = re.compile(r"[\w.-]+|\[?[0-9a-fA-F]*:[0-9a-fA-F:.]+\]?", re.ASCII)
"""A name, an IPv4 address, or an IPv6 address with or without brackets."""

Seconds: TypeAlias = Annotated[float, Range(above=0)]


@dataclass(frozen=True)
class ServiceSettings:
    """Everything that the workers of a service need. The only secret is a password in `store`, which is not printed."""

    store: str = field(repr=False)
    """The address of the store: file:DIR, postgresql://... or cosmos://...

    Change it for each installation; `docs/serving.md` has the forms.
    """
    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 for all.

    Change it to 0.0.0.0 in a container or for clients on other machines, who need a key: see `api_key_file`.
    """
    port: Annotated[int, Range(0, 65535)] = 8000
    """The port to listen on; 0 for any that is free.

    Change it if 8000 is taken.
    """
    workers: PositiveInt = 1
    """Processes. They share the memory of large version files, which each of them maps.

    Change it to the number of cores for throughput; the command line does so by default.
    """
    api_key_file: Path | None = None
    """Require an API key from this file: one per line, followed by `read` if read-only and by `name=NAME`. SIGHUP reads
    the file again.

    Change it whenever others can reach the service.
    """
    no_keys: bool = False
    """Serve without API keys on an address other than loopback: anyone who can reach it may read and write.

    Change it if a gateway in front of the service checks who may use it.
    """
    allowed_hosts: tuple[str, ...] = ()
    """A host name that clients use for the service, `*` for any. Repeatable. Without API keys, names other than
    localhost and `host` are refused.

    Change it to the names that clients and gateways use, where there are no API keys.
    """
    cache: Path | None = None
    """Folder for versions from a remote store; by default one in the user's cache.

    Change it if the home folder is read-only or small; versions are downloaded to it from PostgreSQL and Cosmos DB.
    """
    allowed_origins: tuple[str, ...] = ()
    """A web site whose pages may call the service from a browser, `*` for any. Repeatable.

    Change it to call the service from the pages of a shop.
    """
    new_items_from: Literal["events", "put", "none"] = "events"
    """Where items that the version does not contain come from. events: from `PUT /v1/items/{id}`, or from the events of
    several customers. put: from `PUT` only. none: only items of the version are recommended. All events are stored.

    Change it to `put` if the ids in events are not reliable, to `none` if only trained items may be recommended.
    """
    new_items: PositiveInt = 10_000
    """Largest number of items that the version does not contain: of those by `PUT`, and of those by events only.

    Change it to more for catalogues that change quickly; an item may take 16 KiB of memory in each worker.
    """
    event_item_customers: Annotated[int, Range(1, MOST_CUSTOMERS)] = 3
    """An item by events only is recommended when this many customers have interacted with it. The first 20 are counted.

    Change it to more if ids that do not exist arrive from several customers.
    """
    event_item_share: Annotated[float, Range(0, 1)] = 0.2
    """Largest share of a response for items by events only; there is room for at least one of them, unless this is 0.

    Change it to 1 if the ids in events can be trusted.
    """
    explore: Annotated[float, Range(0, 1)] = 0.0
    """The share of the places in every response that goes to new items; a request may choose another.

    Change it to about 0.1 so that new items get their first customers.
    """
    probe_port: Annotated[int, Range(1, 65535)] | None = None
    """A port of its own for `/healthz`, `/readyz` and `/metrics`, at the same address; None: only `port` has them.

    Change it in production: connections of clients cannot keep probes out there, however many there are.
    """
    log_format: Literal["text", "json"] = "text"
    """Log lines for people, or for machines.

    Change it to `json` if logs are collected by a system.
    """
    log_level: Literal["info", "warning"] = "info"
    """info: one line per request. warning: problems only.

    Change it to `warning` under heavy traffic.
    """
    log_sample: Annotated[float, Range(0, 1)] = 1.0
    """The share of requests with a line in the log. Errors and requests that take half a second always have one.

    Change it to 0.01 under heavy traffic: a line takes as long as ranking a request.
    """
    event_weights: Mapping[str, float] = field(default_factory=dict)
    """Kind of event -> weight, negative for a dislike; if empty, those of the dataset of the version.

    Change it if the dataset was prepared without weights, or they should differ in the service.
    """
    poll_seconds: Seconds = 1.0
    """How often a worker checks for a new version, other live items and new items.

    Change it to more if every read of the store costs money; new versions are then noticed later.
    """
    trend_seconds: Seconds = 45.0
    """How often a worker counts the customers of the last days, for trends and popular items.

    Change it to more if every read of the store costs money.
    """
    store_seconds: Seconds = 2.0
    """How long a request waits for the store, at most.

    Change it to more for a store that is far away.
    """
    store_threads: PositiveInt = 16
    """Largest number of calls to the store under way in one worker.

    Change it to more for a slow store with many requests at once.
    """
    store_connections: PositiveInt | None = None
    """Largest number of connections of one worker to PostgreSQL; None: two for each of `store_threads`: none waits.

    Change it to less if the server has few: pods x workers x this number have to fit into its `max_connections`.
    """
    request_seconds: Seconds = 10.0
    """How long a request may take, including reading its body.

    Change it to more for large batches over slow connections.
    """
    shutdown_seconds: PositiveInt = 15
    """How long requests under way may take once the service is stopping.

    Change it to less than the grace period of your orchestrator.
    """
    request_threads: PositiveInt = 4
    """Requests that a worker computes in parallel: more would only compete for its core and Python's lock.

    Change it rarely.
    """
    concurrent_requests: PositiveInt = 128
    """Largest number of requests with complete bodies in one worker; further ones get a 503.

    Change it to less to refuse early, to more for clients that tolerate waiting.
    """
    body_bytes: PositiveInt = 2**20
    """Largest body of a request; longer ones get a 413.

    Change it to more for long lists of live items or histories.
    """
    arriving_bodies: PositiveInt = 1_024
    """Largest number of bodies that a worker receives at once; beyond it, the oldest is given up.

    Change it rarely; it bounds memory against slow clients.
    """
    arriving_bytes: PositiveInt = 64 * 2**20
    """Largest total size of incomplete bodies in a worker; beyond it, the largest body is given up.

    Change it rarely; it bounds memory against slow clients.
    """
    connections: PositiveInt = 4_096
    """Largest number of open connections of a worker. Idle ones count, so there are more of them than bodies.

    Change it to more if a gateway keeps many connections open.
    """

    idle_seconds: Annotated[float, Range(1)] = 15.0
    """How long a connection may be open without a complete request header, before the first request and between two.

    Change it to more than the time for which a gateway keeps idle connections to the service, or shorten that time.
    """

    def __post_init__(self) -> None:
        check_fields(self, as_options=True)
        if self.probe_port == self.port:
            raise ConfigError(f"the port {self.port} is for requests: give probes another one, or none")
        if self.no_keys and self.api_key_file is not None:
            raise ConfigError("`no_keys` is for a service without `api_key_file`: give one of them")
        if self.api_key_file is None and not self.no_keys and not self.is_private:
            raise ConfigError(
                f"others can reach {self.host}, and there are no API keys: give `api_key_file`, or `no_keys` if a "
                "gateway checks who may read and write"
            )
        for kind, weight in self.event_weights.items():
            if not (weight != 0 and math.isfinite(weight)):
                raise ConfigError(
                    f"the weight of {kind!r} is {weight}: give a positive number, or a negative one for dislikes"
                )
        for host in self.allowed_hosts:
            if host != "*" and not HOST_NAME.fullmatch(host):
                raise ConfigError(f"{host!r} is not a host name: give one like shop.example, without http:// and port")
        for origin in self.allowed_origins:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise ConfigError(f"the origin {origin!r} is not a web site: give one like https://shop.example")

    @property
    def is_private(self) -> bool:
        """Whether only programs of this machine can reach the service."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:  # another name
            return False

    @property
    def cache_folder(self) -> Path:
        """A folder for each store, since what a store has discarded is removed from its cache."""
        parts = urlsplit(self.store)
        address = f"{parts.scheme}:{parts.netloc.rpartition('@')[2]}{parts.path}"
        return (self.cache or Path.home() / ".cache" / "lorentzrec") / sha256(address.encode()).hexdigest()[:16]
