"""Compressed files and archives, recognised by their first bytes or by their names, and read piece by piece."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from lorentzrec.errors import InputError
from lorentzrec.ingest.sources import DATA_FILES
from lorentzrec.ingest.storage import file_name

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_MARKS = {
    "gzip": (b"\x1f\x8b", ".gz"),
    "zstd": (b"\x28\xb5\x2f\xfd", ".zst"),
    "bzip2": (b"BZh", ".bz2"),
    "xz": (b"\xfd7zXZ\x00", ".xz"),
    "zip": (b"PK\x03\x04", ".zip"),
}
_PIECE = 2**16
_XZ_MEMORY = 256 * 2**20
"""Bytes that unpacking xz may take; its strongest usual setting needs 65 MiB."""


def detect_compression(file: IO[bytes], label: str) -> str | None:
    """How an open file is compressed, by its content or the ending of its name; None if it is not."""
    head = file.read(8)
    file.seek(0)
    by_content = [name for name, (mark, _) in _MARKS.items() if head.startswith(mark)]
    by_name = [name for name, (_, ending) in _MARKS.items() if label.lower().endswith(ending)]
    return next(iter([*by_content, *by_name]), None)


@contextmanager
def open_content(path: Path, label: str) -> Iterator[SupportsRead[bytes]]:
    """The bytes of a plain or compressed file, or of the one file in an archive; an `InputError` if it is damaged.

    `label`: the name of the file in errors.
    """
    import zstandard

    damages = (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, zstandard.ZstdError)
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            match detect_compression(file, label):
                case "gzip":
                    yield gzip.open(file)  # noqa: SIM115, it only reads the file, which is closed
                case "zstd":
                    yield zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
                case "bzip2":
                    yield _Translated(bz2.open(file))  # noqa: SIM115
                case "xz":
                    yield _XzStream(file)
                case "zip":
                    archive = stack.enter_context(zipfile.ZipFile(file))
                    yield stack.enter_context(_open_member(archive, find_member(archive, label), label))
                case _:
                    yield file
    except damages as error:
        raise InputError(f"{label} cannot be read ({error}): check the file and its name") from None


def content_name(path: Path, address: str, notes: list[str]) -> str:
    """The name that tells the format of a file: that of the file in an archive, else its own without `.gz` and so on.

    `address`: where the file comes from, which may have another name than the local copy. A note is added if the
    archive holds other files.
    """
    name = file_name(address)
    with path.open("rb") as file:
        archived = detect_compression(file, address) == "zip"
    if archived:
        with open_archive(path, address) as archive:
            member = find_member(archive, address)
            name = file_name(member.filename)
            if len(_list_members(archive)) > 1:
                notes.append(f"of the archive {address} only {member.filename} is read")
    return name


@contextmanager
def open_archive(path: Path, label: str) -> Iterator[zipfile.ZipFile]:
    """A zip archive; an `InputError` if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise InputError(f"{label} cannot be read ({error}): check the file and its name") from None


def find_member(archive: zipfile.ZipFile, label: str) -> zipfile.ZipInfo:
    """The file with the events in an archive: the only one, or the one of a known data set.

    An `InputError` if other files begin with the same line as that one, since they hold events, too.
    """
    members = _list_members(archive)
    known = [one for one in members if PurePosixPath(one.filename).name in DATA_FILES]
    if len(members) != 1 and (len(known) != 1 or _has_alike(archive, known[0], members, label)):
        names = ", ".join(one.filename for one in members[:4]) + (", ..." if len(members) > 4 else "")
        raise InputError(
            f"{label} holds {len(members)} files{f' ({names})' if names else ''}: unpack it, and give one of its files"
        )
    return known[0] if len(known) == 1 else members[0]


def _list_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    return [one for one in archive.infolist() if not one.is_dir() and not _is_hidden(one.filename)]


def _has_alike(archive: zipfile.ZipFile, known: zipfile.ZipInfo, members: list[zipfile.ZipInfo], label: str) -> bool:
    """Whether another file begins with the same line: with the same names of columns."""

    def read_names(member: zipfile.ZipInfo) -> bytes:
        try:
            with _open_member(archive, member, label) as content:
                return content.readline(_PIECE).strip()
        except (InputError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError):
            return b""  # damage to the known file is reported when it is read

    names = read_names(known)
    return names != b"" and any(read_names(one) == names for one in members if one is not known)


def _is_hidden(name: str) -> bool:
    return any(re.match(r"[._]", part) for part in PurePosixPath(name).parts)


@contextmanager
def _open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, label: str) -> Iterator[IO[bytes]]:
    try:
        content = archive.open(member)
    except (RuntimeError, NotImplementedError) as error:  # a password, or a method that Python does not have
        raise InputError(f"{label} cannot be unpacked ({error}): unpack it, and give {member.filename}") from None
    with content:
        yield content


class _Translated:
    """A bzip2 stream, whose damage is an `EOFError` and not an error of the disk."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def read(self, size: int = -1, /) -> bytes:
        try:
            return self._content.read(size)  # type: ignore[no-any-return]
        except OSError as error:
            if error.errno is not None:
                raise
            raise EOFError(str(error)) from None


class _XzStream:
    """The content of an xz file, unpacked with a limit on the memory that the file may demand."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)

    def read(self, size: int = -1, /) -> bytes:
        while True:
            if self._unpacker.eof:  # several streams may follow one another, with zeros between them
                rest = self._unpacker.unused_data.lstrip(b"\0") or self._file.read(_PIECE).lstrip(b"\0")
                if not rest:
                    return b""
                self._unpacker = lzma.LZMADecompressor(memlimit=_XZ_MEMORY)
            elif self._unpacker.needs_input:
                rest = self._file.read(_PIECE)
                if not rest:
                    raise EOFError("the file ends too early")
            else:
                rest = b""
            if piece := self._unpacker.decompress(rest, size):
                return piece
