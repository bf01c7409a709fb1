"""`lorentzrec serve`: answers over HTTP, from a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lorentzrec.cli.output import note, say
from lorentzrec.errors import InputError, StoreUnavailable, how_to_get

if TYPE_CHECKING:
    from lorentzrec.serving.http.settings import ServiceSettings


def serve(
    store: Annotated[str, typer.Argument(metavar="STORE", help="file:DIR, postgresql://... or cosmos://...")],
    host: Annotated[str, typer.Option(help="The address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes; they share one copy of the model.", show_default="one per core"),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            help="Let in only who sends a key of this file: one per line, `read` after it or not. "
            "SIGHUP reads the file again."
        ),
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Where to keep versions that come from a store elsewhere.")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A host name that clients use for the service, `*` for any; may be given again. "
            "Without API keys, other names than localhost and --host are refused."
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A web site whose pages may call from a browser; may be given again.")
    ] = None,
    log_format: Annotated[Literal["text", "json"], typer.Option(help="Lines for people, or for machines.")] = "text",
    log_level: Annotated[
        Literal["info", "warning"], typer.Option(help="A line for each request, or only what is wrong.")
    ] = "info",
) -> None:
    """Serve recommendations, and a page to look at them, from the current version of a store.

    A version published later is taken into use within about a second, without a restart. Stop with Ctrl-C or SIGTERM:
    requests under way are finished.
    """
    try:
        from lorentzrec.serving.http.keys import ApiKeys
        from lorentzrec.serving.http.server import run
        from lorentzrec.serving.http.settings import ServiceSettings
    except ModuleNotFoundError as error:
        raise InputError(f"serving needs {error.name}: {how_to_get('serve')}") from None
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.threads import available_cores

    settings = ServiceSettings(
        store=store,
        host=host,
        port=port,
        workers=workers or available_cores(),
        api_key_file=api_key_file,
        cache=cache,
        allowed_hosts=tuple(allow_host or ()),
        allowed_origins=tuple(allow_origin or ()),
        log_format=log_format,
        log_level=log_level,
    )
    if api_key_file is not None:
        ApiKeys.from_file(api_key_file)
    else:
        note(_without_keys(settings))
    try:
        opened = open_store(store)
        if opened.state().version is None:
            note([f"{opened.url} holds no version yet: answers begin when one is published"])
        opened.close()
    except StoreUnavailable as error:
        note([f"{error}; the service starts all the same, and answers when the store does"])
    run(settings, lambda: say(page_address(host, port)))


def _without_keys(settings: ServiceSettings) -> list[str]:
    """Who can use a service that was started without keys, where that may be more or less than was meant."""
    notes = []
    host = settings.host
    if host not in ("127.0.0.1", "localhost", "::1"):
        notes.append(f"anybody who reaches {host} may read and write: give --api-key-file, or put a gateway in front")
    if host in ("0.0.0.0", "::") and not settings.allowed_hosts:
        notes.append(
            "only requests to localhost are answered: name the hosts that clients use with --allow-host, '*' for any"
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
    """Where a browser of this machine finds the page of a service that listens at `host`."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
