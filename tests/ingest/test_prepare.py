"""The pipeline on Polars: compared with a slow reference, and with results computed by hand."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest import engine as engines
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.pipeline import CleaningStep
from lorentzrec.ingest.prepare import PrepareConfig, PrepareReport, prepare
from lorentzrec.ingest.sources import Source, source_named
from tests.ingest.slow_preparation import Event, csv_of, prepare_slowly
from tests.saved_datasets import save_dataset

ALL_COLUMNS = Source(rating_column="rating", event_column="event")


def write(folder: Path, text: str, name: str = "events.csv") -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def run(folder: Path, text: str, **options: Any) -> PrepareReport:
    source = options.pop("source", Source())
    return prepare(PrepareConfig(events=(write(folder, text),), source=source, **options), str(folder / "out"))


def row_counts(report: PrepareReport) -> list[tuple[str, int, int]]:
    return [(step.name, step.rows_in, step.rows_out) for step in report.steps]


event_lists = st.lists(
    st.builds(
        Event,
        user=st.sampled_from(["ann", "Ann", "é", "010", "09"]),
        item=st.sampled_from(["a", "A", "ß", "b c", "07"]),
        time=st.integers(0, 6),
        weight=st.sampled_from([0.5, 1.0, 3.0]),
        rating=st.sampled_from([1.0, 3.5, 5.0]),
        event=st.sampled_from(["view", "buy", "return"]),
    ),
    min_size=1,
    max_size=40,
)
options_of_all_kinds = st.fixed_dictionaries(
    {
        "event_weights": st.sampled_from([{}, {"view": 1.0, "buy": 4.0}]),
        "label_events": st.sampled_from([None, ("buy",), ("view", "buy")]),
        "minimum_rating": st.sampled_from([None, 3.0]),
        "since": st.sampled_from([None, 1]),
        "until": st.sampled_from([None, 6]),
        "bot_events": st.sampled_from([None, 12]),
        "duplicates": st.sampled_from(["keep", "first", "last", "sum"]),
        "minimum_user_events": st.integers(1, 3),
        "minimum_item_events": st.integers(2, 3),
        "k_core": st.booleans(),
        "maximum_history": st.sampled_from([None, 4]),
        "split": st.sampled_from([None, "leave_last_out", "leave_last_two", "random", "folds"]),
    }
)


@settings(deadline=None, max_examples=60)
@given(events=event_lists, options=options_of_all_kinds, drop=st.booleans(), bucket=st.sampled_from([2, 1000]))
def test_result_equals_the_slow_reference(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], options: dict[str, Any], drop: bool, bucket: int
) -> None:
    folder = tmp_path_factory.mktemp("twin")
    path = write(folder, csv_of(events))
    config = PrepareConfig(
        events=(path,),
        source=ALL_COLUMNS,
        drop_unseen_items=drop and options["split"] is not None,
        **options,
    )
    complaint = "no event is left|no event of the kind"
    try:
        slow = prepare_slowly(events, config)
    except InputError as error:
        slow, complaint = {}, str(error)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "BUCKET_EVENTS", bucket)
        patch.setattr(engines, "USERS_PER_BLOCK", 2)
        if not slow:
            with pytest.raises(InputError, match=complaint):
                prepare(config, folder / "fast")
            return
        report = prepare(config, folder / "fast")
    expected = save_dataset(slow.get("", slow), folder / "slow")
    fast = open_dataset(folder / "fast")
    for ours, theirs in zip(fast.parts(), expected.parts(), strict=True):
        assert ours.digest == theirs.digest
    assert report.counts == expected.manifest["counts"]
    assert report.parts == expected.manifest["parts"]


def test_the_digest_is_that_of_the_same_interactions(tmp_path: Path) -> None:
    text = "user,item,time\nb,é,5\na,x,5\na,X,5\na,é,1\n"
    report = run(tmp_path, text)
    twin = save_dataset(Interactions.from_file(tmp_path / "events.csv"), tmp_path / "twin")
    assert report.digest == twin.digest


def test_every_step_reports_its_rows(tmp_path: Path) -> None:
    text = csv_of(
        [
            Event("ann", "a", 1),
            Event("ann", "a", 2),
            Event("ann", "b", 3, rating=2.0),
            Event("bob", "a", 4),
            Event("bob", "b", 5),
            Event("bob", "c", 6),
            Event("dan", "a", 7),
            Event("dan", "b", 8),
            Event("cat", "b", 7, event="view"),
        ]
    )
    report = run(
        tmp_path,
        text,
        source=ALL_COLUMNS,
        event_weights={"buy": 2.0},
        minimum_rating=3,
        duplicates="sum",
        minimum_item_events=2,
        split="leave_last_out",
    )
    assert row_counts(report) == [
        ("read", 9, 9),
        ("event weights", 9, 8),
        ("rating threshold", 8, 7),
        ("duplicates", 7, 6),
        ("minimum counts", 6, 5),
        ("split", 5, 5),
    ]
    data = Interactions.from_dataset(tmp_path / "out")
    assert {user: data.history_ids(user) for user in data.users.series} == {
        "ann": ["a"],
        "bob": ["a", "b"],
        "dan": ["a", "b"],
    }
    assert data.weights is not None
    assert sorted(data.weights.tolist()) == [2.0, 2.0, 2.0, 2.0, 4.0]
    assert report.parts == {"train": 3, "test": 2}
    assert report.steps[2] == CleaningStep("rating threshold", 8, 7, "ratings below 3")


def test_k_core_repeats_until_nothing_changes(tmp_path: Path) -> None:
    # c has one event, without it cat has one, without cat b has one, without b bob has one.
    text = "user,item\nann,a\nann,d\nbob,a\nbob,b\ncat,b\ncat,c\ndan,a\ndan,d\n"
    once = run(tmp_path, text, minimum_user_events=2, minimum_item_events=2)
    assert once.counts["events"] == 7
    core = run(tmp_path, text, minimum_user_events=2, minimum_item_events=2, k_core=True)
    assert [(rows_in, rows_out) for name, rows_in, rows_out in row_counts(core) if "k-core" in name] == [
        (8, 7),
        (7, 6),
        (6, 5),
        (5, 4),
        (4, 4),
    ]
    assert core.counts == {"events": 4, "users": 2, "items": 2}


@pytest.mark.parametrize(("split", "options"), [("leave_last_order_out", {}), ("next_order", {"days": 10.0})])
@pytest.mark.parametrize("orders", ["times", "column", "sequence"])
def test_splits_by_orders_are_those_of_arrays(
    tmp_path: Path, split: str, options: dict[str, float], orders: str
) -> None:
    draw = random.Random(5)
    lines = ["user,item,time" + ",order" * (orders == "column")]
    for _ in range(1500):
        user, day = draw.randrange(40), draw.randrange(50)
        order = f",{user}-{day // 2}" if draw.random() < 0.9 else ","
        lines.append(f"{user},{draw.randrange(60)},{86_400 * day}" + order * (orders == "column"))
    path = write(tmp_path, "\n".join(lines) + "\n")
    ties: Literal["shuffle", "file"] = "file" if orders == "sequence" else "shuffle"
    expected = Interactions.from_file(path, ties=ties).split(split, **options)
    run(tmp_path, "\n".join(lines) + "\n", source=Source(ties=ties), split=split, split_options=options)
    for name, part in zip(("train", "test"), expected, strict=True):
        found = Interactions.from_dataset(tmp_path / "out", name)
        assert found.to_frame().equals(part.to_frame())


def test_given_test_files(tmp_path: Path) -> None:
    test = write(tmp_path, "user,item,time\nann,b,9\ndan,a,9\nann,new,8\n", "test.csv")
    train = "user,item,time\nann,a,1\nbob,b,2\n"
    report = run(tmp_path, train, split="given", test_events=(test,))
    assert report.parts == {"train": 2, "test": 2}
    assert report.steps[-1].why == "test events of customers without training events"
    first, second = open_dataset(tmp_path / "out").parts()
    assert first.history_ids("ann") == ["a"]
    assert second.history_ids("ann") == ["new", "b"]
    dropped = run(tmp_path, train, split="given", test_events=(test,), drop_unseen_items=True)
    assert dropped.parts == {"train": 2, "test": 1}
    summed = run(tmp_path, train + "ann,a,3\n", split="given", test_events=(test,), duplicates="sum")
    assert row_counts(summed) == [("read", 6, 6), ("test files", 6, 3), ("duplicates", 3, 2), ("test events", 5, 4)]
    weights = [part.weights.tolist() for part in open_dataset(tmp_path / "out").parts() if part.weights is not None]
    assert weights == [[2.0, 1.0], [1.0, 1.0]]


def test_ids_of_several_files_have_one_type(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    pl.DataFrame({"user": [1, 2], "item": [10, 20]}).write_parquet(folder / "a.parquet")
    (folder / "b.csv").write_text("user,item\n3,10\n1,30\n")
    report = prepare(PrepareConfig(events=(str(folder),)), str(tmp_path / "out"))
    assert sorted(Interactions.from_dataset(tmp_path / "out").users.series) == [1, 2, 3]
    (folder / "b.csv").write_text("user,item\n3,10\n01,30\n")
    prepare(PrepareConfig(events=(str(folder),)), str(tmp_path / "out"))
    assert sorted(Interactions.from_dataset(tmp_path / "out").users.series) == ["01", "1", "2", "3"]
    assert report.counts == {"events": 4, "users": 3, "items": 3}


def test_files_with_other_unused_columns(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.csv").write_text("user,item,shop\n1,10,x\n")
    (folder / "b.csv").write_text("user,item\n2,20\n")
    assert prepare(PrepareConfig(events=(str(folder),)), str(tmp_path / "out")).counts["events"] == 2


def test_another_dataset_is_replaced_with_a_note(tmp_path: Path) -> None:
    text = "user,item\nu,a\nu,b\n"
    assert run(tmp_path, text).notes == ()
    again = run(tmp_path, text, duplicates="first", minimum_user_events=2)
    place = tmp_path / "out"
    assert again.notes == (
        f"{place} was a dataset made with other options (duplicates, minimum_user_events), and is replaced",
    )
    assert open_dataset(place).manifest["notes"] == []
    assert run(tmp_path, text + "u,c\n", duplicates="first", minimum_user_events=2).notes == ()


def test_fractions_of_seconds_survive(tmp_path: Path) -> None:
    run(tmp_path, "user,item,time\nu,b,1.5\nu,a,1\n")
    times = Interactions.from_dataset(tmp_path / "out").times
    assert times is not None
    assert times.tolist() == [1.0, 1.5]


def test_item_table(tmp_path: Path) -> None:
    films = write(tmp_path, "1::Alien (1979)::Horror|Sci-Fi\n3::Brazil::Satire\n", "movies.dat")
    ratings = write(tmp_path, "7::1::5::100\n7::2::5::200\n", "ratings.dat")
    source = source_named("movielens-10m")
    config = PrepareConfig(events=(ratings,), source=source, reader="movielens-10m")
    report = prepare(replace(config, items=films), tmp_path / "out")
    items = open_dataset(tmp_path / "out").items
    assert items.rows() == [(0, 1, 1, "Alien (1979)", "Horror|Sci-Fi"), (1, 2, 1, None, None)]
    assert report.notes == ("the item table covers 1 of 2 items (1 row for other items)",)
    table = write(tmp_path, '{"item":"1","name":"A","price":9.5}\n{"item":"2","name":"B"}\n', "items.jsonl")
    config = replace(config, items=table, item_source=Source(), item_columns={"title": "name"})
    prepare(config, tmp_path / "out")
    assert open_dataset(tmp_path / "out").items.select("title", "price").rows() == [("A", 9.5), ("B", None)]
    write(tmp_path, '{"item":"1","name":"A","price":"dear"}\n', "items.jsonl")
    with pytest.raises(InputError, match="the price 'dear' is not a number"):
        prepare(config, tmp_path / "out")
    write(tmp_path, '{"item":"1"}\n{"item":"1"}\n', "items.jsonl")
    with pytest.raises(InputError, match="the item '1' occurs twice"):
        prepare(replace(config, item_columns={}), tmp_path / "out")


def test_the_same_run_again_is_recognised(tmp_path: Path) -> None:
    text = "user,item\nu,a\nu,b\n"
    first = run(tmp_path, text)
    config = PrepareConfig(events=(str(tmp_path / "events.csv"),))
    again = prepare(config, tmp_path / "out")
    assert again.unchanged
    assert not first.unchanged
    assert again.steps == first.steps
    assert not prepare(config, tmp_path / "out", force=True).unchanged
    assert not prepare(replace(config, duplicates="first"), tmp_path / "out").unchanged
    assert replace(config, minimum_rating=0).options() != config.options()
    write(tmp_path, text + "u,c\n")
    assert prepare(replace(config, duplicates="first"), tmp_path / "out").counts["events"] == 3


BROKEN = "user,item,time\nu,a,1\nu,b\nu,c,never\n,d,4\nu,e,5\n"


def test_strict_names_the_first_fault_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"events\.csv line 3: 2 fields instead of 3"):
        run(tmp_path, BROKEN)
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


def test_skip_saves_the_rejected_rows(tmp_path: Path) -> None:
    report = run(tmp_path, BROKEN, on_error="skip")
    assert report.rejected == 2
    assert report.counts["events"] == 2
    rejected = pl.read_parquet(tmp_path / "out" / "rejected.parquet").sort("line")
    assert rejected.select("line", "fault", "text").rows() == [
        (3, "2 fields instead of 3", "u,b"),
        (4, "column 'time': not a number", "u,c,never"),
    ]
    assert report.notes == (
        "1 row without a user is left out",
        "2 faulty rows skipped: 2 fields instead of 3 (1), column 'time': not a number (1): see rejected.parquet in "
        "the dataset",
    )
    assert set(rejected["file"]) == {str(tmp_path / "events.csv")}
    open_dataset(tmp_path / "out").verify()


def test_skip_of_parquet_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": ["u", None, "v"], "item": ["a", "b", "c"], "weight": [1.0, 1.0, -2.0]})
    frame.write_parquet(tmp_path / "e.parquet")
    config = PrepareConfig(events=(str(tmp_path / "e.parquet"),), on_error="skip")
    assert prepare(config, tmp_path / "out").rejected == 1
    rejected = pl.read_parquet(tmp_path / "out" / "rejected.parquet").sort("line")
    assert rejected["fault"].to_list() == ["column 'weight': not positive"]
    assert json.loads(rejected["text"][0]) == {"user": "v", "item": "c", "weight": -2.0}


def test_an_interrupt_leaves_the_old_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run(tmp_path, "user,item\nu,a\n")

    def interrupted(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engines, "write_events", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "user,item\nu,b\n")
    assert open_dataset(tmp_path / "out").digest == before.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.csv", "out"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
@pytest.mark.parametrize("fault", ["", "u,i\n"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, fault: str) -> None:
    script = """
