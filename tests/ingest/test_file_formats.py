"""Files in many formats: each is read at once, or after one hint, or refused in one clear line."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import pickle
import re
import shlex
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard
from scipy import sparse

from lorentzrec import Interactions
from lorentzrec.errors import InputError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "file-formats.md"
EVENTS = [("ann", "tea", 1_715_558_400), ("bob", "tea", 1_715_644_800), ("ann", "cup", 1_715_731_200)]
FRAME = pl.DataFrame(EVENTS, schema=["user", "item", "time"], orient="row")
DAYS = FRAME.with_columns(pl.from_epoch("time").dt.strftime("%Y-%m-%d"))
READ = "read"


def text(frame: pl.DataFrame = FRAME, separator: str = ",", **options: Any) -> bytes:
    written: str = frame.write_csv(separator=separator, **options)
    return written.encode()


def json_lines(records: list[Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def written_by(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    def write(buffer: io.BytesIO) -> None:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)

    return written_by(write)


def archived(name: str, content: bytes) -> bytes:
    def write(buffer: io.BytesIO) -> None:
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))

    return written_by(write)


def workbook(frame: pl.DataFrame) -> bytes:
    """The smallest Excel file: text in cells, one sheet."""
    rows = [frame.columns, *map(list, frame.rows())]
    cell = '<c t="inlineStr"><is><t>{}</t></is></c>'
    cells = "".join(f"<row>{''.join(cell.format(value) for value in row)}</row>" for row in rows)
    office = "http://schemas.openxmlformats.org"
    main = f"{office}/spreadsheetml/2006/main"
    relation = f"{office}/officeDocument/2006/relationships"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    return zipped(
        {
            "[Content_Types].xml": (
                f'<Types xmlns="{office}/package/2006/content-types"><Default Extension="rels" '
                'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
                f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>'
                f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kinds}.worksheet+xml"/></Types>'
            ).encode(),
            "_rels/.rels": (
                f'<Relationships xmlns="{office}/package/2006/relationships"><Relationship Id="rId1" '
                f'Type="{relation}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
            ).encode(),
            "xl/workbook.xml": (
                f'<workbook xmlns="{main}" xmlns:r="{relation}"><sheets><sheet name="Events" sheetId="1" r:id="rId1"/>'
                "</sheets></workbook>"
            ).encode(),
            "xl/_rels/workbook.xml.rels": (
                f'<Relationships xmlns="{office}/package/2006/relationships"><Relationship Id="rId1" '
                f'Type="{relation}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
            ).encode(),
            "xl/worksheets/sheet1.xml": (
                f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></worksheet>'
            ).encode(),
        }
    )


def open_spreadsheet(frame: pl.DataFrame) -> bytes:
    """The smallest OpenDocument spreadsheet: text in cells, one sheet."""
    names = {kind: f"urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0" for kind in ("office", "table", "text")}
    spaces = " ".join(f'xmlns:{kind}="{name}"' for kind, name in names.items())
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    rows = "".join(
        f"<table:table-row>{''.join(cell.format(value) for value in row)}</table:table-row>"
        for row in [frame.columns, *map(list, frame.rows())]
    )
    return zipped(
        {
            "mimetype": b"application/vnd.oasis.opendocument.spreadsheet",
            "META-INF/manifest.xml": (
                f'<manifest:manifest xmlns:manifest="{names["office"].replace("office", "manifest")}">'
                '<manifest:file-entry manifest:full-path="content.xml" manifest:media-type="text/xml"/>'
                "</manifest:manifest>"
            ).encode(),
            "content.xml": (
                f"<office:document-content {spaces}><office:body><office:spreadsheet>"
                f'<table:table table:name="Events">{rows}</table:table>'
                "</office:spreadsheet></office:body></office:document-content>"
            ).encode(),
        }
    )


DOCUMENT = {"[Content_Types].xml": b"<Types/>", "word/document.xml": b"<document/>"}


def database(folder: Path) -> bytes:
    with sqlite3.connect(folder / "made.db") as connection:
        connection.execute("create table events (user, item)")
    connection.close()
    return (folder / "made.db").read_bytes()


GERMAN = FRAME.select(
    Kunde="user", Artikel=pl.col("item").replace("tea", "Käse"), Datum=pl.from_epoch("time").dt.strftime("%d.%m.%Y")
)
NESTED = [{"user": {"id": user}, "item": {"sku": item}, "time": time} for user, item, time in EVENTS]
LISTS = [{"user": [user], "item": item} for user, item, _ in EVENTS]
RATED = text(FRAME.select("user", "item", pl.lit(4).alias("rating"), "time"), "\t", include_header=False)
INDEXED = b",user,item,time\n0,ann,tea,1715558400\n1,bob,tea,1715644800\n2,ann,cup,1715731200\n"
INTER = b"user_id:token\titem_id:token\ttimestamp:float\n" + text(separator="\t", include_header=False)
MATRIX = sparse.csr_array(np.eye(2))

FILES: list[tuple[str, str, Callable[[Path], bytes], str]] = [
    # format, name, content, what happens: read, "hint" for the option of the error, or the refusal
    ("CSV", "events.csv", lambda _: text(), READ),
    ("CSV", "days.csv", lambda _: text(DAYS), READ),
    ("CSV", "index.csv", lambda _: INDEXED, READ),
    ("CSV", "semicolons.csv", lambda _: text(separator=";"), READ),
    ("CSV", "quoted.csv", lambda _: text(quote_style="always", line_terminator="\r\n"), READ),
    ("CSV", "byte-order-mark.csv", lambda _: b"\xef\xbb\xbf" + text(), READ),
    ("CSV", "utf-16.csv", lambda _: text().decode().encode("utf-16"), READ),
    ("CSV", "utf-16-without-mark.csv", lambda _: text().decode().encode("utf-16-le"), "encoding='utf-16-le'"),
    ("CSV", "Export.csv", lambda _: text(GERMAN, separator=";").decode().encode("latin-1"), "encoding='latin-1'"),
    ("CSV", "milliseconds.csv", lambda _: text(FRAME.with_columns(pl.col("time") * 1000)), "time_unit='milliseconds'"),
    ("CSV", "nanoseconds.csv", lambda _: text(FRAME.with_columns(pl.col("time") * 10**9)), "time_unit='nanoseconds'"),
    ("CSV", "no-header.csv", lambda _: b"7,9,1715558400\n7,8,1715644800\n", "columns='user,item,time'"),
    ("CSV", "wide.csv", lambda _: b"user,item\nann,tea,1\n", "2"),
    ("tabs", "events.tsv", lambda _: text(separator="\t"), READ),
    ("pipes", "events.txt", lambda _: text(separator="|"), READ),
    ("MovieLens", "u.data", lambda _: RATED, READ),
    ("MovieLens", "ratings.dat", lambda _: RATED.replace(b"\t", b"::"), READ),
    ("MovieLens", "ml.zip", lambda _: zipped({"ml/README": b"about", "ml/u.data": RATED}), READ),
    ("RecBole", "events.inter", lambda _: INTER, READ),
    ("gzip", "events.csv.gz", lambda _: gzip.compress(text()), READ),
    ("gzip", "damaged.csv.gz", lambda _: gzip.compress(text())[:-12], "cannot be read"),
    ("zstd", "events.csv.zst", lambda _: zstandard.compress(text()), READ),
    ("bzip2", "events.csv.bz2", lambda _: bz2.compress(text()), READ),
    ("bzip2", "damaged.csv.bz2", lambda _: bz2.compress(text())[:-12], "cannot be read"),
    ("xz", "events.csv.xz", lambda _: lzma.compress(text()[:20]) + lzma.compress(text()[20:]), READ),
    ("xz", "damaged.jsonl.xz", lambda _: lzma.compress(text())[:-12], "cannot be read"),
    ("zip", "events.zip", lambda _: zipped({"__MACOSX/._e.csv": b"x", "folder/e.csv": text()}), READ),
    ("zip", "several.zip", lambda _: zipped({"a.csv": text(), "b.csv": text()}), "holds 2 files (a.csv, b.csv)"),
    ("JSON lines", "events.jsonl", lambda _: json_lines(FRAME.to_dicts()), READ),
    ("JSON lines", "nested.jsonl", lambda _: json_lines(NESTED), READ),
    ("JSON lines", "lists.jsonl", lambda _: json_lines(LISTS), "lists in the column 'user'"),
    ("JSON", "array.json", lambda _: json.dumps(FRAME.to_dicts()).encode(), "one object per line"),
    ("Parquet", "events.parquet", lambda _: written_by(FRAME.write_parquet), READ),
    ("Parquet", "parquet.csv", lambda _: written_by(FRAME.write_parquet), READ),
    ("Arrow", "events.arrow", lambda _: written_by(FRAME.write_ipc), READ),
    ("Arrow", "events.feather", lambda _: written_by(FRAME.write_ipc), READ),
    ("Excel", "events.xlsx", lambda _: workbook(DAYS), READ),
    ("OpenDocument", "events.ods", lambda _: open_spreadsheet(DAYS), READ),
    ("Word", "events.docx", lambda _: zipped(DOCUMENT), "is a document of an office program"),
    ("SciPy matrix", "events.npz", lambda _: written_by(lambda file: sparse.save_npz(file, MATRIX)), READ),
    ("pickle", "events.pkl", lambda _: pickle.dumps([1]), "is a pickle, which can run any code"),
    ("pickle", "events.pkl.gz", lambda _: gzip.compress(pickle.dumps([1])), "is a pickle, which can run any code"),
    ("tar", "events.tar.gz", lambda _: gzip.compress(archived("events.csv", text())), "is a tar archive: unpack it"),
    ("SQLite", "events.db", database, "is an SQLite database"),
    ("HDF5", "events.h5", lambda _: b"\x89HDF\r\n\x1a\n" + bytes(100), "is an HDF5 file"),
    ("NumPy", "events.npy", lambda _: written_by(lambda file: np.save(file, np.eye(2))), "is a NumPy array"),
    ("PDF", "events.pdf", lambda _: b"%PDF-1.7\n" + bytes(100), "is a PDF document"),
    ("web page", "events.csv", lambda _: b"<!DOCTYPE html><html>", "is a web page"),
    ("other", "events.bin", lambda _: bytes(range(256)), "is not text"),
]  # fmt: skip


def attempt(path: Path, **options: Any) -> tuple[str, Interactions | None]:
    """What happens: the line of the error, and the data if the file was read."""
    try:
        return "", Interactions.from_file(path, **options)
    except InputError as error:
        return str(error), None


def outcome(folder: Path, entry: tuple[str, str, Callable[[Path], bytes], str]) -> tuple[str, str]:
    """How the file was read, and the hint or the refusal."""
    _, name, content, expected = entry
    path = folder / name
    path.write_bytes(content(folder))
    message, data = attempt(path)
    line = message.replace(f"{folder}/", "").replace(str(folder), "")
    assert "\n" not in message
    if data is not None:
        assert expected == READ, name
        check(data, name)
        return "read", ""
    hints = dict(re.findall(r"`([a-z_]+)='([^'`]*)'`", message))
    hints.pop("on_error", None)
    if "=" in expected:
        assert expected.split("=")[0] in hints, message
        again, data = attempt(path, **hints)
        assert data is not None, again
        check(data, name)
        return "read with " + " ".join(f"`--{key.replace('_', '-')} {shlex.quote(hints[key])}`" for key in hints), ""
    assert expected != READ, message
    assert expected in message, message
    return "refused", line


OTHERS: dict[str, list[tuple[Any, ...]]] = {
    "Export.csv": [(user, item.replace("tea", "Käse"), time) for user, item, time in EVENTS],
    "no-header.csv": [(7, 9, 1_715_558_400), (7, 8, 1_715_644_800)],
    "events.npz": [(0, 0, None), (1, 1, None)],  # a matrix has no times
}
"""The events of files that do not hold `EVENTS`."""


def check(data: Interactions, name: str) -> None:
    """The events are those that were written, with their times."""
    found = data.to_frame()
    times = found["time"].to_list() if data.times is not None else [None] * len(found)
    triples = zip(found["user"], found["item"], times, strict=True)
    assert sorted(triples, key=repr) == sorted(OTHERS.get(name, EVENTS), key=repr), name


@pytest.mark.parametrize("wrong", ["no times", "swapped", "an item less"])
def test_the_check_finds_lost_columns(wrong: str) -> None:
    users, items, times = (list(column) for column in zip(*EVENTS, strict=True))
    columns: dict[str, tuple[Any, ...]] = {
        "no times": (users, items),
        "swapped": (items, users, times),
        "an item less": (users, ["tea"] * 3, times),
    }
    check(Interactions.from_pairs(users, items, times), "events.csv")
    with pytest.raises(AssertionError):
        check(Interactions.from_pairs(*columns[wrong]), "events.csv")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for number, entry in enumerate(FILES):
        folder = tmp_path_factory.mktemp(f"file{number}")
        found.append((*entry[:2], *outcome(folder, entry)))
    return found


def test_forty_files_in_twenty_formats(outcomes: list[tuple[str, ...]]) -> None:
    assert len(outcomes) >= 40
    assert len({one[0] for one in outcomes}) >= 20


def test_the_page_has_the_table(outcomes: list[tuple[str, ...]]) -> None:
    """Run this file to write the page: `python tests/ingest/test_file_formats.py`."""
    assert PAGE.read_text() == page(outcomes)


def page(outcomes: list[tuple[str, ...]]) -> str:
    lines = [
        "# File formats",
        "",
        "What happens to files in many formats. A test writes each of them, reads it and compares this table.",
        "Every refusal is one line, with what to do. [Reading events](data.md) explains the options.",
        "",
        "| format | file | result | message |",
        "|---|---|---|---|",
    ]
    for kind, name, result, message in outcomes:
        cells = [kind, f"`{name}`", result, message.replace("|", "\\|")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_excel_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fastexcel", None)
    (tmp_path / "e.xlsx").write_bytes(workbook(FRAME))
    with pytest.raises(InputError, match=r"is an Excel workbook, which needs the package .*lorentzrec\[excel\]"):
        Interactions.from_file(tmp_path / "e.xlsx")


def test_a_workbook_that_fills_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lorentzrec.ingest import file_kinds

    monkeypatch.setattr(file_kinds, "_LARGEST_WORKBOOK", 1000)
    (tmp_path / "e.xlsx").write_bytes(workbook(FRAME))
    with pytest.raises(InputError, match="when it is unpacked: save the events as CSV"):
        Interactions.from_file(tmp_path / "e.xlsx")


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (["1,160", "1,050"], "`decimal=','` or `thousands=','`"),
        (["1,160,000", "1,050"], [1_160_000.0, 1_050.0]),
        (["1,160.50", "2"], [1_160.5, 2.0]),
        (["1.160,50", "1.050"], [1_160.5, 1_050.0]),
        (["1.160", "1.050"], "`decimal='.'` or `thousands='.'`"),
        (["1.160", "1.05"], [1.16, 1.05]),
        (["0,125", "0,250"], [0.125, 0.25]),
        (["1,5", "2"], [1.5, 2.0]),
    ],
)
def test_thousands_are_recognised_or_refused(tmp_path: Path, weights: list[str], expected: Any) -> None:
    path = tmp_path / "e.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(
            [("user", "item", "weight"), *(("u", n, w) for n, w in enumerate(weights))]
        )
    message, data = attempt(path)
    if isinstance(expected, str):
        assert f"give {expected}" in message
        sign = expected[-3]
        for name, factor in (("thousands", 1.0), ("decimal", 0.001)):
            found = Interactions.from_file(path, **{name: sign}).weights
            assert found is not None
            assert sorted(found.tolist()) == pytest.approx([1_050 * factor, 1_160 * factor])
    else:
        assert data is not None, message
        assert data.weights is not None
        assert dict(zip(data.items.ids(data.item_rows), data.weights.tolist(), strict=True)) == pytest.approx(
            dict(enumerate(expected))
        )


def main() -> None:
    """Write the page."""
    import tempfile

    found: list[tuple[str, ...]] = []
    for entry in FILES:
        with tempfile.TemporaryDirectory() as folder:
            found.append((*entry[:2], *outcome(Path(folder), entry)))
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
