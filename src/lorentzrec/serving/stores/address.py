"""From the address of a store to the store; where the address itself is read from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.base.library_faults import require_extra
from lorentzrec.errors import InputError
from lorentzrec.serving.stores.faults import StoreFault

if TYPE_CHECKING:
    from lorentzrec.serving.stores.store import Migrating, Store

FORMS = "file:DIR, postgresql://USER@HOST/DATABASE or cosmos://ACCOUNT-HOST/DATABASE"


VARIABLE = "LORENTZREC_STORE"
"""The environment variable that has the address of the store, where a command line does not."""


def read_address(text: str) -> str:
    """The address of a store as a command line or `VARIABLE` gives it: the address, or @FILE for the address in a file.

    Command lines are visible to all users of a machine, so an address with a password belongs in a file or a variable.
    """
    text = text.strip()  # a secret made from a file often ends with a line end
    if not text.startswith("@"):
        return text
    path = Path(text[1:])
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(
            f"{path} cannot be read as the address of a store ({reason}): give @FILE with one line, {FORMS}"
        ) from None
    if len(lines) != 1:
        raise InputError(f"{path} has {len(lines)} lines instead of the address of a store: write one line, {FORMS}")
    return lines[0]


def open_store(url: str, *, create: bool = False, connections: int = 24, migrate: Migrating | None = None) -> Store:
    """The store at `url`, see `open_any_store`; a restore that was interrupted is `StoreFault.RESTORING`."""
    store = open_any_store(url, create=create, connections=connections, migrate=migrate)
    try:
        if store.find_restore() is not None:
            raise StoreFault.RESTORING.error(store=store.url)
    except BaseException:
        store.close()
        raise
    return store


def open_any_store(url: str, *, create: bool = False, connections: int = 24, migrate: Migrating | None = None) -> Store:
    """The store at `url`; if it does not exist, `create` makes it, and without `create` this is an `InputError`.

    file:DIR                            a folder of this machine
    postgresql://USER:PASSWORD@HOST/DB  all that libpq understands
    cosmos://ACCOUNT-HOST[:PORT]/DB     the key in COSMOS_KEY, else the identity that azure-identity finds; ?regions=A,B
                                        names preferred regions; cosmos+http:// is not encrypted, for an emulator

    connections: to a PostgreSQL server, at most; calls of further threads wait for one.
    migrate: change a store of an older release; without it, such a store is refused (`StoreFault.OLDER`).
    """
    scheme, _, rest = url.partition(":")
    match scheme:
        case "file" if folder := rest.removeprefix("//"):
            from lorentzrec.serving.stores.file_store import FileStore

            return FileStore(Path(folder), create=create, migrate=migrate)
        case "postgresql" | "postgres":
            with require_extra("postgres", "a store in PostgreSQL needs {name}"):
                from lorentzrec.serving.stores.postgres_store import PostgresStore
            return PostgresStore(url, create=create, connections=connections, migrate=migrate)
        case "cosmos" | "cosmos+http":
            with require_extra("azure", "a store in Cosmos DB needs {name}"):
                from lorentzrec.serving.stores.cosmos_store import CosmosStore
            return CosmosStore(url, create=create, migrate=migrate)
    # Whatever follows the scheme of a mistyped address may be a password.
    shown = url if not set(url) & set(":@=") else re.split("[:@=/]", url)[0] + ":..."
    raise InputError(f"{shown!r} is not the address of a store: give {FORMS}")
