"""Where files live: local disk, Azure Blob Storage (`az://container/path`) and S3 (`s3://bucket/path`).

Remote files are copied to local disk before they are read, and uploaded after they are written: preparation reads its
input several times, and a copy crosses the network once. Credentials come from the environment:

- `AZURE_STORAGE_CONNECTION_STRING`, or `AZURE_STORAGE_ACCOUNT_NAME` with `AZURE_STORAGE_ACCOUNT_KEY` or
  `AZURE_STORAGE_SAS_TOKEN`; with only the account's name, `azure-identity` finds them (login, managed identity).
- The usual `AWS_...` variables for S3.
"""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.base.atomic import atomic_file
from lorentzrec.base.library_faults import require_extra
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("az", "s3")
_WILD = frozenset("*?[")
_OUTLINE = 4 * 2**20
_WHOLE = (".zst", ".xz", ".zip", ".arrow", ".feather", ".ipc", ".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
"""Endings of files whose first megabytes cannot be read without the rest."""


@dataclass(frozen=True)
class StoredFile:
    """A file by its address, with what changes when its content does."""

    address: str
    size: int
    version: str
    """Modification time of a local file, tag of a remote one."""


class NotFound(InputError):  # noqa: N818 - the name states the condition
    """A remote file or container that does not exist."""


def is_remote(address: str | Path) -> bool:
    scheme, colon, _ = str(address).partition("://")
    if colon and scheme not in SCHEMES:
        raise InputError(f"{address}: {scheme}:// is not supported: use a local path, az:// or s3://")
    return bool(colon)


def list_files(address: str | Path, *, name: str | None = None) -> list[StoredFile]:
    """The files at an address: a file, the files of a folder, or those that match a pattern, in name order.

    In a folder, files and folders whose names begin with a dot or an underscore are skipped: Spark writes such files.
    `name`: the one file to take if the address is a folder.
    """
    found = _remote_files(str(address)) if is_remote(address) else _local_files(Path(address))
    if not found:
        raise InputError(f"{address} holds no files: give a file, a folder with files, or a pattern that matches some")
    if name is not None and (len(found) > 1 or file_name(found[0].address) != file_name(str(address))):
        found = [file for file in found if file_name(file.address) == name]
        if not found:
            raise InputError(f"{address} holds no {name}: give the folder that does, or the file itself")
    return found


def is_folder(address: str) -> bool:
    """Whether an address with several files is that of a folder, and not a pattern."""
    return not _WILD & set(address) if is_remote(address) else Path(address).is_dir()


def fetch(address: str, folder: Path) -> Path:
    """A local path of the file: its own, or a copy under `folder`, made once."""
    if not is_remote(address):
        return Path(address)
    target = folder / address.partition("://")[2]
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.partial")
        with _open_container(address) as (store, path), partial.open("wb") as file:
            for chunk in store.get(path).stream(min_chunk_size=8 * 2**20):
                file.write(chunk)
        partial.rename(target)
    return target


def fetch_outline(address: str, folder: Path) -> Path:
    """A local path of enough of the file to detect its layout: its first megabytes, and the footer of Parquet.

    The rest is a hole in a sparse file, so that the layout of a terabyte costs nothing.
    """
    if not is_remote(address):
        return Path(address)
    with _open_container(address) as (store, path):
        size = store.head(path)["size"]
        if size <= 2 * _OUTLINE or address.lower().endswith(_WHOLE):
            return fetch(address, folder)
        end = bytes(store.get_range(path, start=size - 8, length=8))
        target = folder / "outlines" / address.partition("://")[2]
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.write(bytes(store.get_range(path, start=0, length=_OUTLINE)))
            if end.endswith(b"PAR1"):
                footer = int.from_bytes(end[:4], "little") + 8
                start = size - footer if footer < size else size - 8
                file.seek(start)
                file.write(bytes(store.get_range(path, start=start, length=size - start)))
    return target


@contextmanager
def write_file(address: str) -> Iterator[Path]:
    """A local path to write a file to, which appears at the address complete at the end of the block, or not at all."""
    if not is_remote(address):
        try:
            Path(address).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot write {address} ({error.strerror}): check the disk and the permissions") from None
        with atomic_file(address) as file:
            yield file
        return
    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        file = Path(scratch, address.rpartition("/")[2])
        yield file
        with _open_container(address) as (store, path):
            store.put(path, file)


def remove(address: str) -> None:
    """Delete every remote file below an address, or the one that has this address, if there is any."""
    with _open_container(address) as (store, path):
        below = False
        for batch in store.list(path):
            store.delete([entry["path"] for entry in batch])
            below = True
        if path and not below:
            with suppress(FileNotFoundError):
                store.head(path)  # whoever may not delete can still begin something new
                store.delete(path)


def read_content(address: str) -> bytes | None:
    """The content of a small file; None if there is none."""
    if not is_remote(address):
        return Path(address).read_bytes() if Path(address).is_file() else None
    with _open_container(address) as (store, path):
        try:
            return bytes(store.get(path).bytes())
        except FileNotFoundError:
            return None


def write_record(address: str, record: dict[str, Any]) -> None:
    """Write a small JSON file, which marks the files that it lists as complete."""
    with write_file(address) as path:
        path.write_text(json.dumps(record), encoding="utf-8")


def read_record(address: str) -> dict[str, Any] | None:
    """The content of a JSON file; None if there is none that can be read, so that its files are written again."""
    with suppress(ValueError, RecursionError):
        content = read_content(address)
        record = None if content is None else json.loads(content)
        return record if isinstance(record, dict) else None
    return None


def credentials() -> dict[str, str]:
    """The environment variables with credentials for remote storage, for tasks on other machines."""
    return {name: value for name, value in os.environ.items() if name.startswith(("AZURE_", "AWS_"))}


def join(address: str | Path, *names: str) -> str:
    """The address of something in a folder."""
    return "/".join([str(address).rstrip("/"), *names]) if is_remote(address) else str(Path(address, *names))


def file_name(address: str) -> str:
    """The last part of an address, without the ending of compressed files."""
    return re.sub(r"(\.(gz|zst|bz2|xz|zip))+$", "", address.rstrip("/").rpartition("/")[2], flags=re.IGNORECASE)


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


def _local_files(path: Path) -> list[StoredFile]:
    if path.is_dir():
        paths = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file, path))
    elif path.exists():
        paths = [path]
    elif _WILD & set(str(path)):
        paths = sorted(Path(match) for match in glob.glob(str(path), recursive=True) if Path(match).is_file())  # noqa: PTH207
    else:
        raise InputError(f"{path} does not exist: check the path")
    for file in paths:
        if not os.access(file, os.R_OK):
            raise InputError(f"{file} may not be read by this user: change its permissions")
    return [StoredFile(str(file), file.stat().st_size, str(file.stat().st_mtime_ns)) for file in paths]