import resource
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.errors import InputError
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    prepare(PrepareConfig(events=("events.csv",), on_error="skip"), "out", scratch=".")
except InputError as error:
    print(error)
"""
    rows = "".join(f"user {n * 7919 % 10_007},item {n * 31 % 5003},{n}\n" for n in range(20_000))
    write(tmp_path, "user,item,time\n" + fault + rows)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "File too large" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["events.csv"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"duplicates": "some"}, "`duplicates` is 'some': give one of keep, exact, first, last, sum"),
        ({"on_error": "ignore"}, "`on_error` is 'ignore'"),
        ({"minimum_user_events": 0}, "`minimum_user_events` is 0"),
        ({"event_weights": {"view": 0.0}}, "the weight of 'view' is 0"),
        ({"split": "by_hand"}, "no split 'by_hand'"),
        ({"split": "random", "split_options": {"days": 3}}, "has no option 'days'"),
        ({"drop_unseen_items": True}, "split options without a `split`"),
        ({"k_core": True}, "`k_core` without minimum counts"),
        ({"split": "given"}, "go together"),
        ({"since": "yesterday"}, "neither ISO text nor unix seconds"),
        ({"since": "nan"}, "neither ISO text nor unix seconds"),
        ({"since": "inf"}, "neither ISO text nor unix seconds"),
        ({"until": 1e300}, "neither ISO text nor unix seconds"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        run(tmp_path, "user,item,time\nu,a,1\n", **options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"minimum_rating": 4}, "needs the rating of every event"),
        ({"event_weights": {"view": 1.0}}, "needs the event of every event"),
        ({"maximum_history": 4}, "needs the time of every event"),
        ({"split": "last_days"}, "needs times"),
        ({"minimum_user_events": 2}, "no event is left after minimum counts"),
    ],
)
def test_options_that_need_missing_columns_are_refused(tmp_path: Path, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        run(tmp_path, "user,item\nu,a\n", **options)


def test_files_of_different_kinds_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.csv").write_text("user,item,time\nu,a,1\n")
    (folder / "b.csv").write_text("user,item\nu,a\n")
    with pytest.raises(InputError, match=r"b\.csv has user, item, but .*a\.csv has user, item, time"):
        prepare(PrepareConfig(events=(str(folder),)), str(tmp_path / "out"))


def test_kinds_of_events_that_are_targets(tmp_path: Path) -> None:
    text = "user,item,time,kind\na,x,1,view\na,y,2,view\na,y,3,buy\na,z,4,view\nb,x,1,view\nb,z,2,buy\n"
    options: dict[str, Any] = {"source": Source(event_column="kind"), "split": "leave_last_out"}
    report = run(tmp_path, text, label_events=("buy",), **options)
    assert report.parts == {"train": 3, "test": 3}
    train, test = open_dataset(report.address).parts()
    assert test.labels is not None
    assert test.items.ids(test.item_rows[test.labels]) == ["y", "z"]
    assert train.labels is not None
    assert not train.labels.any()
    with pytest.raises(InputError, match="no event of the kind gift is left"):
        run(tmp_path, text, label_events=("gift",), **options)
    with pytest.raises(ConfigError, match="add 'buy' to `event_weights`"):
        run(tmp_path, text, label_events=("buy",), event_weights={"view": 1.0}, **options)
    recognised = run(tmp_path, text, label_events=("buy",))
    assert recognised.notes[0] == "the column 'kind' is taken for the event"
    with pytest.raises(InputError, match="event_column"):
        run(tmp_path, text.replace("kind", "which"), label_events=("buy",))
