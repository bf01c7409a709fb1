"""`lorentzrec export`: the points of a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lorentzrec.cli.options import Json, ModelFolder
from lorentzrec.cli.output import print_json, show
from lorentzrec.errors import ConfigError

FORMATS = ("parquet", "npz")


def export(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="The file to write.")],
    to: Annotated[str, typer.Option(help=f"The format: {' or '.join(FORMATS)}.")] = "parquet",
    json: Json = False,
) -> None:
    """Write ids, counts and points of all items to one file.

    On the hyperboloid the items for a point u are in the order of the plain inner product of (-u0, u1, ...) and their
    points, so any exact inner-product search will do.
    """
    from lorentzrec.learning.artifact import load

    if to not in FORMATS:
        raise ConfigError(f"there is no format {to!r}: use one of {', '.join(FORMATS)}")
    trained = load(model)
    if to == "parquet":
        trained.to_parquet(out)
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
        print_json({"file": str(out), "format": to, "items": len(trained.items)})
    else:
        show(f"{len(trained.items):,} items are in {out}")
