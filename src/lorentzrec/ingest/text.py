"""The content of text files: decompressed piece by piece, decoded, copied as plain UTF-8.

A few megabytes of gzip can hold a line of gigabytes, which every parser of lines would first load into memory. All text
is read through this module, which limits the length of a line.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lorentzrec.errors import InputError
from lorentzrec.ingest.compression import detect_compression, open_content
from lorentzrec.ingest.sources import Source

if TYPE_CHECKING:
    from _typeshed import SupportsRead
    from typing_extensions import Buffer

LONGEST_LINE = 16 * 2**20
"""Bytes; an event or an item with its description has a few thousand at most."""

_PIECE = 2**20
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

UNREADABLE = 0x10FF00
"""Byte b that the encoding does not allow is decoded as the private character `UNREADABLE` + b."""
_UNREADABLE = re.compile(f"[{chr(UNREADABLE)}-{chr(UNREADABLE + 255)}]")


def _mark_bytes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(UNREADABLE + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("lorentzrec-mark", _mark_bytes)


@contextmanager
def open_bytes(path: Path, label: str) -> Iterator[IO[bytes]]:
    """The content of a plain or compressed file with limited lines; an `InputError` if it is damaged.

    `label`: its name in errors.
    """
    with open_content(path, label) as content:
        yield io.BufferedReader(LimitedLines(content, label), _PIECE)


class LimitedLines(io.RawIOBase):
    """The same bytes; an `InputError` after more than `LONGEST_LINE` of them without a line end."""

    def __init__(self, content: SupportsRead[bytes], label: str) -> None:
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
            raise InputError(
                f"{self._label} line {self._lines + 1} is longer than {LONGEST_LINE // 2**20} MiB: check that the file "
                "is text, with a line end after every record"
            )
        target[: len(piece)] = piece
        return len(piece)


def decompress(path: Path, label: str, target: Path) -> Path:
    """The path of an uncompressed file without overlong lines: `path` itself if it is not compressed, else `target`."""
    with path.open("rb") as file:
        compressed = detect_compression(file, label) is not None
    with open_bytes(path, label) as content, target.open("wb") if compressed else nullcontext() as plain:
        while piece := content.read(_PIECE):
            if plain is not None:
                plain.write(piece)
    return target if compressed else path


def is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def detect_encoding(path: Path, encoding: str, label: str) -> str:
    """The encoding to read with: UTF-16 and UTF-32 are recognised by their byte order mark."""
    with open_bytes(path, label) as binary:
        head = binary.read(1024)
    if not is_utf8(encoding):
        return encoding
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    for order, zeros, letters in (("le", head[1::2], head[::2]), ("be", head[::2], head[1::2])):
        if 4 * zeros.count(0) > 3 * len(zeros) > 0 and 0 not in letters:
            raise InputError(f"{label} has zero bytes, so it is not UTF-8 text: give `encoding='utf-16-{order}'`")
    if b"\0" in head:
        raise InputError(f"{label} has zero bytes, so it is not text: give CSV, JSON lines, Parquet, Arrow or Excel")
    return "utf-8-sig"


def read_text(path: Path, source: Source, label: str) -> Iterator[str]:
    """The text of a file in any encoding and compression, in blocks of whole lines, with escaped quotes doubled.

    Bytes that cannot be decoded are marked, see `UNREADABLE`.
    """
    encoding = detect_encoding(path, source.encoding, label)
    with open_bytes(path, label) as binary:
        text = io.TextIOWrapper(binary, encoding, "lorentzrec-mark", newline="\n")
        while block := text.read(_PIECE) + text.readline():
            yield block if source.escape is None else _double_quotes(block, source.escape, source.quote)


def read_lines(path: Path, source: Source, label: str) -> Iterator[str]:
    """The lines of the same text, without their ends."""
    for block in read_text(path, source, label):
        yield from (line.rstrip("\r\n") for line in io.StringIO(block, newline="\n"))


def read_first_lines(path: Path, source: Source, label: str, count: int) -> list[str]:
    """The first lines that are not blank."""
    return list(islice((line for line in read_lines(path, source, label) if line.strip()), count))


def copy_as_utf8(path: Path, source: Source, label: str, target: Path) -> bool:
    """Write the same text as uncompressed UTF-8; whether all of it could be decoded."""
    readable = True
    with target.open("w", encoding="utf-8", newline="") as plain:
        for block in read_text(path, source, label):
            readable = readable and not has_unreadable(block)
            plain.write(block)
    return readable


def _double_quotes(text: str, escape: str, quote: str | None) -> str:
    # Escaped escapes are replaced while escaped quotes are resolved, by a character that is not part of any text.
    text = text.replace(escape * 2, "\ufdd0")
    if quote is not None:
        text = text.replace(escape + quote, quote * 2)
    return text.replace("\ufdd0", escape)


def has_unreadable(text: str) -> bool:
    return not text.isascii() and _UNREADABLE.search(text) is not None


def show_unreadable(text: str) -> str:
    r"""The text with unreadable bytes as \xe9."""
    return "".join(
        f"\\x{ord(one) - UNREADABLE:02x}" if UNREADABLE <= ord(one) < UNREADABLE + 256 else one for one in text
    )


def suggest_encoding(text: str) -> str:
    """The option that probably makes the unreadable bytes of a text readable."""
    high = [ord(one) - UNREADABLE for one in text if ord(one) >= UNREADABLE]
    return f"`encoding='{'cp1252' if any(0x80 <= byte <= 0x9F for byte in high) else 'latin-1'}'`"
