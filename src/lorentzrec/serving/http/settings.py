"""How a service runs: where its store is, whom it lets in, and how much it takes at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from lorentzrec.errors import ConfigError

HOST_NAME = re.compile(r"[\w.-]+|\[?[0-9a-fA-F]*:[0-9a-fA-F:.]+\]?", re.ASCII)
"""A name, an IPv4 address, or an IPv6 address with or without brackets."""


@dataclass(frozen=True)
class ServiceSettings:
    """Everything that the workers of a service need to know. Holds no secret, so it may be printed and passed on."""

    store: str
    """The address of the store: file:DIR, postgresql://... or cosmos://..."""
    host: str = "127.0.0.1"
    """The address to listen on; 0.0.0.0 for all."""
    port: int = 8000
    workers: int = 1
    """Processes. They share the memory of large version files, which each of them maps."""
    api_key_file: Path | None = None
    """Require an API key from this file: one per line, followed by `read` if read-only. SIGHUP reads the file again."""
    allowed_hosts: tuple[str, ...] = ()
    """A host name that clients use for the service, `*` for any. Repeatable. Without API keys, names other than
    localhost and `host` are refused."""
    cache: Path | None = None
    """Folder for versions from a remote store; by default one in the user's cache."""
    allowed_origins: tuple[str, ...] = ()
    """A web site whose pages may call the service from a browser, `*` for any. Repeatable."""
    log_format: Literal["text", "json"] = "text"
    """Log lines for people, or for machines."""
    log_level: Literal["info", "warning"] = "info"
    """info: one line per request. warning: problems only."""
    poll_seconds: float = 1.0
    """How often a worker looks for a new version or other live items."""
    store_seconds: float = 2.0
    """The longest that a request waits for the store."""
    store_threads: int = 16
    """Most calls to the store that are under way at once in one worker."""
    request_seconds: float = 10.0
    """The longest that a request may take, reading its body included."""
    shutdown_seconds: int = 15
    """The longest that requests under way may take once the service has been told to stop."""
    request_threads: int = 4
    """Most requests that a worker answers at once: more only take its core and Python's lock from one another."""
    concurrent_requests: int = 128
    """Most requests with complete bodies that a worker has in hand at once; those beyond are told to come back."""
    body_bytes: int = 2**20
    arriving_bodies: int = 1_024
    """Most bodies that a worker receives at once; beyond that it gives up the oldest."""
    arriving_bytes: int = 64 * 2**20
    """Most bytes of incomplete bodies that a worker holds; beyond that it gives up the largest body."""
    connections: int = 4_096
    """Most open connections of a worker. Idle ones count, so there are more of them than bodies."""

    def __post_init__(self) -> None:
        counts = (
            "workers",
            "store_threads",
            "shutdown_seconds",
            "request_threads",
            "concurrent_requests",
            "body_bytes",
            "arriving_bodies",
            "arriving_bytes",
            "connections",
        )
        durations = ("poll_seconds", "store_seconds", "request_seconds")
        for name in (*counts, *durations):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} is {getattr(self, name)}: give a number above 0")
        if not 0 <= self.port < 2**16:
            raise ConfigError(f"port is {self.port}: give one from 0 to 65535")
        if self.log_format not in ("text", "json"):
            raise ConfigError(f"log_format is {self.log_format!r}: give text or json")
        if self.log_level not in ("info", "warning"):
            raise ConfigError(f"log_level is {self.log_level!r}: give info or warning")
        for host in self.allowed_hosts:
            if host != "*" and not HOST_NAME.fullmatch(host):
                raise ConfigError(f"{host!r} is no host name: give one like shop.example, without http:// and port")
        for origin in self.allowed_origins:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise ConfigError(f"the origin {origin!r} is no web site: give one like https://shop.example")

    @property
    def cache_folder(self) -> Path:
        """A folder for each store, since what a store has discarded is removed from its cache."""
        parts = urlsplit(self.store)
        place = f"{parts.scheme}:{parts.netloc.rpartition('@')[2]}{parts.path}"
        return (self.cache or Path.home() / ".cache" / "lorentzrec") / sha256(place.encode()).hexdigest()[:16]
