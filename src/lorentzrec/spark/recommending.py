"""Recommendations for all customers on Spark: a task per part of the results."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from lorentzrec.batch.part_files import PART, finish_parts, part_name, unfinished_folder
from lorentzrec.batch.recommending import (
    BatchOptions,
    BatchRecommender,
    BatchReport,
    batch_key,
)
from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import InputError
from lorentzrec.ingest.spark_session import spark_session
from lorentzrec.ingest.storage import fetch, is_remote, join, list_files, read_content, remove, write_file
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.serving.versions.index import INDEX
from lorentzrec.spark.scratch import absolute, read_record, write_record
from lorentzrec.spark.tasks import run_each, threads_of


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
        if set("*?[") & set(out):
            raise InputError(f"{out} is a pattern: choose a name without * ? [ for the table")
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
    records = {number: read_record(_record(folder, number)) or {} for number in range(batch.parts)}
    missing = [number for number, record in records.items() if record.get("key") != key]
    with spark_session(master=master, session=session, name="lorentzrec recommend-all") as started:
        records |= run_each(
            started,
            _write_part,
            missing,
            model=absolute(path),
            folder=folder,
            options=options,
            index=(place, description),
            key=key,
        )
    if not remote:
        return batch.report(finish_parts(Path(folder), Path(out)), description)
    _remove_other_parts(folder, batch.parts)
    rows = sum(record["rows"] for record in records.values())
    write_record(join(folder, "_SUCCESS"), {"rows": rows})
    return batch.report(rows, description)


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


def _record(folder: str, number: int) -> str:
    return join(folder, f"_{part_name(number)}.json")


def _remove_other_parts(folder: str, count: int) -> None:
    """Delete parts of another run, which had more of them; what is in folders below is not ours."""
    own = {part_name(number) for number in range(count)}
    for path in (PurePosixPath(file.address) for file in list_files(folder)):
        if path.parent == PurePosixPath(folder) and PART.fullmatch(path.name) and path.name not in own:
            remove(join(folder, path.name))


def _write_part(
    number: int, *, model: str, folder: str, options: BatchOptions, index: tuple[str, dict[str, Any]], key: str
) -> dict[str, Any]:
    """In a task: write a part of the results."""
    options = replace(options, threads=threads_of(options.threads))
    frame = _open(model, options, index[0], json.dumps(index[1])).part(number)
    with write_file(join(folder, part_name(number))) as file:
        frame.write_parquet(file)
    record = {"key": key, "rows": len(frame)}
    write_record(_record(folder, number), record)
    return record


@cache
def _open(model: str, options: BatchOptions, index: str, description: str) -> BatchRecommender:
    """Points and index, opened once per process."""
    loaded = load(model)
    batch = BatchRecommender(loaded, options)
    if found := json.loads(description):
        with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
            batch.use_index(fetch(index, Path(scratch)), found)  # mapped: stays readable
    return batch
