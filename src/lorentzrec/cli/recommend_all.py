"""`lorentzrec recommend-all`: recommendations for every customer of the training data, as one table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lorentzrec.cli.options import Count, Json, ModelFolder
from lorentzrec.cli.output import note, print_json, progress, show
from lorentzrec.cli.recommend import Ids, ids_of
from lorentzrec.cli.table_files import Force, refuse_target, write_table
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.vocabulary import Id
    from lorentzrec.model.model import Model

USERS_PER_BLOCK = 16_384
"""Customers whose answers are in memory at one time."""


def recommend_all(
    model: ModelFolder,
    out: Annotated[
        Path,
        typer.Option(help="Table to write (user, rank, item, score): .parquet, .csv, .jsonl; else a folder of parts."),
    ],
    k: Count = 10,
    exclude: Annotated[Ids, typer.Option(help="Items never to recommend, as in recommend.")] = None,
    items: Annotated[Ids, typer.Option(help="Recommend nothing but these.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads.", show_default="all cores")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """The best items for every customer of the training data.

    Block by block on all cores, in memory that does not grow with the results. The name of the file decides its format;
    it appears when it is complete.
    """
    from lorentzrec.model.artifact import load

    refuse_target(out, force=force)
    trained = load(model)
    if trained.histories is None or trained.users is None:
        raise InputError(
            f"{model} carries no training histories, so nobody is known: save it with them, or use recommend"
        )
    started = time.perf_counter()
    users = trained.users.ids(trained.histories.lengths.nonzero()[0])
    left_out = len(trained.users) - len(users)
    allowed = None if items is None else ids_of(items, trained.items)
    rows = _write(trained, users, out, k, ids_of(exclude or [], trained.items), allowed, threads)
    result = {"file": str(out), "users": len(users), "rows": rows, "users_without_events": left_out}
    if json:
        print_json(result | {"seconds": time.perf_counter() - started})
        return
    show(f"{rows:,} recommendations for {len(users):,} customers are in {out}")
    note([f"{left_out:,} customers have no training event: they are left out"] if left_out else [])


def _write(
    model: Model,
    users: list[Id],
    out: Path,
    k: int,
    exclude: list[Id],
    allowed: list[Id] | None,
    threads: int | None,
) -> int:
    """Write the table block by block; the number of rows."""
    with progress("recommending", len(users)) as done:

        def blocks() -> Iterator[pl.DataFrame]:
            for start in range(0, len(users), USERS_PER_BLOCK):
                yield _block(model, users[start : start + USERS_PER_BLOCK], k, exclude, allowed, threads)
                done(start + USERS_PER_BLOCK)

        return write_table(blocks(), out)


def _block(
    model: Model, users: list[Id], k: int, exclude: list[Id], allowed: list[Id] | None, threads: int | None
) -> pl.DataFrame:
    import numpy as np
    import polars as pl

    assert model.users is not None
    answers = model.recommend_many(users=users, k=k, exclude=exclude, items=allowed, threads=threads)
    lengths = np.array([len(answer) for answer in answers])
    user_ids = pl.Series("user", users, dtype=model.users.series.dtype)
    return pl.DataFrame(
        {
            "user": user_ids.gather(np.repeat(np.arange(len(users)), lengths)),
            "rank": np.concatenate([np.arange(1, length + 1, dtype=np.int32) for length in lengths]),
            "item": pl.Series([item for answer in answers for item in answer.ids], dtype=model.items.series.dtype),
            "score": np.concatenate([answer.scores for answer in answers]),
        }
    )
