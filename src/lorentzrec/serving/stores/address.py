"""From the address of a store to the store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.errors import InputError, how_to_get

if TYPE_CHECKING:
    from lorentzrec.serving.stores.store import Store

FORMS = "file:DIR, postgresql://USER@HOST/DATABASE or cosmos://ACCOUNT-HOST/DATABASE"


def open_store(url: str, *, create: bool = False) -> Store:
    """The store at `url`; `create` makes it if it is not there yet, without it that is an `InputError`.

    file:DIR                            a folder of this machine
    postgresql://USER:PASSWORD@HOST/DB  all that libpq understands
    cosmos://ACCOUNT-HOST[:PORT]/DB     the key in COSMOS_KEY, else the identity that azure-identity finds; ?regions=A,B
                                        names preferred regions; cosmos+http:// is not encrypted, for an emulator
    """
    scheme, _, rest = url.partition(":")
    match scheme:
        case "file" if folder := rest.removeprefix("//"):
            from lorentzrec.serving.stores.file_store import FileStore

            return FileStore(Path(folder), create=create)
        case "postgresql" | "postgres":
            with _explain_missing("PostgreSQL", "postgres"):
                from lorentzrec.serving.stores.postgres_store import PostgresStore
            return PostgresStore(url, create=create)
        case "cosmos" | "cosmos+http":
            with _explain_missing("Cosmos DB", "azure"):
                from lorentzrec.serving.stores.cosmos_store import CosmosStore
            return CosmosStore(url, create=create)
    # Whatever follows the scheme of a mistyped address may be a password.
    shown = url if not set(url) & set(":@=") else re.split("[:@=/]", url)[0] + ":..."
    raise InputError(f"{shown!r} is not the address of a store: give {FORMS}")


@contextmanager
def _explain_missing(what: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError(f"a store in {what} needs {error.name or error}: {how_to_get(extra)}") from error
