"""The same input through Polars and through Spark: equal digests, steps, notes, rejected rows and errors.

Needs pyspark and Java. One local session serves all tests of this file; starting it takes ten seconds or more.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec.errors import InputError
from lorentzrec.ingest import spark_engine as spark_module
from lorentzrec.ingest.appending import append, compact
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, PrepareReport, prepare
from lorentzrec.ingest.sources import Source, source_named
from lorentzrec.ingest.spark_engine import SparkEngine, spark_engine
from tests.spark_marks import SPARK_MARKS

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = SPARK_MARKS


@pytest.fixture(scope="module")
def engine() -> Iterator[SparkEngine]:
    with spark_engine(master="local[2]", memory="1g") as started:
        yield started


def both(config: PrepareConfig, engine: SparkEngine, folder: Path) -> PrepareReport:
    """Prepare on either engine; everything but the time must be the same."""
    here = prepare(config, folder / "polars")
    there = prepare(config, folder / "spark", engine)
    assert there.digest == here.digest
    assert there.steps == here.steps
    assert there.notes == here.notes
    assert (there.parts, there.counts, there.rejected) == (here.parts, here.counts, here.rejected)
    ours, theirs = (open_dataset(folder / name) for name in ("polars", "spark"))
    theirs.verify()
    assert ours.interactions().digest == theirs.interactions().digest
    assert ours.items.equals(theirs.items)
    return there


def rejected(path: Path, engine: SparkEngine, message: str) -> pl.DataFrame:
    """The rows of a file that either engine rejects: the same ones, and no dataset is made unless they are skipped."""
    folder = path.parent
    config = PrepareConfig(events=(str(path),))
    for chosen in (None, engine):
        with pytest.raises(InputError, match=message):
            prepare(config, folder / "out", chosen)
    assert not (folder / "out").exists()
    both(replace(config, on_error="skip"), engine, folder)
    ours, theirs = (pl.read_parquet(folder / name / "rejected.parquet").sort("line") for name in ("polars", "spark"))
    assert ours.equals(theirs)
    return ours


def awkward_events(count: int = 400) -> str:
    """Ties in time, repeated pairs, mixed case, ids outside ASCII, ids that look like numbers, baskets or none."""
    generator = np.random.default_rng(5)
    people = ["ann", "Ann", "ANN", "é", "e\u0301", "ß", "10", "9", "日本", "z z", "0", "-1"]
    things = ["a", "A", "ä", "7", "07", "🙂", "b,c", "d'", "|"]
    lines = ["user,item,time,weight,rating,event,basket"]
    for _ in range(count):
        user, item = people[generator.integers(12)], things[generator.integers(9)]
        time, weight, rating = generator.integers(30), generator.integers(1, 9) / 4, generator.integers(1, 6)
        kind, basket = ["view", "buy", "x"][generator.integers(3)], ["", "é", "10", "9"][generator.integers(4)]
        lines.append(f'"{user}","{item}",{time}.5,{weight},{rating},{kind},{basket}')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"duplicates": "exact", "split": "leave_last_out"},
        {"duplicates": "first", "minimum_rating": 3, "since": 2, "until": 28, "split": "leave_last_two"},
        {"duplicates": "last", "label_events": ("buy",), "split": "leave_last_out"},
        {
            "duplicates": "sum",
            "event_weights": {"view": 0.3, "buy": 2.7},
            "bot_events": 60,
            "minimum_user_events": 3,
            "minimum_item_events": 3,
            "k_core": True,
            "maximum_history": 6,
            "split": "random",
            "split_options": {"ratio": 0.3, "seed": 4},
            "drop_unseen_items": True,
        },
    ],
)
def test_ties_duplicates_and_unusual_ids(tmp_path: Path, engine: SparkEngine, options: dict[str, Any]) -> None:
    (tmp_path / "events.csv").write_text(awkward_events(), "utf-8")
    source = Source(rating_column="rating", event_column="event")
    config = PrepareConfig(events=(str(tmp_path / "events.csv"),), source=source, **options)
    both(config, engine, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split": "last_days", "split_options": {"days": 4}, "minimum_item_events": 3},
        {"split": "next_order", "split_options": {"days": 4}, "label_events": ("buy",)},
        {"source": Source(ties="file")},
        {"source": Source(time_column="")},
    ],
)
def test_cancellations(tmp_path: Path, engine: SparkEngine, options: dict[str, Any]) -> None:
    draw, lines = np.random.default_rng(3), ["user,item,time,quantity,order_id,event"]
    for _ in range(500):
        user, item, day, order = (draw.integers(limit) for limit in (9, 7, 20, 4))
        quantity, kind = draw.choice(["3", "1.5", "1", "-1", "-2", "0", ""]), draw.choice(["buy", "view"])
        lines.append(f"{user},{item},{day * 86_400},{quantity},{day}-{order},{kind}")
    (tmp_path / "events.csv").write_text("\n".join(lines))
    report = both(PrepareConfig(events=(str(tmp_path / "events.csv"),), **options), engine, tmp_path)
    assert any("took back" in note for note in report.notes)


def random_events(count: int, **sizes: int) -> pl.DataFrame:
    """Columns of whole numbers below `sizes`; the last is a time, in steps of half a day."""
    generator = np.random.default_rng(1)
    columns = {name: generator.integers(0, size, count) for name, size in sizes.items()}
    return pl.DataFrame(columns).with_columns(pl.last() * 43_200)


def test_many_files_and_tasks(tmp_path: Path, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    events = random_events(20_000, user=5000, item=300, time=50)
    folder = tmp_path / "events"
    folder.mkdir()
    events[:12_000].write_parquet(folder / "a.parquet")
    (folder / "b.csv.gz").write_bytes(gzip.compress(events[12_000:].write_csv().encode()))
    monkeypatch.setattr(spark_module, "EVENTS_PER_TASK", 5_000)
    report = both(PrepareConfig(events=(str(folder),), split="last_days"), engine, tmp_path)
    files = open_dataset(tmp_path / "spark").manifest["files"]
    assert len([name for name in files if name.startswith("interactions.parquet/")]) > 1
    assert report.steps[0].rows_out == 20_000 > report.counts["events"]  # newcomers of the last week are left out


@pytest.mark.parametrize("split", ["leave_last_order_out", "next_order"])
@pytest.mark.parametrize("ordered", [False, True])
def test_splits_by_orders(tmp_path: Path, engine: SparkEngine, split: str, ordered: bool) -> None:
    """Orders are known for most events, or they are events with equal times."""
    events = random_events(3_000, user=100, item=300, time=80)
    if ordered:
        number = pl.format("{}-{}", "user", pl.col("time") // 200_000)
        events = events.with_columns(order=pl.when(pl.col("item") > 30).then(number))
    events.write_csv(tmp_path / "events.csv")
    both(PrepareConfig(events=(str(tmp_path / "events.csv"),), split=split), engine, tmp_path)


def test_reviews_without_times_and_held_out_customers(tmp_path: Path, engine: SparkEngine) -> None:
    rows = [{"reviewerID": f"A{n % 40}", "asin": f"B{n * 7 % 23}", "overall": 1 + n % 5} for n in range(300)]
    (tmp_path / "r.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = replace(source_named("amazon-reviews"), time_column=None)
    config = PrepareConfig(events=(str(tmp_path / "r.json"),), source=source)
    report = both(
        replace(config, split="held_out_customers", split_options={"share": 0.4}, duplicates="last"), engine, tmp_path
    )
    assert list(report.parts) == ["train", "history", "test"]
    assert "without times" in report.notes[0]


def test_floats_and_missing_ids(tmp_path: Path, engine: SparkEngine) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,time\n17.0,a,1\n17,NULL,1\n,b,2\n3.0, b,2\n3.0,a,2\n")
    report = both(PrepareConfig(events=(str(path),), source=Source(tie_seed=5)), engine, tmp_path)
    assert len(report.notes) == 5
    assert open_dataset(tmp_path / "spark").interactions().users.series.to_list() == [3, 17]


@pytest.mark.parametrize("source", [Source(ordered=True, time_column=None), Source(ties="file", time_column="hour")])
def test_both_engines_use_the_order_of_files(
    tmp_path: Path, engine: SparkEngine, monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    events = random_events(3_000, user=40, item=30, hour=5)
    folder = tmp_path / "events"
    folder.mkdir()
    events[:2_000].write_parquet(folder / "a.parquet")
    events[2_000:].write_csv(folder / "b.csv")
    monkeypatch.setattr(spark_module, "EVENTS_PER_TASK", 500)
    config = PrepareConfig(events=(str(folder),), source=source, maximum_history=60, split="leave_last_two")
    (tmp_path / "last").mkdir()
    both(replace(config, duplicates="last"), engine, tmp_path / "last")
    both(config, engine, tmp_path)
    user = open_dataset(tmp_path / "spark").interactions().users.id(0)
    expected = events.filter(pl.col("user") == user)
    expected = expected.sort("hour", maintain_order=True) if source.ties == "file" else expected
    assert open_dataset(tmp_path / "spark").interactions().history_ids(user) == expected["item"].to_list()[-60:]


def test_both_engines_report_and_save_the_same_faults(tmp_path: Path, engine: SparkEngine) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b"user,item,time\nu,a,1\nu,b\nv,\xe9,3\n,d,4\nv,e,5\n")
    assert rejected(path, engine, r"events\.csv line 3: 2 fields instead of 3")["line"].to_list() == [3, 4]


def test_both_engines_reject_nulls_in_any_column(tmp_path: Path, engine: SparkEngine) -> None:
    path = tmp_path / "events.parquet"
    columns = {"user": ["u", None, "u", "v", "v", "v"], "item": ["a", "b", None, "é", "A", "a"]}
    times, weights = [1, 2, 3, None, 5, 6], [1.0, 1.0, 1.0, 1.0, None, 2.0]
    pl.DataFrame({**columns, "time": times, "weight": weights}).write_parquet(path)
    assert len(rejected(path, engine, r"events\.parquet")) == 2  # rows without a user or an item are left out


def test_an_existing_session_is_not_stopped(engine: SparkEngine) -> None:
    session = engine._session
    with spark_engine(session=session) as second:
        assert second._session is session
    assert session.range(3).count() == 3
    with pytest.raises(InputError, match="give one of them"), spark_engine(master="local[1]", session=session):
        pass


def test_a_delivery_is_the_same_with_both_engines(tmp_path: Path, engine: SparkEngine) -> None:
    events = random_events(600, user=40, item=30, hour=5)
    files = [str(tmp_path / "first.csv"), str(tmp_path / "second.csv")]
    events[:400].write_csv(files[0])
    events[400:].write_csv(files[1])
    digests = set()
    for name, runner in (("polars", None), ("spark", engine)):
        prepare(PrepareConfig(events=(files[0],), source=Source(time_column="hour")), tmp_path / name)
        digests.add(append(tmp_path / name, [files[1]], runner).digest)
        compact(tmp_path / name, runner)
        digests.add(open_dataset(tmp_path / name).digest)
    whole = prepare(PrepareConfig(events=tuple(files), source=Source(time_column="hour")), tmp_path / "whole")
    assert len(digests) == 2
    assert whole.digest in digests
