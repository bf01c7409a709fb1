"""`lorentzrec serve`: recommendations over HTTP, from a store."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from lorentzrec.base.library_faults import require_extra
from lorentzrec.cli.inputs import named_numbers
from lorentzrec.cli.options import StoreArgument, field_options, pop_fields
from lorentzrec.cli.output import note, say
from lorentzrec.errors import StoreUnavailable
from lorentzrec.serving.settings import ServiceSettings


@field_options(
    ServiceSettings, None, ("host", "api_key_file", ..., "log_sample", "trend_seconds", "connections", "idle_seconds")
)
def serve(
    store: StoreArgument,
    *,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    event_weights: list[str] | None = None,
    **fields: Any,
) -> None:
    """Serve recommendations, and a page to explore them, from the current version of a store.

    A version that is published later is in use within about a second, without a restart. Stop with Ctrl-C or SIGTERM:
    requests in progress are finished.

    $ lorentzrec serve file:store
    $ lorentzrec serve @/run/secrets/store --host 0.0.0.0 --workers 4 \
        --api-key-file keys.txt --log-format json

    port: The port to listen on.
    workers: Processes; they share one copy of the model. Default: one per core.
    event_weights KIND=WEIGHT: Weight of a kind of event; other kinds are refused. Repeatable. Default: as in the
        dataset of the version.
    """
    with require_extra("serve", "serving needs {name}"):
        from lorentzrec.serving.http.server import run
    from lorentzrec.base.threads import available_cores
    from lorentzrec.serving.stores.address import open_store

    given = pop_fields(fields, ServiceSettings)
    given["event_weights"] = named_numbers("--event-weight", event_weights)
    settings = ServiceSettings(store=store, port=port, workers=workers or available_cores(), **given)
    if settings.api_key_file is None:
        note(_notes_without_keys(settings))
    try:
        with closing(open_store(store)) as opened:
            if opened.state().version is None:
                note([f"{opened.url} has no version yet: the service responds with 503 until one is published"])
    except StoreUnavailable as error:
        note([f"{error}; the service starts anyway, and works as soon as the store does"])
    run(settings, lambda: say(page_address(settings.host, port)))


def _notes_without_keys(settings: ServiceSettings) -> list[str]:
    """Who can use a service without keys, where that may be more or fewer clients than intended."""
    notes = []
    host = settings.host
    if not settings.is_private:
        notes.append(f"anyone who can reach {host} may read and write, because of --no-keys")
    if host in ("0.0.0.0", "::") and not settings.allowed_hosts:
        notes.append(
            "only requests to localhost are accepted: name the hosts that clients use with --allow-host, '*' for any"
        )
    if "*" in settings.allowed_origins:
        notes.append(
            "every web site may read, write and erase through its visitors' browsers: name sites with --allow-origin "
            "instead of '*', or give --api-key-file"
        )
    if "*" in settings.allowed_hosts:
        notes.append(
            "with --allow-host '*' any web site can reach the service by DNS rebinding, if its visitors' browsers can: "
            "name the hosts, or give --api-key-file"
        )
    return notes


def page_address(host: str, port: int) -> str:
    """The address of the page, for a browser on this machine, of a service that listens on `host`."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
