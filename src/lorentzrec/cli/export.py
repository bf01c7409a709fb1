"""`lorentzrec export`: the points of a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lorentzrec.cli.options import Json, ModelFolder
from lorentzrec.cli.output import print_json, show
from lorentzrec.cli.table_files import FORMATS, Force, refuse_target, write_table
from lorentzrec.errors import ConfigError


def export(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="File to write: .parquet, .csv, .jsonl or .npz; else a folder of parts.")],
    to: Annotated[
        str | None, typer.Option(help="The format, if the name does not tell it: npz or parquet.", show_default=False)
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write ids, counts and points of all items to one file.

    On the hyperboloid the items for a point u are in the order of the plain inner product of (-u0, u1, ...) and their
    points, so any exact inner-product search will do.
    """
    from lorentzrec.model.artifact import load

    kinds = [suffix[1:] for suffix in (*FORMATS, ".npz")]
    if to is not None and to not in kinds:
        raise ConfigError(f"there is no format {to!r}: use one of {', '.join(kinds)}")
    if to is not None and out.suffix not in ("", f".{to}"):
        raise ConfigError(f"{out} is not the name of a file of the format {to}: end it in .{to}, or leave --to out")
    out = out.with_suffix(f".{to}") if to is not None else out
    refuse_target(out, force=force, formats=(*FORMATS, ".npz"))
    trained = load(model)
    if out.suffix != ".npz":
        import polars as pl

        columns = {"id": trained.items.series, "count": trained.item_counts, "point": trained.item_points}
        if trained.history_points is not trained.item_points:
            columns["history_point"] = trained.history_points
        write_table([pl.DataFrame(columns)], out)
    else:
        import numpy as np

        from lorentzrec.atomic import atomic_file

        arrays: dict[str, Any] = {"id": np.array(trained.item_ids), "count": trained.item_counts}
        arrays["point"] = trained.item_points
        if trained.history_points is not trained.item_points:
            arrays["history_point"] = trained.history_points
        with atomic_file(out) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    if json:
        print_json({"file": str(out), "format": out.suffix[1:] or "parquet", "items": len(trained.items)})
    else:
        show(f"{len(trained.items):,} items are in {out}")
