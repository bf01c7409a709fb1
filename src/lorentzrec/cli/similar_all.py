"""`lorentzrec similar-all`: the similar items of every item of a model, without a service."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from lorentzrec.base.counting import Count
from lorentzrec.cli.inputs import parse_ids, read_titles
from lorentzrec.cli.options import OptionalStore
from lorentzrec.cli.output import print_result
from lorentzrec.cli.results import refuse_target, write_table
from lorentzrec.errors import InputError


def similar_all(
    model: Path,
    *,
    out: Path,
    store: OptionalStore = None,
    k: int = 10,
    allow: list[str] | None = None,
    reasons: bool = False,
    titles: str | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write the similar items of every item of a model to one table.

    $ lorentzrec similar-all model --out similar.parquet
    $ lorentzrec similar-all model --store file:store --out similar.jsonl -k 20 --reasons --titles shop

    out: Table to write (item, rank, similar, score, title, because): .parquet, .csv, .jsonl; without a suffix, a folder
        of Parquet files.
    store: Recommend only the live items of this store. Items that are not live have a list of their own.
    allow: Recommend only these: ids separated by commas, or @FILE with one per line. Repeatable.
    reasons: Also list whether the same customers buy both items, or only their points are near.
    titles: Titles of the similar items: a dataset, or a file with columns item and title.
    """
    import polars as pl

    from lorentzrec.batch.store_customers import live_ids
    from lorentzrec.model.artifact import load
    from lorentzrec.serving.stores.address import open_store

    refuse_target(out, force=force)
    if reasons and out.suffix == ".csv":
        raise InputError(f"{out} cannot have reasons, since CSV has no lists: end the name in .parquet or .jsonl")
    trained, names = load(model), read_titles(titles)
    allowed: set[Any] | None = None if allow is None else set(parse_ids(allow, trained.items))
    if store is not None:
        with closing(open_store(store)) as opened:
            live, removed = live_ids(opened.live_items(), trained.items)
        permitted = set(trained.item_ids if live is None else live) - set(removed)
        allowed = permitted if allowed is None else allowed & permitted
        if not allowed:
            raise InputError("no item of the model is live and allowed: check --allow and the live items of the store")
    found = trained.similar_items_many(trained.item_ids, k, allow=allowed, reasons=reasons)
    frame = found.to_frame().rename({"item": "similar", "query": "item"})
    if names:
        titles_of = pl.Series("title", [names.get(str(item)) for item in frame["similar"]], pl.String)
        frame = frame.with_columns(titles_of)
    write_table(frame, out)
    short = sum(len(one) < k for one in found)
    print_result(
        {"file": str(out), "items": len(found), "rows": len(frame), "short": short},
        f"Wrote {Count(len(frame)):similar item|similar items} of {Count(len(found)):item|items} to {out}",
        json=json,
        notes=[f"{Count(short):list has|lists have} fewer than {k} items, because no more are live and allowed"]
        if short
        else [],
    )
