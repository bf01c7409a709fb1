"""Recommendations for all customers on Spark: a task per part of the results."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from lorentzrec.batch.part_files import PART, Part, PartFiles, finish_parts, part_name, unfinished_parts
from lorentzrec.batch.recommending import (
    BatchOptions,
    BatchRecommender,
    BatchReport,
    BatchSource,
    drop_erased,
    source_of_model,
)
from lorentzrec.batch.store_customers import list_customers
from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import InputError
from lorentzrec.ingest.spark_session import spark_session
from lorentzrec.ingest.storage import (
    fetch,
    is_remote,
    join,
    list_files,
    read_content,
    read_record,
    remove,
    write_file,
    write_record,
)
from lorentzrec.model.artifact import load
from lorentzrec.points.index import INDEX
from lorentzrec.spark.scratch import absolute
from lorentzrec.spark.tasks import choose_threads, run_each

TITLES = "titles.parquet"


def recommend_all(
    model: str | Path,
    out: str | Path,
    *,
    master: str | None = None,
    session: Any = None,
    k: int = 10,
    exclude: tuple[Id, ...] = (),
    exclude_seen: bool | None = None,
    allow: tuple[Id, ...] | None = None,
    diversity: float = 0.0,
    reasons: bool = False,
    threads: int | None = None,
) -> BatchReport:
    """Write recommendations for every customer of a saved model: user, rank, item, score.

    model: a folder that all workers reach.
    out: a new table, in a place that all workers reach: a name that ends in .parquet, .csv or .jsonl, or a folder of
    Parquet files, which may be in `az://` or `s3://`; there, `_SUCCESS` appears when it is complete. After a failure,
    the same call continues with the parts that are left.
    master, session: as in `train`. threads: of a task; by default `spark.task.cpus`.
    """
    if not is_remote(out) and Path(out).exists():
        raise InputError(f"{out} already exists: remove it or choose another name")
    options = BatchOptions(
        k=k,
        exclude=tuple(exclude),
        exclude_seen=exclude_seen,
        allow=None if allow is None else tuple(allow),
        threads=threads,
        diversity=diversity,
        reasons=reasons,
    )
    return recommend_on_spark(source_of_model(Path(model)), str(out), options, master=master, session=session)


def recommend_on_spark(
    source: BatchSource,
    out: str,
    options: BatchOptions,
    announce: Callable[[str], None] = lambda line: None,
    *,
    master: str | None = None,
    session: Any = None,
) -> BatchReport:
    """`recommend_all` with a model that is loaded; a local table at `out` is replaced."""
    key = source.key(options)
    with spark_session(master=master, session=session, name="lorentzrec recommend-all") as started:
        if is_remote(out):
            return _recommend_remotely(started, source, out, options, key)
        with unfinished_parts(Path(out), key) as parts:
            return _recommend_locally(started, source, Path(out), options, parts, announce)


def _recommend_locally(
    session: Any,
    source: BatchSource,
    out: Path,
    options: BatchOptions,
    parts: PartFiles,
    announce: Callable[[str], None],
) -> BatchReport:
    """Parts, index, titles and histories are in a folder next to `out`, which all workers reach."""
    folder, store = Path(parts.folder), source.store
    customers = None if store is None else list_customers(store, source.model, parts, announce)
    path = source.path if customers is None else customers.path
    assert path is not None
    batch = BatchRecommender(source.model if customers is None else customers.model, options)
    if source.titles is not None:
        with write_file(str(folder / TITLES)) as file:
            source.titles.to_frame("title").write_parquet(file)
    description = batch.make_index(folder)
    inputs = {"model": absolute(path), "index": str(folder / INDEX), "description": json.dumps(description)}
    titles = None if source.titles is None else str(folder / TITLES)
    taken = None if customers is None else repr(customers.report.taken)
    found = _write_parts(session, batch.parts, parts, options, {**inputs, "titles": titles, "taken": taken})
    erased = drop_erased(parts, batch.parts, customers, store)
    rows = finish_parts(parts, out, batch.parts)
    report = None if customers is None else customers.report
    return batch.report(rows, description, sum(part.again for part in found), report, erased)


def _recommend_remotely(session: Any, source: BatchSource, out: str, options: BatchOptions, key: str) -> BatchReport:
    """Parts and index are at the address of the table."""
    if source.store is not None or source.titles is not None or source.path is None:
        raise InputError(f"{out} is in remote storage, where a store and titles cannot be used: give a shared folder")
    if Path(out).suffix:
        raise InputError(f"{out}: a table in remote storage is a folder: leave the suffix out")
    if set("*?[") & set(out):
        raise InputError(f"{out} is a pattern: choose a name without * ? [ for the table")
    _begin(out, key)
    batch, parts = BatchRecommender(source.model, options), PartFiles(out, key)
    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        description = batch.make_index(Path(scratch))
        if description:
            with write_file(join(out, f"_{INDEX}")) as file:
                file.write_bytes(Path(scratch, INDEX).read_bytes())
    inputs = {"model": absolute(source.path), "index": join(out, f"_{INDEX}"), "description": json.dumps(description)}
    found = _write_parts(session, batch.parts, parts, options, {**inputs, "titles": None, "taken": None})
    _remove_other_parts(out, batch.parts)
    rows = sum(part.rows for part in found)
    write_record(join(out, "_SUCCESS"), {"rows": rows})
    return batch.report(rows, description, sum(part.again for part in found))


def _write_parts(
    session: Any, count: int, parts: PartFiles, options: BatchOptions, inputs: dict[str, str | None]
) -> list[Part]:
    """A task for each part: those of an earlier run are checked there, too."""
    records = run_each(session, _write_part, list(range(count)), parts=parts, options=options, inputs=inputs)
    return [Part(**record) for record in records.values()]


def _begin(out: str, key: str) -> None:
    """Keep the parts at a remote address only if they are of the same run and it is not complete.

    `_key` may be gone and parts still be there if another run was stopped here, so that each part has the key, too.
    """
    record = read_record(join(out, "_key"))
    if read_content(join(out, "_SUCCESS")) is not None:
        raise InputError(f"{out} already exists: remove it or choose another name")
    if record is not None and record.get("key") != key:
        remove(out)
    write_record(join(out, "_key"), {"key": key})


def _remove_other_parts(folder: str, count: int) -> None:
    """Delete parts of another run, which had more of them; what is in folders below is not ours."""
    own = {part_name(number) for number in range(count)}
    for path in (PurePosixPath(file.address) for file in list_files(folder)):
        if path.parent == PurePosixPath(folder) and PART.fullmatch(path.name) and path.name not in own:
            remove(join(folder, path.name))


def _write_part(
    number: int, *, parts: PartFiles, options: BatchOptions, inputs: dict[str, str | None]
) -> dict[str, Any]:
    """In a task: write a part of the results, unless it is there."""
    if (part := parts.find(number)) is None:
        options = replace(options, threads=choose_threads(options.threads))
        part = parts.write(number, _open(parts.key, options, **inputs).part(number))
    return asdict(part)


@cache
def _open(
    key: str, options: BatchOptions, model: str, index: str, description: str, titles: str | None, taken: str | None
) -> BatchRecommender:
    """Points and index, opened once per process.

    A process may outlive a run, and the next run may have other content under the same names. Then the key of the
    results differs, or the time when histories were read.
    """
    import polars as pl

    names = None if titles is None else pl.read_parquet(titles, glob=False)["title"]
    batch = BatchRecommender(load(model), options, names)
    if found := json.loads(description):
        with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
            batch.use_index(fetch(index, Path(scratch)), found)  # mapped: stays readable
    return batch
