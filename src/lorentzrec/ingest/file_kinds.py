"""What a file is, by its first bytes: text, something that is refused by name, or a table whose columns have types
(Parquet, Arrow, Excel), and how such tables are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from lorentzrec.base.library_faults import first_line, polars_faults, require_extra
from lorentzrec.errors import InputError
from lorentzrec.ingest.compression import open_archive, open_content
from lorentzrec.ingest.recognition import Column
from lorentzrec.ingest.storage import file_name

if TYPE_CHECKING:
    import polars as pl

FORMATS = {"parquet": "a Parquet file", "arrow": "an Arrow file", "excel": "an Excel workbook"}
_AS_FRAME = "read it with {tool} and give the frame to Interactions.from_frame"
_TABLES = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "excel"}
"""First bytes -> format."""
_REFUSED = {
    b"FEA1": ("a Feather file of the first version", "write it again with a current program"),
    b"\x89HDF\r\n\x1a\n": ("an HDF5 file", _AS_FRAME.format(tool="pandas.read_hdf")),
    b"SQLite format 3\0": ("an SQLite database", _AS_FRAME.format(tool="polars.read_database")),
    b"\x93NUMPY": ("a NumPy array", "give its columns to Interactions.from_pairs"),
    b"ORC": ("an ORC file", _AS_FRAME.format(tool="pandas.read_orc")),
    b"Obj\x01": ("an Avro file", _AS_FRAME.format(tool="polars.read_avro")),
    b"<stata_dta>": ("a Stata file", _AS_FRAME.format(tool="pandas.read_stata")),
    b"$FL2": ("an SPSS file", _AS_FRAME.format(tool="pandas.read_spss")),
    b"RDX": ("a file of R", "save the events in R with write.csv"),
    b"X\n\x00": ("a file of R", "save the events in R with write.csv"),
    b"7z\xbc\xaf\x27\x1c": ("a 7-Zip archive", "unpack it"),
    b"Rar!": ("a RAR archive", "unpack it"),
    b"PK\x03\x04": ("an archive within an archive", "unpack it"),
    b"%PDF": ("a PDF document", "export the events as CSV"),
    b"\x89PNG": ("a picture", "give a file with events"),
    b"\xff\xd8\xff": ("a picture", "give a file with events"),
    b"<!DOCTYPE html": ("a web page", "give the file itself, not the page that leads to it"),
    b"<html": ("a web page", "give the file itself, not the page that leads to it"),
    b"<?xml": ("an XML document", "export the events as CSV"),
}
"""First bytes -> what such a file is, and what to do."""
_OPEN_SPREADSHEET = b"application/vnd.oasis.opendocument.spreadsheet"
"""The type that a spreadsheet of OpenDocument (.ods) states of itself."""
_LARGEST_WORKBOOK = 4 * 2**30
"""Bytes of a workbook once it is unpacked."""


def detect_kind(path: Path, label: str) -> str | None:
    """The format of a file that is no text: parquet, arrow, excel or csr; None for text.

    An `InputError` with what to do for a file of any other known kind. `label`: the name of the file in errors.
    """
    with path.open("rb") as file:
        head = file.read(8)
    if file_name(label).endswith(".npz"):
        return "csr"
    if head.startswith(b"PK\x03\x04"):
        with open_archive(path, label) as archive:
            names = archive.namelist()
            workbook = any(name.startswith("xl/workbook.") for name in names)
            if "[Content_Types].xml" in names and not workbook:
                raise InputError(f"{label} is a document of an office program: export the events as CSV")
            if workbook or _is_open_spreadsheet(archive):
                if sum(one.file_size for one in archive.infolist()) > _LARGEST_WORKBOOK:
                    raise InputError(f"{label} is larger than 4 GiB when it is unpacked: save the events as CSV")
                return "excel"
            if names and all(name.endswith(".npy") for name in names):
                return "csr"
    for mark, kind in _TABLES.items():
        if head.startswith(mark):
            return kind
    with open_content(path, label) as content:
        head = content.read(512)
    if len(head) > 2 and head[0] == 0x80 and head[1] in range(2, 6):
        raise InputError(
            f"{label} is a pickle, which can run any code when it is opened: if you trust it, "
            f"{_AS_FRAME.format(tool='pandas.read_pickle')}"
        )
    for mark, kind in _TABLES.items():
        if head.startswith(mark):
            raise InputError(f"{label} is a compressed {kind} file: unpack it, and give the file")
    for mark, (what, action) in _REFUSED.items():
        if head.startswith(mark):
            raise InputError(f"{label} is {what}: {action}")
    if head[257:262] == b"ustar":
        raise InputError(f"{label} is a tar archive: unpack it, and give the file with the events, or the folder")
    return None


def _is_open_spreadsheet(archive: ZipFile) -> bool:
    if "mimetype" not in archive.namelist():
        return False
    with archive.open("mimetype") as file:
        return file.read(len(_OPEN_SPREADSHEET)) == _OPEN_SPREADSHEET


def require_excel(label: str) -> None:
    """Raise an `InputError` if the package that reads workbooks is missing."""
    with require_extra("excel", f"{label} is an Excel workbook, which needs the package {{name}}"):
        import fastexcel  # noqa: F401


def scan_table(path: Path, address: str, file_format: str, notes: list[str] | None = None) -> pl.LazyFrame:
    """The rows of a table, lazily; of a workbook, those of its first sheet. `notes` receives what is left out."""
    import polars as pl

    with table_faults(address, file_format):
        if file_format == "parquet":
            return pl.scan_parquet(path, glob=False)
        if file_format == "arrow":
            return pl.scan_ipc(path, glob=False)
        return _read_workbook(path, notes).lazy()


@contextmanager
def table_faults(address: str, file_format: str) -> Iterator[None]:
    """Report all errors about a table in one line; `address` names it in the message."""
    with polars_faults(f"{address} cannot be read", f"it is not {FORMATS[file_format]}, give one", InputError):
        yield


def _read_workbook(path: Path, notes: list[str] | None) -> pl.DataFrame:
    import fastexcel

    try:
        workbook = fastexcel.read_excel(path)
        names = workbook.sheet_names
        if notes is not None and len(names) > 1:
            notes.append(f"of {len(names)} sheets the first, {names[0]!r}, is read: save another one as a file")
        return workbook.load_sheet(0, schema_sample_rows=None).to_polars()
    except fastexcel.FastExcelError as error:
        raise OSError(first_line(error)) from None


def typed_columns(schema: Mapping[str, pl.DataType]) -> list[Column]:
    """The columns of a table, with the fields of objects as `user.id` after their object."""
    import polars as pl

    columns = []
    for name, kind in schema.items():
        nested = isinstance(kind, pl.Struct | pl.List | pl.Array)
        number = "integer" if kind.is_integer() else "float" if kind.is_float() or kind.is_decimal() else "text"
        columns.append(Column(name, "object" if nested else number))
        if isinstance(kind, pl.Struct):
            inner = typed_columns({f"{name}.{one.name}": one.dtype for one in kind.fields})  # type: ignore[misc]
            columns += [one for one in inner if one.name not in schema]
    return columns


def select_field(name: str, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """The values of a column, or of the field `user.id` of an object."""
    import polars as pl

    if name in schema:
        return pl.col(name)
    first = next(one for one in schema if name.startswith(f"{one}."))
    found = pl.col(first)
    for part in name[len(first) + 1 :].split("."):
        found = found.struct.field(part)
    return found.alias(name)
