"""How text files are written: compression, encoding, separator, quotes. Opens any of them as lines or plain UTF-8."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from lorentzrec.errors import InputError
from lorentzrec.ingest.unpacking import opened

SEPARATORS = (",", ";", "\t", "|")
NAMED_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
"""Other spellings of separators, for shells."""

_LINES_LOOKED_AT = 20
_CHUNK = 4 * 2**20
_MARKS = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
          (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip

UNREADABLE = 0x10FF00
"""Bytes that the encoding does not allow become private characters from here on in a plain copy, see `plain_copy`."""


def _marked(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(chr(UNREADABLE + byte) for byte in wrong), error.end


codecs.register_error("lorentzrec-mark", _marked)


def is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def encoding_of(path: Path, encoding: str, label: str) -> str:
    """The encoding to read with: UTF-16 and UTF-32 are recognised by their byte order mark."""
    with opened(path, label) as binary:
        head = binary.read(1024)
    if not is_utf8(encoding):
        return encoding
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if b"\0" in head:
        order = "le" if head[1:2] == b"\0" else "be"
        raise InputError(f"{label} has zero bytes, so it is not UTF-8 text: give `encoding='utf-16-{order}'`")
    return "utf-8-sig"


@contextmanager
def opened_text(path: Path, encoding: str, label: str) -> Iterator[Iterator[str]]:
    """The lines of a plain, gzip or zstd text file, without a byte order mark; unreadable bytes are marked."""
    with opened(path, label) as binary:
        yield iter(io.TextIOWrapper(binary, encoding_of(path, encoding, label), "lorentzrec-mark", newline="\n"))


def plain_copy(path: Path, encoding: str, label: str, target: Path, *, escape: str | None, quote: str | None) -> bool:
    """Write the file as uncompressed UTF-8, escapes resolved; whether all of it could be read.

    Bytes that could not be read are marked, see `UNREADABLE`. Escaped quotes become doubled ones.
    """
    sound, ahead = True, ""
    decoder = codecs.getincrementaldecoder(encoding_of(path, encoding, label))("lorentzrec-mark")
    with opened(path, label) as binary, target.open("w", encoding="utf-8", newline="") as plain:
        while True:
            chunk = binary.read(_CHUNK)
            text = ahead + decoder.decode(chunk, final=not chunk)
            ahead = ""
            sound = sound and not has_unreadable(text)
            if escape is not None:
                if chunk and (len(text) - len(text.rstrip(escape))) % 2:
                    text, ahead = text[:-1], escape
                text = _unescaped(text, escape, quote)
            plain.write(text)
            if not chunk:
                return sound


def has_unreadable(text: str) -> bool:
    return not text.isascii() and max(text) >= chr(UNREADABLE)


def with_escapes(text: str) -> str:
    r"""The text with marked bytes as \xe9, for people."""
    return "".join(
        f"\\x{ord(one) - UNREADABLE:02x}" if UNREADABLE <= ord(one) < UNREADABLE + 256 else one for one in text
    )


def encoding_hint(text: str) -> str:
    """The option that probably makes the marked bytes of a text readable."""
    high = [ord(one) - UNREADABLE for one in text if ord(one) >= UNREADABLE]
    return f"`encoding='{'cp1252' if any(0x80 <= byte <= 0x9F for byte in high) else 'latin-1'}'`"


def split_line(line: str, separator: str, quote: str | None) -> list[str]:
    """The fields of one CSV line; a ValueError says what is wrong with its quotes."""
    text = line.rstrip("\r\n")
    if len(separator) > 1 or quote is None:
        return text.split(separator)
    try:
        return next(csv.reader([text], delimiter=separator, quotechar=quote, strict=True), [""])
    except csv.Error as error:
        raise ValueError(quote_fault(text, quote) or str(error)) from None


def quote_fault(text: str, quote: str) -> str | None:
    r"""What is wrong with quotes that a backslash escapes."""
    return f"quotes escaped with a backslash (`escape={chr(92)!r}`)" if f"\\{quote}" in text else None


def first_lines(path: Path, encoding: str, label: str, count: int = _LINES_LOOKED_AT) -> list[str]:
    """The first lines that are not empty, without line ends."""
    with opened_text(path, encoding, label) as lines:
        return list(islice((text for line in lines if (text := line.rstrip("\r\n")).strip()), count))


def separator_of(
    lines: Sequence[str], usual: str, quote: str | None, *, header: bool, fields: int | None, spaces: bool
) -> str:
    """The separator of the lines: `usual` if it splits the header, else the one that splits all lines alike.

    `fields`: their number, if the columns are known. `spaces`: whether a space may be it.
    """
    candidates = dict.fromkeys([usual, *SEPARATORS, *([" "] if spaces else [])])
    counts = {one: [_fields(line, one, quote) for line in lines] for one in candidates}
    if not lines or (header and counts[usual][0] > 1):
        return usual
    alike = {one: found[0] for one, found in counts.items() if len(set(found)) == 1 and found[0] > 1}
    if fields is not None:
        alike = {one: count for one, count in alike.items() if count == fields}
    elif header and not alike:  # a broken line among the first: the header decides alone
        alike = {one: found[0] for one, found in counts.items() if found[0] > 1}
    return max(alike, key=lambda one: alike[one]) if alike else usual


def _fields(line: str, separator: str, quote: str | None) -> int:
    try:
        return len(split_line(line, separator, quote))
    except ValueError:
        return 1 if quote is None else len(line.split(f"{quote}{separator}{quote}"))


def _unescaped(text: str, escape: str, quote: str | None) -> str:
    if escape not in text:
        return text
    # Escaped escapes are out of the way while escaped quotes are resolved; this character is not part of any text.
    text = text.replace(escape * 2, "\ufdd0")
    if quote is not None:
        text = text.replace(escape + quote, quote * 2)
    return text.replace("\ufdd0", escape)
