"""`lorentzrec export`: the points of a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lorentzrec.atomic import atomic_file
from lorentzrec.batch.part_files import FORMATS
from lorentzrec.cli.output import print_result
from lorentzrec.cli.results import refuse_target, write_table
from lorentzrec.counting import Count
from lorentzrec.errors import ConfigError


def export(
    model: Path,
    *,
    out: Path,
    to: str | None = None,
    attributes: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write ids, counts and points of all items to one file.

    On the hyperboloid, the items for a point u are in the order of the plain inner product of (-u0, u1, ...) and their
    points, so any exact inner-product search works.

    $ lorentzrec export model --out points.parquet
    $ lorentzrec export model --attributes --out attributes.parquet
    $ lorentzrec export model --to npz --out points.npz

    out: File to write: .parquet, .csv, .jsonl or .npz; without a suffix, a folder of Parquet files.
    attributes: Write the attributes instead of the items: `count` is the number of items that have each.
    to: The format, if the name has no suffix: npz or parquet.
    """
    from lorentzrec.model.artifact import load
    from lorentzrec.model.catalogue import with_attributes_as_items

    kinds = [suffix[1:] for suffix in (*FORMATS, ".npz")]
    if to is not None and to not in kinds:
        raise ConfigError(f"there is no format {to!r}: use one of {', '.join(kinds)}")
    if to is not None and out.suffix not in ("", f".{to}"):
        raise ConfigError(f"{out} does not have the suffix of the format {to}: end it in .{to}, or leave --to out")
    out = out.with_suffix(f".{to}") if to is not None else out
    refuse_target(out, force=force, formats=(*FORMATS, ".npz"))
    trained = with_attributes_as_items(load(model)) if attributes else load(model)
    columns: dict[str, Any] = {"id": trained.items.series, "count": trained.item_counts, "point": trained.item_points}
    if trained.history_points is not trained.item_points:
        columns["history_point"] = trained.history_points
    if out.suffix == ".npz":
        import numpy as np

        arrays = columns | {"id": np.array(trained.item_ids)}
        with atomic_file(out) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    else:
        import polars as pl

        write_table(pl.DataFrame(columns), out)
    count, kind = len(trained.items), "attributes" if attributes else "items"
    result = {"file": str(out), "format": out.suffix[1:] or "parquet", kind: count}
    text = f"{Count(count):attribute is|attributes are}" if attributes else f"{Count(count):item is|items are}"
    print_result(result, f"{text} in {out}", json=json)
