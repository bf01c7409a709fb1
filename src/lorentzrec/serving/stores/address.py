"""From the address of a store to the store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.errors import InputError, explain_missing, how_to_get

if TYPE_CHECKING:
    from lorentzrec.serving.stores.store import Store

FORMS = "file:DIR, postgresql://USER@HOST/DATABASE or cosmos://ACCOUNT-HOST/DATABASE"


def open_store(url: str, *, create: bool = False, connections: int = 24) -> Store:
    """The store at `url`; if it does not exist, `create` makes it, and without `create` this is an `InputError`.

    file:DIR                            a folder of this machine
    postgresql://USER:PASSWORD@HOST/DB  all that libpq understands
    cosmos://ACCOUNT-HOST[:PORT]/DB     the key in COSMOS_KEY, else the identity that azure-identity finds; ?regions=A,B
                                        names preferred regions; cosmos+http:// is not encrypted, for an emulator

    connections: to a PostgreSQL server, at most; calls of further threads wait for one.
    """
    scheme, _, rest = url.partition(":")
    match scheme:
        case "file" if folder := rest.removeprefix("//"):
            from lorentzrec.serving.stores.file_store import FileStore

            return FileStore(Path(folder), create=create)
        case "postgresql" | "postgres":
            with explain_missing("a store in PostgreSQL needs {name}", how_to_get("postgres")):
                from lorentzrec.serving.stores.postgres_store import PostgresStore
            return PostgresStore(url, create=create, connections=connections)
        case "cosmos" | "cosmos+http":
            with explain_missing("a store in Cosmos DB needs {name}", how_to_get("azure")):
                from lorentzrec.serving.stores.cosmos_store import CosmosStore
            return CosmosStore(url, create=create)
    # Whatever follows the scheme of a mistyped address may be a password.
    shown = url if not set(url) & set(":@=") else re.split("[:@=/]", url)[0] + ":..."
    raise InputError(f"{shown!r} is not the address of a store: give {FORMS}")
