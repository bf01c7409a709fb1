"""Which host names and web sites a service without API keys accepts.

A browser on the same machine reaches a service on 127.0.0.1, and so does every web page open in it. `Origin` names the
site of such a page. `Host` is checked because a site can let its own name point to 127.0.0.1 after it was loaded (DNS
rebinding): the browser then takes the service for a part of that site, and only `Host` gives it away.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from lorentzrec.serving.http.problems import ServiceProblem
from lorentzrec.serving.http.settings import ServiceSettings

OWN_HOSTS = ("localhost", "127.0.0.1", "[::1]")
ANY = "*"
EVERY_ADDRESS = ("0.0.0.0", "::")
_PORT = re.compile(rb":\d*$")


class HostPolicy:
    """Decides by `Host` and `Origin` whether a request is handled."""

    def __init__(self, settings: ServiceSettings) -> None:
        keyed = settings.api_key_file is not None
        self._hosts = _names(settings) if settings.allowed_hosts or not keyed else None
        # With keys a page of another site needs one of them, and the browser does not show it the response.
        self._origins = None if keyed or ANY in settings.allowed_origins else {*settings.allowed_origins}

    def problem_of(self, host: bytes, origin: bytes | None) -> ServiceProblem | None:
        """Why a request is refused; None if it is not."""
        if self._hosts is not None and _PORT.sub(b"", host).lower() not in self._hosts:
            name = _readable(_PORT.sub(b"", host))
            hint = "use localhost, or start it with --allow-host NAME or with --api-key-file"
            return ServiceProblem(f"this service does not accept the host name {name!r}: {hint}", 421, "unknown-host")
        if origin is None or self._origins is None or origin.partition(b"://")[2].lower() == host.lower():
            return None
        if origin.decode("ascii", "replace") in self._origins:
            return None
        hint = "start it with --allow-origin SITE to allow them"
        return ServiceProblem(f"pages of {_readable(origin)!r} may not use this service: {hint}", 403, "unknown-origin")


def _names(settings: ServiceSettings) -> frozenset[bytes] | None:
    """The accepted host names, lower case and without ports; None for any."""
    if ANY in settings.allowed_hosts:
        return None
    bound = () if settings.host in EVERY_ADDRESS else (settings.host,)
    return frozenset(_bracketed(name).lower().encode() for name in (*OWN_HOSTS, *bound, *settings.allowed_hosts))


def _bracketed(name: str) -> str:
    """An IPv6 address has brackets in `Host`."""
    try:
        return f"[{name}]" if ip_address(name).version == 6 else name
    except ValueError:
        return name


def _readable(value: bytes) -> str:
    return value[:100].decode("ascii", "replace")
