"""Which host names and web sites a service without API keys accepts.

A browser on the same machine reaches a service on 127.0.0.1, and so does every web page open in it. `Origin` names the
site of such a page. `Host` is checked because a site can let its own name point to 127.0.0.1 after it was loaded (DNS
rebinding): the browser then takes the service for a part of that site, and only `Host` gives it away.
"""

from __future__ import annotations

import re

from lorentzrec.serving.http.problems import ServiceProblem
from lorentzrec.serving.settings import ServiceSettings

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

    def check(self, host: bytes, origin: bytes | None) -> None:
        """Raise a `ServiceProblem` if the request is refused."""
        if self._hosts is not None and (name := _PORT.sub(b"", host)).lower() not in self._hosts:
            hint = "use localhost, or start it with --allow-host NAME or with --api-key-file"
            text = f"this service does not accept the host name {_readable(name)!r}: {hint}"
            raise ServiceProblem(text, 421, "unknown-host")
        if origin is None or self._origins is None or origin.partition(b"://")[2].lower() == host.lower():
            return
        if origin.decode("ascii", "replace") not in self._origins:
            text = f"pages of {_readable(origin)!r} may not use this service: start it with --allow-origin SITE"
            raise ServiceProblem(text, 403, "unknown-origin")


def _names(settings: ServiceSettings) -> frozenset[bytes] | None:
    """The accepted host names, lower case and without ports; None for any."""
    if ANY in settings.allowed_hosts:
        return None
    bound = () if settings.host in EVERY_ADDRESS else (settings.host,)
    names = (*OWN_HOSTS, *bound, *settings.allowed_hosts)
    # An IPv6 address has brackets in `Host`.
    return frozenset((f"[{name}]" if re.match("[^[]*:", name) else name).lower().encode() for name in names)


def _readable(value: bytes) -> str:
    return value[:100].decode("ascii", "replace")
