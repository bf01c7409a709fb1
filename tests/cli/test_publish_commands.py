"""`lorentzrec publish` and `lorentzrec live`, and the store that `serve` looks at before it starts."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from lorentzrec import Interactions, load
from lorentzrec.errors import StoreUnavailable
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.file_store import FileStore
from lorentzrec.serving.stores.histories import StoredEvent
from lorentzrec.serving.versions.version import open_version
from tests.cli.command_line import SETTINGS, error_of, make, run, run_json


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'store'}"


def test_a_model_with_everything(events_file: Path, model: Path, titles_file: Path, store: str, tmp_path: Path) -> None:
    run("prepare", events_file, "--items", titles_file, "--out", tmp_path / "titled")
    result = run_json("publish", model, "--to", store, "--items", tmp_path / "titled", "--histories")
    assert (result["items"], result["described_items"], result["index"]) == (30, 30, None)
    assert result["events"] == {"accepted": 720, "duplicates": 0, "erased_customers": 0}
    assert result["versions"] == [result["model"]]
    opened = open_store(store)
    version = open_version(opened.fetch(result["model"], tmp_path))
    assert [item.title for item in version.items.items(version.items.rows(["i7"]))] == ["Item [7]"]
    assert version.map is not None
    data = Interactions.from_dataset(tmp_path / "titled")
    assert data.times is not None
    times = data.times[data.offsets[data.users.row("u4")] :].tolist()
    touches = [StoredEvent(str(item), time) for item, time in zip(data.history_ids("u4"), times, strict=False)]
    assert opened.history("u4") == touches
    opened.forget("u4")
    opened.close()
    shown = run("publish", model, "--to", store, "--no-map", "--items", tmp_path / "titled", "--histories")
    assert f"is the current version of {store}: 30 items" in shown.stdout
    assert "Histories: 0 events added, 708 already there" in shown.stdout
    assert "Histories: 1 customer had been erased; their events before the erasure were skipped" in shown.stdout
    assert "no times" not in shown.stderr


def test_a_note_names_histories_without_times(events_file: Path, store: str, titles_file: Path, tmp_path: Path) -> None:
    pl.read_csv(events_file).select("user", "item").write_csv(tmp_path / "untimed.csv")
    untimed = make(tmp_path / "untimed", "prepare", tmp_path / "untimed.csv")
    model = make(tmp_path / "model", "train", untimed, *SETTINGS)
    shown = run("publish", model, "--to", store, "--no-map", "--items", titles_file, "--histories")
    assert (
        f"note: {model} has no timestamps; history positions are used instead, "
        "so events already sent to the service are counted twice: give --items DATASET\n"
    ) in shown.stderr
    assert "Histories: 720 events added, 0 already there" in shown.stdout
    (tmp_path / "pairs.csv").write_text("user,item\nann,i1\nann,i2\n")
    run("prepare", tmp_path / "pairs.csv", "--out", tmp_path / "pairs")
    shown = run("publish", model, "--to", store, "--no-map", "--items", tmp_path / "pairs", "--histories")
    assert f"note: {tmp_path / 'pairs'} has no timestamps; history positions are used instead" in shown.stderr
    assert "counted twice" not in shown.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet", "ndjson"])
def test_items_are_described_by_a_file(model: Path, store: str, titles_file: Path, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"items.{kind}"
    table = pl.read_csv(titles_file).with_columns(category=pl.lit("hats|old"))
    getattr(table, f"write_{kind}")(file)
    result = run_json("publish", model, "--to", store, "--no-map", "--items", file)
    assert result["described_items"] == 30
    with closing(open_store(store)) as opened:
        items = open_version(opened.fetch(result["model"], tmp_path)).items
        (item,) = items.items(items.rows(["i7"]))
        assert (item.title, item.category) == ("Item [7]", "hats")
        items.close()


def test_keep_and_rollback(model: Path, store: str) -> None:
    names = [run_json("publish", model, "--to", store, "--no-map", "--keep", "2")["model"] for _ in range(3)]
    back = ["publish", "--to", store, "--rollback"]
    assert run_json(*back, "--reason", "empty lists") == {"model": names[1], "store": store, "arm": "main"}
    line = error_of(*back)
    assert f"holds no version that was live before {names[1]} and was not rolled back" in line
    assert f"(rolled back: {names[2]}): publish one, or name one of these" in line
    assert f"no version {str(model)!r} that was live" in error_of(*back, model)
    assert run_json(*back, names[2])["model"] == names[2]
    assert run_json("publish", names[1], "--to", store, "--rollback")["model"] == names[1]
    for ignored in (["--items", "x"], ["--histories"], ["--keep", "3"], ["--no-map"]):
        line = error_of("publish", "--to", store, "--rollback", *ignored)
        assert line.endswith("takes no --" + ignored[0].removeprefix("--").removeprefix("no-") + ": leave it out")
    opened = open_store(store)
    assert opened.versions() == [names[2], names[1]]
    log = [(entry.version, entry.reason, entry.rejected) for entry in opened.activations()]
    assert log == [
        *((name, "published", None) for name in names),
        (names[1], "empty lists", names[2]),
        (names[2], f"rolled back from {names[1]}", names[1]),
        (names[1], f"rolled back from {names[2]}", names[2]),
    ]
    opened.close()
    run_json("publish", model, "--to", store, "--no-map", "--reason", "after the sale")
    with closing(open_store(store)) as opened:
        assert opened.activations()[-1].reason == "after the sale"


def test_publishing_what_cannot_be(model: Path, events_file: Path, store: str, tmp_path: Path) -> None:
    assert "there is no model folder" in error_of("publish", tmp_path / "nothing", "--to", store)
    assert "publish needs a MODEL, or --rollback to go back to an earlier version" in error_of("publish", "--to", store)
    assert "the reason '' cannot be kept" in error_of("publish", model, "--to", store, "--reason", "")
    assert "holds no store: publish a model to" in error_of("publish", "--to", store, "--rollback")
    assert "is not the address of a store" in error_of("publish", model, "--to", "ftp://x")
    assert "occurs twice: give each item once" in error_of("publish", model, "--to", store, "--items", events_file)
    (tmp_path / "bare.csv").write_text("item\ni1\n")
    assert "has no information about items" in error_of(
        "publish", model, "--to", store, "--items", tmp_path / "bare.csv"
    )
    (tmp_path / "file").touch()
    assert "cannot make a store in" in error_of("publish", model, "--to", f"file:{tmp_path / 'file' / 'store'}")
    load(model).save(tmp_path / "bare", histories=False)
    assert "was saved without histories" in error_of("publish", tmp_path / "bare", "--to", store, "--histories")


def test_live_items(model: Path, store: str, tmp_path: Path) -> None:
    assert "holds no store" in error_of("live", store)
    run("publish", model, "--to", store, "--no-map")
    assert run_json("live", store) == {"store": store, "live": None, "removed": 0}
    assert run("live", store).stdout == f"every item is live in {store}\n"
    shown = run("live", store, "--remove", "i4,nosuch")
    assert shown.stdout == f"every item is live in {store}, except 2 items that were removed\n"
    assert run("live", store, "--list").stdout == f"{shown.stdout}i4\nnosuch\n"
    assert re.fullmatch(r"note: 1 id is not in version \S+, but kept for a later one: nosuch\n", shown.stderr)
    assert run_json("live", store, "--add", "nosuch", "--list")["removed_ids"] == ["i4"]
    (tmp_path / "stock.txt").write_text("i3\ni1\n\n i2 \n")
    assert run_json("live", store, "--set", tmp_path / "stock.txt", "--list")["live_ids"] == ["i1", "i2", "i3"]
    assert run_json("live", store, "--add", "i9, i8", "--add", "i7", "--remove", "i1")["live"] == 5
    assert run_json("live", store, "--list")["live_ids"] == ["i2", "i3", "i7", "i8", "i9"]
    assert run("live", store, "--remove", "i7,i8,i9").stdout == f"2 items are live in {store}\n"
    assert run_json("live", store, "--all")["live"] is None
    assert run("live", store, "--remove", "i7").stderr == ""
    items = next((tmp_path / "store" / "versions").glob("*/items.sqlite"))
    items.write_bytes(items.read_bytes()[:-1])
    assert run("live", store, "--all").stderr == ""
    shown = run("live", store, "--remove", "i7")
    assert "note: the ids are not compared with version" in shown.stderr
    assert "give one of them" in error_of("live", store, "--all", "--add", "i1")
    assert "cannot be read as a list of ids" in error_of("live", store, "--set", tmp_path / "nothing")


def test_a_list_of_live_items_that_is_probably_a_mistake_needs_force(model: Path, store: str, tmp_path: Path) -> None:
    """Mostly unknown ids, or less than half as long as the last list; a first list may be short."""
    run("publish", model, "--to", store, "--no-map")
    stock = tmp_path / "stock.txt"

    def listed(*ids: str) -> Path:
        stock.write_text("\n".join(ids))
        return stock

    message = error_of("live", store, "--set", listed("i1", "x1", "x2"))
    assert "2 of the 3 ids in the list are not in version" in message
    assert "so nothing is changed: check it, and give --force if it is meant" in message
    assert run_json("live", store)["live"] is None
    assert (
        run_json("live", store, "--set", listed("i1", "i2", "i3", "i4", "i5", "x1"), "--list")["live_ids"][-1] == "x1"
    )
    message = error_of("live", store, "--set", listed("i1", "i2"))
    assert "the list has 2 ids, fewer than half of the 6 in the list that it replaces" in message
    assert "the list is empty" in error_of("live", store, "--set", listed())
    assert run_json("live", store)["live"] == 6
    assert run_json("live", store, "--set", listed("i1", "i2"), "--force", "--list")["live_ids"] == ["i1", "i2"]
    assert run_json("live", store, "--set", listed("x1"), "--force", "--list")["live_ids"] == ["x1"]


def test_a_store_that_is_not_available_is_closed_and_served_all_the_same(
    model: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("publish", model, "--to", store, "--no-map")
    close, events = FileStore.close, []

    def state(self: FileStore) -> None:
        raise StoreUnavailable("the store is away")

    def close_and_record(self: FileStore) -> None:
        close(self)
        events.append("closed")

    monkeypatch.setattr(FileStore, "state", state)
    monkeypatch.setattr(FileStore, "close", close_and_record)
    monkeypatch.setattr("lorentzrec.serving.http.server.run", lambda *_: events.append("served"))
    assert "note: the store is away; the service starts anyway" in run("serve", store).stderr
    assert events == ["closed", "served"]


def test_arms(model: Path, store: str, events_file: Path, tmp_path: Path) -> None:
    assert "has no version in arm main: publish one without --arm" in error_of(
        "publish", model, "--to", store, "--no-map", "--arm", "flat=0"
    )
    main = run_json("publish", model, "--to", store, "--no-map")["model"]
    published = run("publish", model, "--to", store, "--no-map", "--arm", "flat=0.25")
    assert f"is the current version of arm flat of {store}" in published.stdout
    first = run_json("arms", store)["arms"]["flat"]["version"]
    second = run_json("publish", model, "--to", store, "--no-map", "--arm", "flat")["model"]
    arms = {"main": {"version": main, "share": 0.75}, "flat": {"version": second, "share": 0.25}}
    assert run_json("arms", store) == {"store": store, "arms": arms}
    assert run_json("publish", "--to", store, "--rollback", "--arm", "flat")["model"] == first
    assert run_json("arms", store, "flat=0.1", "--reason", "a test")["arms"]["flat"] == {"version": first, "share": 0.1}
    shown = run_json("store", "status", store)
    assert shown["arms"] == run_json("arms", store)["arms"]
    assert {one["name"]: one["arms"] for one in shown["versions"]} == {main: ["main"], first: ["flat"], second: []}
    assert [(one["arm"], one["reason"]) for one in shown["activations"]][-1] == ("flat", "a test")
    assert "Arms, with their shares of the customers: main 0.9, flat 0.1" in run("store", "status", store).stdout
    table = tmp_path / "all.jsonl"
    assert "--arm names an arm of a store" in error_of("recommend-all", model, "--out", table, "--arm", "flat")
    assert f"{store} has no arm 'deep' (arms: main, flat)" in error_of(
        "recommend-all", "--store", store, "--out", table, "--arm", "deep"
    )
    for refused, line in (
        (("flat",), "'flat' is not NAME=SHARE: give the new share as well, as in flat=0.1"),
        (("flat=much",), "'flat=much' is not NAME=SHARE: give a number from 0 to 1"),
        (("flat=2",), "the share of arm flat is 2.0: give a number from 0 to 1"),
        (("main=0.5",), f"arm main of {store} has the customers of no other arm"),
        (("deep=0.5",), f"{store} has no arm 'deep' (arms: main, flat): check the name"),
        (("--end", "main"), "arm main cannot end"),
        (("--promote", "main"), f"{store} has no arm 'main' (arms: flat)"),
        (("flat=0.2", "--end", "flat"), "give one of them"),
    ):
        assert line in error_of("arms", store, *refused)
    assert "--rollback keeps the share of an arm: give --arm flat" in error_of(
        "publish", "--to", store, "--rollback", "--arm", "flat=0.5"
    )
    assert "sum up to more than 1 (deep 0.95, flat 0.1)" in error_of(
        "publish", model, "--to", store, "--no-map", "--arm", "deep=0.95"
    )
    assert run_json("arms", store, "--promote", "flat")["arms"] == {"main": {"version": first, "share": 1.0}}
    assert run_json("publish", "--to", store, "--rollback")["model"] == main
    run_json("publish", model, "--to", store, "--no-map", "--arm", "flat=0")
    assert [*run_json("arms", store, "--end", "flat")["arms"]] == ["main"]


def test_histories_since_the_current_version(store: str, tmp_path: Path) -> None:
    """Of four new events, one is older than the newest of the model, one of the same moment, and two are newer."""
    rows = [f"u{user},i{(user + step) % 8},{10 * step}" for step in range(6) for user in range(12)]
    (tmp_path / "old.csv").write_text("user,item,time\n" + "\n".join(rows) + "\n")
    model = make(tmp_path / "model", "train", tmp_path / "old.csv", *SETTINGS)
    publish = ("publish", model, "--to", store, "--no-map", "--force")
    assert "--since is for --histories: give both" in error_of(*publish, "--since", "last")
    assert run_json(*publish)["events"] is None
    (tmp_path / "new.csv").write_text("user,item,time\nu1,i1,30\nu1,i2,50\nu1,i3,51\nu2,i3,60\n")
    make(tmp_path / "day", "prepare", tmp_path / "new.csv")

    def publish_since(moment: str) -> int:
        result = run_json(*publish, "--histories", "--since", moment, "--items", tmp_path / "day")
        return int(result["events"]["accepted"])

    assert publish_since("last") == 2
    assert publish_since("1970-01-01T00:00:50Z") == 1
    assert publish_since("0") == 1