def _remote_files(address: str) -> list[StoredFile]:
    prefix = address
    if wild := min((address.find(mark) for mark in _WILD if mark in address), default=None):
        prefix = address[:wild].rpartition("/")[0]
    root = "/".join(address.split("/")[:3])
    with _open_container(prefix) as (store, path):
        entries = [entry for batch in store.list(path or None) for entry in batch]
        if not entries and path:
            entries = [store.head(path)]  # a listing has only what is below the path
    found = [StoredFile(f"{root}/{entry['path']}", entry["size"], str(entry.get("e_tag"))) for entry in entries]
    if wild:
        found = [file for file in found if fnmatch.fnmatchcase(file.address, address)]
    else:
        found = [file for file in found if not _is_hidden(Path(file.address), Path(address))]
    return sorted(found, key=lambda file: file.address)


@contextmanager
def _open_container(address: str) -> Iterator[tuple[Any, str]]:
    """The container of a remote address and the path in it; all errors are reported in one line."""
    with require_extra("azure", f"{address} needs the package obstore"):
        import obstore.exceptions as exceptions
    scheme, _, rest = address.partition("://")
    container, _, path = rest.partition("/")
    try:
        yield _open_azure(container) if scheme == "az" else _open_s3(container), path
    except (exceptions.BaseError, FileNotFoundError, PermissionError) as error:
        # Failed listings have no error type of their own: only their text has the status.
        reason = " ".join(str(error).split())
        kind = InputError
        denied = isinstance(error, exceptions.UnauthenticatedError | exceptions.PermissionDeniedError | PermissionError)
        if denied or re.search(r"\b40[13] (Unauthorized|Forbidden)\b", reason):
            action = "access denied: check the credentials in the environment and their rights"
        elif isinstance(error, FileNotFoundError | exceptions.NotFoundError) or re.search(r"\b404 Not Found\b", reason):
            kind, action = NotFound, "not found: check the account, the container and the path"
        else:
            action = f"the storage cannot be used ({reason[:200]}): check the address and the network"
        raise kind(f"{address}: {action}") from None


_AZURE_KEYS = ("ACCOUNT_KEY", "SAS_TOKEN", "SAS_KEY", "USE_EMULATOR")
_AZURE_PARTS = {
    "account_name": "AccountName",
    "account_key": "AccountKey",
    "endpoint": "BlobEndpoint",
    "sas_key": "SharedAccessSignature",
}
_RETRIES: Any = {
    "max_retries": 3,
    "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=1), "base": 2},
    "retry_timeout": timedelta(seconds=20),
}


def _open_azure(container: str) -> ObjectStore:
    from obstore.store import AzureStore

    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    parts = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    config: Any = {name: parts[key] for name, key in _AZURE_PARTS.items() if key in parts}
    options: Any = {"client_options": {"allow_http": config.get("endpoint", "").startswith("http://")}}
    if not parts and not any(os.environ.get(f"AZURE_STORAGE_{name}") for name in _AZURE_KEYS):
        options["credential_provider"] = _find_azure_identity(container)
    return AzureStore(container, config=config or None, retry_config=_RETRIES, **options)


def _find_azure_identity(container: str) -> Any:
    if not os.environ.get("AZURE_STORAGE_ACCOUNT_NAME"):
        names = "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and a key"
        raise InputError(f"az://{container}: no Azure credentials: set {names}")
    with require_extra("azure", f"az://{container} needs azure-identity"):
        from obstore.auth.azure import AzureCredentialProvider
    return AzureCredentialProvider()


def _open_s3(bucket: str) -> ObjectStore:
    from obstore.store import S3Store

    allow_http = os.environ.get("AWS_ENDPOINT_URL", os.environ.get("AWS_ENDPOINT", "")).startswith("http://")
    return S3Store(bucket, client_options={"allow_http": allow_http}, retry_config=_RETRIES)
