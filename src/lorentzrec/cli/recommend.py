"""`lorentzrec recommend`, `similar` and `recommend-all`: recommendations of a model, without a service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.cli.inputs import parse_ids, read_titles
from lorentzrec.cli.output import print_result, progress, table
from lorentzrec.cli.results import refuse_target, write_table
from lorentzrec.counting import Count
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from lorentzrec.data.vocabulary import Id
    from lorentzrec.model.model import Model
    from lorentzrec.model.ranking import Recommendations

USERS_PER_BLOCK = 16_384
"""Customers whose recommendations are in memory at a time."""


def recommend(
    model: Path,
    *,
    history: list[str] | None = None,
    user: str | None = None,
    k: int = 10,
    exclude: list[str] | None = None,
    items: list[str] | None = None,
    titles: str | None = None,
    json: bool = False,
) -> None:
    """Recommend items for a history, or for a customer of the training data.

    A history needs no known customer, and no retraining. Items in the history are not recommended.

    $ lorentzrec recommend model --history sku-1,sku-9
    $ lorentzrec recommend model --user u-17 -k 20 --titles shop
    $ lorentzrec recommend model --history @basket.txt --items @in-stock.txt --json

    history: Items of the history, oldest first: ids separated by commas, or @FILE with one per line. Repeatable.
    user: A customer of the training data.
    exclude: Items that are never recommended, in the same form.
    items: Recommend only these, in the same form.
    """
    from lorentzrec.model.artifact import load

    trained = load(model)
    if (history is None) == (user is None):
        raise InputError("recommend takes either --history or --user: give one of them")
    found = trained.recommend(
        None if history is None else parse_ids(history, trained.items),
        user if user is None or trained.users is None else trained.users.parse(user),
        k=k,
        exclude=parse_ids(exclude or [], trained.items),
        items=None if items is None else parse_ids(items, trained.items),
    )
    _print(found, model, titles, json)


def similar(model: Path, item: str, *, k: int = 10, titles: str | None = None, json: bool = False) -> None:
    """List the items nearest to an item, scored by minus the distance.

    $ lorentzrec similar model sku-1 -k 5 --titles items.csv

    item: The id of an item.
    """
    from lorentzrec.model.artifact import load

    trained = load(model)
    _print(trained.similar_items(trained.items.parse(item), k), model, titles, json)


def recommendation_table(found: Recommendations, titles: dict[str, str | None], title: str | None = None) -> Table:
    """The items in order, with titles if there are any."""
    columns = {"": "right dim", "item": "left bold"} | ({"title": "left"} if titles else {}) | {"score": "right"}
    rows = [
        (rank, item, *([titles.get(str(item))] if titles else []), f"{score:.4f}")
        for rank, (item, score) in enumerate(found, start=1)
    ]
    return table(columns, rows, title=title)


def _print(found: Recommendations, model: Path, titles: str | None, json: bool) -> None:
    names = read_titles(titles)
    items: list[dict[str, Any]] = [
        {"id": item, "score": score} | ({"title": names.get(str(item))} if names else {}) for item, score in found
    ]
    result = {"items": items, "model": str(model), "fallback": found.fallback}
    notes = [found.fallback] if found.fallback else []
    print_result(result, recommendation_table(found, names), json=json, notes=notes)


def recommend_all(
    model: Path,
    *,
    out: Path,
    k: int = 10,
    exclude: list[str] | None = None,
    items: list[str] | None = None,
    threads: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write recommendations for every customer of the training data to one table.

    Uses all cores, block by block, so memory does not grow with the results. The suffix of the file decides its format;
    it is written atomically.

    $ lorentzrec recommend-all model --out recommendations.parquet -k 10

    out: Table to write (user, rank, item, score): .parquet, .csv, .jsonl; without a suffix, a folder of Parquet files.
    exclude: Items that are never recommended: ids separated by commas, or @FILE with one per line. Repeatable.
    items: Recommend only these, in the same form.
    threads: Number of threads. Default: all cores.
    """
    from lorentzrec.model.artifact import load

    refuse_target(out, force=force)
    trained = load(model)
    if trained.histories is None or trained.users is None:
        raise InputError(f"{model} was saved without training histories, so it has no customers: save it with them")
    started = time.perf_counter()
    users = trained.users.ids(trained.histories.lengths.nonzero()[0])
    skipped = len(trained.users) - len(users)
    options: dict[str, Any] = {
        "k": k,
        "exclude": parse_ids(exclude or [], trained.items),
        "items": None if items is None else parse_ids(items, trained.items),
        "threads": threads,
    }
    with progress("Recommending", len(users)) as done:

        def blocks() -> Iterator[pl.DataFrame]:
            for start in range(0, len(users), USERS_PER_BLOCK):
                yield _block(trained, users[start : start + USERS_PER_BLOCK], options)
                done(start + USERS_PER_BLOCK)

        rows = write_table(blocks(), out)
    result = {"file": str(out), "users": len(users), "rows": rows, "users_without_events": skipped}
    counts = f"{Count(rows):recommendation|recommendations} for {Count(len(users)):customer|customers}"
    print_result(
        result | {"seconds": time.perf_counter() - started},
        f"Wrote {counts} to {out}",
        json=json,
        notes=[f"skipped {Count(skipped):customer|customers} without training events"] if skipped else [],
    )


def _block(model: Model, users: list[Id], options: dict[str, Any]) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    assert model.users is not None
    found = model.recommend_many(users=users, **options)
    lengths = np.array([len(one) for one in found])
    user_ids = pl.Series("user", users, dtype=model.users.series.dtype)
    return pl.DataFrame(
        {
            "user": user_ids.gather(np.repeat(np.arange(len(users)), lengths)),
            "rank": np.concatenate([np.arange(1, length + 1, dtype=np.int32) for length in lengths]),
            "item": pl.Series([item for one in found for item in one.ids], dtype=model.items.series.dtype),
            "score": np.concatenate([one.scores for one in found]),
        }
    )
