"""Results as files: the name decides the format, and nothing is overwritten unless it is to be."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]

FORMATS = (".parquet", ".csv", ".jsonl")
PARTS = "part-*.parquet"
"""The files of a table without suffix, which is a folder."""


def refuse_target(out: Path, *, force: bool, formats: tuple[str, ...] = FORMATS) -> None:
    """An `InputError` if the name does not tell a known format, or something is there already."""
    if out.suffix not in ("", *formats):
        known = ", ".join(formats)
        raise InputError(f"{out}: there is no format {out.suffix}: end the name in {known}, or nothing for a folder")
    foreign = out.is_dir() and any(not path.match(PARTS) for path in out.iterdir())
    if foreign or out.is_dir() != (out.suffix == "" and out.exists()):
        raise InputError(f"{out} is a {'folder' if out.is_dir() else 'file'} of something else: choose another name")
    if out.exists() and not force:
        raise InputError(f"{out} already exists: choose another name, or overwrite it with `force`")


def write_table(blocks: Iterable[pl.DataFrame], out: Path) -> int:
    """Write the blocks, one after another, as one table in the format of its name; the number of rows.

    Blocks are kept on disk until all are there, so that memory holds one of them; then the table appears.
    """
    import polars as pl

    from lorentzrec.atomic import atomic_file

    rows = 0
    with _parts(out) if out.suffix == "" else atomic_file(out) as partial:
        scratch = partial if out.suffix == "" else partial.with_name(f".lorentzrec-{secrets.token_hex(4)}")
        scratch.mkdir(exist_ok=True)
        try:
            for number, block in enumerate(blocks):
                block.write_parquet(scratch / f"part-{number:05d}.parquet")
                rows += len(block)
            frame = pl.scan_parquet(scratch / PARTS)
            if out.suffix == ".csv":
                _flat(frame).sink_csv(partial)
            elif out.suffix == ".jsonl":
                frame.sink_ndjson(partial)
            elif out.suffix == ".parquet":
                frame.sink_parquet(partial)
        finally:
            if scratch != partial:
                shutil.rmtree(scratch, ignore_errors=True)
    return rows


def _flat(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Columns of points as one column per coordinate, which is all that CSV can hold."""
    import polars as pl

    columns: list[pl.Expr] = []
    for name, kind in frame.collect_schema().items():
        if isinstance(kind, pl.Array):
            columns += [pl.col(name).arr.get(place).alias(f"{name}_{place}") for place in range(kind.size)]
        else:
            columns.append(pl.col(name))
    return frame.select(columns)


@contextmanager
def _parts(out: Path) -> Iterator[Path]:
    """A folder that appears whole; older parts of that name return if it does not."""
    from lorentzrec.atomic import atomic_directory

    older = out.with_name(f".{out.name}.older-{secrets.token_hex(4)}") if out.exists() else None
    if older is not None:
        out.rename(older)
    try:
        with atomic_directory(out) as folder:
            yield folder
    except BaseException:
        if older is not None:
            older.rename(out)
        raise
    if older is not None:
        shutil.rmtree(older, ignore_errors=True)
