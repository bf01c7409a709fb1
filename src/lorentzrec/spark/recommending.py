"""Recommendations for all customers on Spark: a task per part of the results."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.batch.part_files import finish_parts, part_name, unfinished_folder
from lorentzrec.batch.recommending import (
    BatchOptions,
    BatchRecommender,
    BatchReport,
    batch_key,
)
from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import InputError
from lorentzrec.ingest.spark_session import in_tasks, report_in_one_line, spark_session
from lorentzrec.ingest.storage import fetch, is_remote, join, read_content, remove, write_file
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.serving.versions.index import INDEX
from lorentzrec.spark.scratch import absolute, read_record, write_record

if TYPE_CHECKING:
    import pyarrow as pa


def recommend_all(
    model: str | Path,
    out: str | Path,
    *,
    master: str | None = None,
    session: Any = None,
    k: int = 10,
    exclude: tuple[Id, ...] = (),
    items: tuple[Id, ...] | None = None,
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
    options = BatchOptions(k, tuple(exclude), None if items is None else tuple(items), threads)
    return recommend_on_spark(Path(model), load(model), str(out), options, master=master, session=session)


def recommend_on_spark(
    path: Path, model: Model, out: str, options: BatchOptions, *, master: str | None = None, session: Any = None
) -> BatchReport:
    """`recommend_all` with a model that is loaded; a local table at `out` is replaced."""
    batch = BatchRecommender(model, options)
    key = batch_key(path, options)
    remote = is_remote(out)
    if remote:
        if Path(out).suffix:
            raise InputError(f"{out}: a table in remote storage is a folder: leave the suffix out")
        _begin(out, key)
        folder = out
    else:
        folder = str(unfinished_folder(Path(out), key))
    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        description = batch.make_index(Path(scratch) if remote else Path(folder))
        if description and remote:
            with write_file(join(folder, f"_{INDEX}")) as file:
                file.write_bytes(Path(scratch, INDEX).read_bytes())
    place = join(folder, f"_{INDEX}" if remote else INDEX)
    missing = [number for number in range(batch.parts) if read_record(_record(folder, number)) is None]
    with spark_session(master=master, session=session, name="lorentzrec recommend-all") as started:
        if missing:
            task = in_tasks(
                _write_parts,
                model=absolute(path),
                folder=folder,
                numbers=missing,
                options=options,
                index=(place, description),
            )
            with report_in_one_line():
                started.range(0, len(missing), 1, len(missing)).mapInArrow(task, "number bigint").collect()
    if not remote:
        return batch.report(finish_parts(Path(folder), Path(out)), description)
    records = [read_record(_record(folder, number)) or {} for number in range(batch.parts)]
    rows = sum(record.get("rows", 0) for record in records)
    write_record(join(folder, "_SUCCESS"), {"rows": rows})
    return batch.report(rows, description)


def _begin(out: str, key: str) -> None:
    """Keep the parts at a remote address only if they are of the same run and it is not complete."""
    record = read_record(join(out, "_key"))
    if read_content(join(out, "_SUCCESS")) is not None:
        raise InputError(f"{out} already exists: remove it or choose another name")
    if record is not None and record.get("key") != key:
        remove(out)
    write_record(join(out, "_key"), {"key": key})


def _record(folder: str, number: int) -> str:
    return join(folder, f"_{part_name(number)}.json")


def _write_parts(
    batches: Iterator[pa.RecordBatch],
    *,
    model: str,
    folder: str,
    numbers: list[int],
    options: BatchOptions,
    index: tuple[str, dict[str, Any]],
) -> Iterator[pa.RecordBatch]:
    """In a task: the parts whose places in `numbers` come in."""
    import pyarrow as pa

    threads = options.threads or int(os.environ.get("OMP_NUM_THREADS") or 1)
    batch = _open(model, replace(options, threads=threads), index[0], json.dumps(index[1]))
    for rows in batches:
        for place in rows.column(0).to_pylist():
            number = numbers[place]
            frame = batch.part(number)
            with write_file(join(folder, part_name(number))) as file:
                frame.write_parquet(file)
            write_record(_record(folder, number), {"rows": len(frame)})
            yield pa.RecordBatch.from_arrays([pa.array([number])], names=["number"])


@cache
def _open(model: str, options: BatchOptions, index: str, description: str) -> BatchRecommender:
    """Points and index, opened once per process."""
    loaded = load(model)
    batch = BatchRecommender(loaded, options)
    if found := json.loads(description):
        with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
            batch.use_index(fetch(index, Path(scratch)), found)  # mapped: stays readable
    return batch
