"""What a file is, by its first bytes: text, a table in a format that is read, or something that is refused by name."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from lorentzrec.errors import InputError, explain_missing, how_to_get
from lorentzrec.ingest.compression import open_archive, open_content
from lorentzrec.ingest.storage import file_name

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
    with explain_missing(f"{label} is an Excel workbook, which needs the package {{name}}", how_to_get("excel")):
        import fastexcel  # noqa: F401
