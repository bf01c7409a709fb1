"""The files of a version folder as stores see them: a manifest that lists names, sizes and checksums.

Stores that are not folders keep each file as numbered chunks. How chunks are sent, resumed, fetched and checked is
written here once; such a store only says how one chunk is put and got (`Chunks`).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lorentzrec.atomic import MARKER, atomic_directory, checksum
from lorentzrec.errors import ArtifactError, InputError, StoreUnavailable
from lorentzrec.serving.stores.store import checked_name

_FILE_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z._-]{0,127}")
_LARGEST_MANIFEST = 1_000_000
_DOWNLOAD_SECONDS = 900.0


@dataclass(frozen=True)
class VersionFiles:
    """What a manifest says: the version's name, and size and checksum of each file beside the manifest itself."""

    name: str
    manifest: bytes
    sizes: dict[str, int]
    checksums: dict[str, str]

    def damage(self, folder: Path) -> str | None:
        """The first file in `folder` that is missing or is not what the manifest says; None if all is well."""
        return next((file for file in self.checksums if not self.is_whole(folder, file)), None)

    def is_whole(self, folder: Path, file: str) -> bool:
        path = folder / file
        return path.is_file() and path.stat().st_size == self.sizes[file] and checksum(path) == self.checksums[file]


class Chunks(Protocol):
    """One version, complete or being uploaded, in a store that keeps files in pieces."""

    @property
    def size(self) -> int:
        """Bytes in each chunk of a file but its last."""

    def present(self) -> dict[tuple[str, int], str]:
        """The checksum of every chunk that is there, by file and number."""

    def put(self, file: str, number: int, digest: str, data: bytes) -> None:
        """Keep one chunk; one that is there already is replaced."""

    def get(self, file: str, number: int) -> bytes | None:
        """One chunk, if it is there."""


def read_manifest(folder: Path) -> VersionFiles:
    """What the manifest in `folder` says of the version's files."""
    path = folder / MARKER
    try:
        content = path.read_bytes()
        manifest = json.loads(content)
        name = manifest["name"]
        sizes = {file: entry["bytes"] for file, entry in manifest["files"].items()}
        checksums = {file: entry["sha256"] for file, entry in manifest["files"].items()}
        if not isinstance(name, str) or not all(isinstance(size, int) for size in sizes.values()):
            raise TypeError("the name is no text or a size no number")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArtifactError(f"{path} is not the manifest of a version ({error}): publish the model again") from error
    for file in sizes:
        if not _FILE_NAME.fullmatch(file) or file == MARKER:
            raise ArtifactError(f"{path} lists {file!r}, which is not a plain file name: publish the model again")
    if len(content) > _LARGEST_MANIFEST:
        raise ArtifactError(
            f"{path} has {len(content):,} bytes, {_LARGEST_MANIFEST:,} at most: publish with less in it"
        )
    return VersionFiles(checked_name(name), content, sizes, checksums)


def damaged(name: str, file: str, url: str) -> ArtifactError:
    return ArtifactError(f"version {name} in {url}: {file} is damaged or missing: publish the model again")


def not_as_listed(folder: Path, file: str) -> ArtifactError:
    return ArtifactError(f"{folder / file} is missing or not what its manifest says: publish the model again")


def another_content(name: str, url: str) -> InputError:
    return InputError(f"{url} has a version {name} with other content: publish under another name")


def removed_meanwhile(name: str, url: str) -> InputError:
    return InputError(f"version {name} was removed from {url} while it was uploaded: upload it again")


def send(folder: Path, files: VersionFiles, chunks: Chunks, progress: Callable[[int], None] | None) -> None:
    """Put every chunk that is not there yet; the files are checked against the manifest on the way."""
    present = chunks.present()
    for file, expected in files.checksums.items():
        whole = hashlib.sha256()
        if not (folder / file).is_file():
            raise not_as_listed(folder, file)
        with (folder / file).open("rb") as source:
            number = 0
            while data := source.read(chunks.size):
                whole.update(data)
                digest = hashlib.sha256(data).hexdigest()
                if present.get((file, number)) != digest:
                    chunks.put(file, number, digest, data)
                if progress is not None:
                    progress(len(data))
                number += 1
        if whole.hexdigest() != expected:
            raise not_as_listed(folder, file)


def receive(name: str, manifest: bytes, chunks: Chunks, cache: Path, url: str) -> Path:
    """The version in `cache`/`name`: the folder that is there, if it is whole, or downloaded.

    Workers that start together wait for the one that downloads.
    """
    place = cache / checked_name(name)
    cache.mkdir(parents=True, exist_ok=True)
    lock = cache / f".{name}.lock"
    with file_lock(lock, _DOWNLOAD_SECONDS) as locked:
        if not locked:
            raise StoreUnavailable(f"{lock} is locked by a download that does not end: try again")
        if _is_whole(place, manifest):
            return place
        shutil.rmtree(place, ignore_errors=True)
        with atomic_directory(place) as folder:
            (folder / MARKER).write_bytes(manifest)
            files = read_manifest(folder)
            for file, size in files.sizes.items():
                with (folder / file).open("wb") as target:
                    number = 0
                    while target.tell() < size:
                        if not (data := chunks.get(file, number)):
                            raise damaged(name, file, url)
                        target.write(data)
                        number += 1
                if not files.is_whole(folder, file):
                    raise damaged(name, file, url)
    return place


def _is_whole(folder: Path, manifest: bytes) -> bool:
    try:
        files = read_manifest(folder)
    except ArtifactError:
        return False
    return files.manifest == manifest and files.damage(folder) is None


@contextmanager
def file_lock(path: Path, seconds: float, *, shared: bool = False) -> Iterator[bool]:
    """A lock between processes and threads that vanishes with its holder, on every system: SQLite's own.

    Any number may hold it `shared`, or one alone. Whether it could be had within `seconds`.
    """
    with ExitStack() as held:
        try:
            lock = held.enter_context(closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)))
            lock.execute("BEGIN" if shared else "BEGIN EXCLUSIVE")
            lock.execute("SELECT count(*) FROM sqlite_master")  # a shared lock is taken by the first read
            locked = True
        except sqlite3.Error as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                # A fault of this folder: the store is well, and must not be taken for unavailable.
                raise InputError(f"cannot write {path} ({error}): give a folder that can be written") from error
            locked = False
        yield locked


def copy_file(source: Path, target: Path) -> None:
    """Copy the content of a file. `shutil.copyfile` would report a full disk under the name of the source."""
    with source.open("rb") as reading, target.open("wb") as writing:
        shutil.copyfileobj(reading, writing, 2**20)
