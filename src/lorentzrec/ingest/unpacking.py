"""The bytes of a text file, decompressed a piece at a time; damage and endless lines end in one line.

A few megabytes of gzip can hold a line of gigabytes, which every parser of lines would first put into memory. Whatever
reads text reads it through here, where a line has a longest length.
"""

from __future__ import annotations

import gzip
import io
import mmap
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


LONGEST_LINE = 16 * 2**20
"""Bytes; an event or an item with its description has a few thousand at most."""

_PIECE = 2**20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@contextmanager
def opened(path: Path, label: str) -> Iterator[IO[bytes]]:
    """The content of a plain, gzip or zstd file, as its name `label` says; an `InputError` if it is damaged."""
    import zstandard

    try:
        with path.open("rb") as file:
            content: Readable = file
            if label.endswith(".gz"):
                content = gzip.open(file)  # noqa: SIM115, it only reads the file, which is closed
            elif label.endswith(".zst"):
                content = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield bounded(content, label)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # a fault of the disk, not of the file
        raise InputError(f"{label} cannot be read ({error}): check the file and its name") from None


def bounded(content: Readable, label: str) -> IO[bytes]:
    """The same bytes; an `InputError` instead of more than `LONGEST_LINE` of them without a line end."""
    return io.BufferedReader(_Bounded(content, label), _PIECE)


class _Bounded(io.RawIOBase):
    def __init__(self, content: Readable, label: str) -> None:
        self._content, self._label = content, label
        self._lines, self._open = 0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer)
        piece = self._content.read(len(target))
        ends = piece.count(b"\n")
        self._lines += ends
        self._open = len(piece) - piece.rfind(b"\n") - 1 if ends else self._open + len(piece)
        if self._open > LONGEST_LINE:
            raise _too_long(self._label, self._lines + 1)
        target[: len(piece)] = piece
        return len(piece)


def unpacked(path: Path, label: str, target: Path) -> Path:
    """An uncompressed file with the content of `path`, for parsers that read a file by themselves.

    That is `path` itself if it is not compressed, else `target`. Compression is recognised by the content, as Polars
    does. No line of it is longer than `LONGEST_LINE`.
    """
    with path.open("rb") as file:
        head = file.read(4)
        if not head.startswith(_GZIP) and head != _ZSTD:
            _refuse_long_lines(file, label)
            return path
    kind = ".gz" if head.startswith(_GZIP) else ".zst"
    with opened(path, label if label.endswith(kind) else label + kind) as content, target.open("wb") as plain:
        shutil.copyfileobj(content, plain, _PIECE)
    return target


def _refuse_long_lines(file: IO[bytes], label: str) -> None:
    """Look at one line end in every `LONGEST_LINE` bytes, which costs next to nothing."""
    size = file.seek(0, io.SEEK_END)
    if size <= LONGEST_LINE:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = 0
        while size - start > LONGEST_LINE:
            end = content.rfind(b"\n", start, start + LONGEST_LINE + 1)
            if end < 0:
                raise _too_long(label, _line_at(content, start))
            start = end + 1


def _line_at(content: mmap.mmap, place: int) -> int:
    return 1 + sum(content[start : min(start + _PIECE, place)].count(b"\n") for start in range(0, place, _PIECE))


def _too_long(label: str, line: int) -> InputError:
    return InputError(
        f"{label} line {line} is longer than {LONGEST_LINE // 2**20} MiB: check that the file is text, with a line end "
        "after every record"
    )
