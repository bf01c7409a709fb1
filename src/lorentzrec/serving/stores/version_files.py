"""The files of a version folder as stores see them: a manifest that lists names, sizes and checksums.

`ChunkedVersions` keeps each file as numbered chunks, for stores that are not folders. How chunks are sent, resumed,
fetched and checked is here; such a store only reads and writes single chunks.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from lorentzrec.base.atomic import MARKER, atomic_directory, checksum
from lorentzrec.base.library_faults import sqlite_code
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.versions import check_name

_FILE_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z._-]{0,127}")
_LARGEST_MANIFEST = 1_000_000
_DOWNLOAD_SECONDS = 900.0


class ListedFile(Struct, frozen=True):
    """What a manifest records of a file."""

    bytes: int
    sha256: str

    def is_whole(self, path: Path) -> bool:
        """Whether the file at `path` is as recorded."""
        return path.is_file() and path.stat().st_size == self.bytes and checksum(path) == self.sha256


class Manifest(Struct, frozen=True):
    """The name of a version, and its files except the manifest itself. Other entries do not matter to a store."""

    name: str
    files: dict[str, ListedFile]

    def find_damage(self, folder: Path) -> str | None:
        """The first file in `folder` that is missing or not as recorded; None if all are."""
        return next((name for name in self.files if not self.has_whole(folder, name)), None)

    def has_whole(self, folder: Path, file: str) -> bool:
        """Whether `file` is listed, and is in `folder` as recorded."""
        return file in self.files and self.files[file].is_whole(folder / file)


class ChunkedVersions(Protocol):
    """Upload and fetch of a store that keeps files in chunks; see `Store`.

    `version`, below, is what the store knows a version by, complete or being uploaded.
    """

    url: str
    chunk_bytes: int
    """The size of each chunk of a file except its last."""

    def _begin_upload(self, name: str, manifest: bytes) -> Any:
        """The version with this name and manifest, made if it is not there. Other content is a fault if complete."""

    def _end_upload(self, version: Any) -> bool:
        """Make the version complete; False if it was removed in the meantime."""

    def _find_version(self, name: str) -> tuple[Any, bytes]:
        """A complete version and its manifest."""

    def _list_chunks(self, version: Any) -> dict[tuple[str, int], str]:
        """The checksum of every chunk that is there, by file and number."""

    def _write_chunk(self, version: Any, file: str, number: int, digest: str, data: bytes) -> bool:
        """Write one chunk, or replace it; False if the version was removed in the meantime."""

    def _read_chunk(self, version: Any, file: str, number: int) -> bytes | None:
        """One chunk, if it is there."""

    def upload(self, folder: Path, progress: Callable[[int], None] = lambda _: None) -> None:
        """Write every chunk that is not there yet; the files are checked against the manifest on the way."""
        manifest, content = read_manifest(folder)
        version = self._begin_upload(manifest.name, content)
        present = self._list_chunks(version)
        for name, file in manifest.files.items():
            whole = hashlib.sha256()
            if not (folder / name).is_file():
                raise StoreFault.FILE_CHANGED.error(file=folder / name)
            with (folder / name).open("rb") as source:
                for number, data in enumerate(iter(partial(source.read, self.chunk_bytes), b"")):
                    whole.update(data)
                    digest = hashlib.sha256(data).hexdigest()
                    missing = present.get((name, number)) != digest
                    if missing and not self._write_chunk(version, name, number, digest, data):
                        raise StoreFault.VERSION_REMOVED.error(name=manifest.name, store=self.url)
                    progress(len(data))
            if whole.hexdigest() != file.sha256:
                raise StoreFault.FILE_CHANGED.error(file=folder / name)
        if not self._end_upload(version):
            raise StoreFault.VERSION_REMOVED.error(name=manifest.name, store=self.url)

    def fetch(self, name: str, cache: Path) -> Path:
        """The version in `cache`/`name`: the folder that is there, if it is whole, or downloaded.

        Workers that start together wait for the one that downloads.
        """
        version, content = self._find_version(name)
        path, lock = cache / name, cache / f".{name}.lock"
        cache.mkdir(parents=True, exist_ok=True)
        with file_lock(lock, _DOWNLOAD_SECONDS) as locked:
            if not locked:
                raise StoreFault.LOCKED.error(store=lock, holder="download")
            if not _is_whole(path, content):
                shutil.rmtree(path, ignore_errors=True)
                with atomic_directory(path) as folder:
                    (folder / MARKER).write_bytes(content)
                    for file, recorded in read_manifest(folder)[0].files.items():
                        self._download(version, folder / file, recorded.bytes)
                        if not recorded.is_whole(folder / file):
                            raise StoreFault.VERSION_DAMAGED.error(name=name, store=self.url, file=file)
        return path

    def fetch_file(self, name: str, file: str, folder: Path) -> Path:
        version, content = self._find_version(name)
        (folder / MARKER).write_bytes(content)
        manifest, _ = read_manifest(folder)
        if file in manifest.files:
            self._download(version, folder / file, manifest.files[file].bytes)
        if not manifest.has_whole(folder, file):
            raise StoreFault.VERSION_DAMAGED.error(name=name, store=self.url, file=file)
        return folder / file

    def fetch_manifest(self, name: str) -> bytes:
        return self._find_version(name)[1]

    def read_file(self, name: str, file: str) -> Iterator[bytes]:
        version, _ = self._find_version(name)
        for number in count():
            if not (data := self._read_chunk(version, file, number)):
                return
            yield data

    def _download(self, version: Any, target: Path, size: int) -> None:
        """Write the chunks of a file until it has its size, or a chunk is missing."""
        with target.open("wb") as writing:
            number = 0
            while writing.tell() < size and (data := self._read_chunk(version, target.name, number)):
                writing.write(data)
                number += 1


def read_manifest(folder: Path) -> tuple[Manifest, bytes]:
    """The manifest of the version in `folder`, and the content of its file."""
    path = folder / MARKER
    try:
        content = path.read_bytes()
        manifest = msgspec.convert(json.loads(content), Manifest)  # not decoded by msgspec: metrics may be NaN
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ArtifactError(f"{path} is not the manifest of a version ({error}): publish the model again") from error
    for file in manifest.files:
        if not _FILE_NAME.fullmatch(file) or file == MARKER:
            raise ArtifactError(f"{path} lists {file!r}, which is not a plain file name: publish the model again")
    if len(content) > _LARGEST_MANIFEST:
        raise ArtifactError(f"{path} has {len(content):,} bytes, {_LARGEST_MANIFEST:,} at most: publish less metadata")
    check_name(manifest.name)
    return manifest, content


def _is_whole(folder: Path, content: bytes) -> bool:
    try:
        manifest, present = read_manifest(folder)
    except ArtifactError:
        return False
    return present == content and manifest.find_damage(folder) is None


@contextmanager
def file_lock(path: Path, seconds: float, *, shared: bool = False) -> Iterator[bool]:
    """A lock between processes and threads that vanishes with its holder, on every system: SQLite's own.

    Any number may hold it `shared`, or one alone. Yields whether it was obtained within `seconds`.
    """
    with ExitStack() as held:
        try:
            lock = held.enter_context(closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)))
            lock.execute("BEGIN" if shared else "BEGIN EXCLUSIVE")
            lock.execute("SELECT count(*) FROM sqlite_master")  # a shared lock is taken by the first read
            locked = True
        except sqlite3.Error as error:
            if sqlite_code(error) != sqlite3.SQLITE_BUSY:
                # A fault of this folder: the store works, and must not count as unavailable.
                raise InputError(f"cannot write {path} ({error}): give a folder that can be written") from error
            locked = False
        yield locked
