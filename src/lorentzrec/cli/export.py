"""`lorentzrec export`: the points of a model for other programs, and its card for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.base.atomic import atomic_file, write_text
from lorentzrec.base.counting import Count
from lorentzrec.batch.part_files import FORMATS
from lorentzrec.cli.output import print_result
from lorentzrec.cli.results import refuse_target, write_table
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    from lorentzrec.model.model import Model

CARD = ".md"
"""The suffix of the card of a model."""


def export(
    model: Path,
    *,
    out: Path,
    to: str | None = None,
    attributes: bool = False,
    customers: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write ids, counts and points of all items, or of all customers, to one file, or write the model card.

    The items for a customer are in the order of the plain inner product of their vectors, the column `vector` of both
    files, so any exact inner-product search works. It finds the items of lorentzrec recommend if the model was trained
    with memory=none: what the memory adds to a score is in no vector. If items have masses, the order is nearly that.

    $ lorentzrec export model --out points.parquet
    $ lorentzrec export model --customers --out customers.parquet
    $ lorentzrec export model --attributes --out attributes.parquet
    $ lorentzrec export model --to npz --out points.npz
    $ lorentzrec export model --out model-card.md

    out: File to write: .parquet, .csv, .jsonl or .npz; without a suffix, a folder of Parquet files. With .md, the card
        of the model: its data, quality, settings, notes and limits on one page.
    attributes: Write the attributes instead of the items: `count` is the number of items that have each.
    customers: Write the customers of the training data instead of the items: `count` is the number of their events, and
        `point` what items are ranked by.
    to: The format, if the name has no suffix: npz or parquet.
    """
    from lorentzrec.model.artifact import load
    from lorentzrec.model.card import write_card
    from lorentzrec.model.catalogue import with_attributes_as_items
    from lorentzrec.model.queries import tabulate_items

    kinds = [suffix[1:] for suffix in (*FORMATS, ".npz")]
    if to is not None and to not in kinds:
        raise ConfigError(f"there is no format {to!r}: use one of {', '.join(kinds)}")
    if to is not None and out.suffix not in ("", f".{to}"):
        raise ConfigError(f"{out} does not have the suffix of the format {to}: end it in .{to}, or leave --to out")
    out = out.with_suffix(f".{to}") if to is not None else out
    if attributes and customers:
        raise ConfigError("--attributes and --customers are two tables: give one of them")
    if out.suffix == CARD and (attributes or customers):
        raise ConfigError(f"{out} is the card of a model, which has no table: leave out --attributes and --customers")
    refuse_target(out, force=force, formats=(*FORMATS, ".npz", CARD))
    if out.suffix == CARD:
        write_text(out, write_card(load(model), model.resolve().name))
        print_result({"file": str(out)}, f"The card of the model is in {out}", json=json)
        return
    notes: list[str] = []
    if customers:
        columns, notes = _customers(load(model))
    else:
        trained = with_attributes_as_items(load(model)) if attributes else load(model)
        columns = tabulate_items(trained)
    if out.suffix == ".npz":
        import numpy as np

        arrays = columns | {"id": np.array(columns["id"].to_list())}
        with atomic_file(out) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    else:
        import polars as pl

        write_table(pl.DataFrame(columns), out)
    kind = "customers" if customers else "attributes" if attributes else "items"
    count = len(columns["id"])
    result = {"file": str(out), "format": out.suffix[1:] or "parquet", kind: count}
    text = format(Count(count), f"{kind.removesuffix('s')} is|{kind} are")
    print_result(result, f"{text} in {out}", json=json, notes=notes)


def _customers(model: Model) -> tuple[dict[str, Any], list[str]]:
    """Ids, numbers of events and points of the customers with training events, and a note on those without."""
    import numpy as np

    from lorentzrec.model.queries import require_users

    users = require_users(model)
    if model.histories is None:
        raise InputError("this model has no training histories: save it with histories=True")
    counts = model.histories.lengths
    informed = np.flatnonzero(counts)
    ids = users.series.gather(informed)
    columns = {"id": ids, "count": counts[informed], "point": model.query_points(users=ids.to_list())}
    columns["vector"] = model.query_vectors(users=ids.to_list())
    idle = len(users) - len(informed)
    return columns, [f"{Count(idle):customer has|customers have} no training event: left out"] if idle else []
