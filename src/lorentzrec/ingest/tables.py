"""Tables whose columns have types: Parquet, Arrow and Excel files, and data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.errors import InputError, first_line
from lorentzrec.ingest.recognition import Column
from lorentzrec.ingest.storage import polars_faults

if TYPE_CHECKING:
    import polars as pl

FORMATS = {"parquet": "a Parquet file", "arrow": "an Arrow file", "excel": "an Excel workbook"}


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


def field_of(name: str, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """The values of a column, or of the field `user.id` of an object."""
    import polars as pl

    if name in schema:
        return pl.col(name)
    first = next(one for one in schema if name.startswith(f"{one}."))
    found = pl.col(first)
    for part in name[len(first) + 1 :].split("."):
        found = found.struct.field(part)
    return found.alias(name)
