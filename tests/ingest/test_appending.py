"""Datasets that grow by deliveries: compared with preparation in one go, and killed in the middle."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import interleave
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.ingest.appending import append, compact, list_deliveries
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.sources import Source
from tests.ingest.slow_preparation import Event, csv_of
from tests.interruptible_processes import environment

HEADER = "user,item,time\n"


def write(folder: Path, name: str, rows: str) -> str:
    (folder / name).write_text(HEADER + rows, "utf-8")
    return str(folder / name)


def make(folder: Path, **options: Any) -> Path:
    """A dataset of two customers: ann with tea at 10 and cup at 20, bob with tea at 20."""
    file = write(folder, "base.csv", "ann,tea,10\nann,cup,20\nbob,tea,20\n")
    prepare(PrepareConfig(events=(file,), **options), folder / "shop")
    return folder / "shop"


def histories(shop: Path) -> dict[Any, list[Any]]:
    data = open_dataset(shop).interactions()
    return {user: data.history_ids(user) for user in data.users.series.to_list()}


def test_items_of_a_delivery_need_not_share_attributes(tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    table.write_text("item,category\ntea,drink\njuice,drink\ncup,thing\npot,thing\n")
    file = write(tmp_path, "base.csv", "ann,tea,10\nann,cup,20\nbob,juice,20\nbob,pot,30\n")
    prepare(PrepareConfig(events=(file,), items=str(table), attributes=("category",)), tmp_path / "shop")
    append(tmp_path / "shop", [write(tmp_path, "day.csv", "bob,tea,40\n")])
    assert histories(tmp_path / "shop") == {"ann": ["tea", "cup"], "bob": ["juice", "pot", "tea"]}
    attributes = open_dataset(tmp_path / "shop").attributes()
    assert attributes is not None
    assert set(attributes.values.series) == {"category=drink", "category=thing"}


deliveries = st.lists(
    st.lists(
        st.builds(
            Event,
            user=st.sampled_from(["ann", "Ann", "é", "010", "09", "7"]),
            item=st.sampled_from(["a", "A", "ß", "b c", "07", "7"]),
            time=st.integers(0, 6),
            weight=st.sampled_from([0.5, 1.0, 0.1]),
            rating=st.sampled_from([1.0, 5.0]),
            event=st.sampled_from(["view", "buy"]),
        ),
        min_size=1,
        max_size=12,
    ),
    min_size=2,
    max_size=4,
)
composable_options = st.fixed_dictionaries(
    {
        "event_weights": st.sampled_from([{}, {"view": 1.0, "buy": 4.0}]),
        "label_events": st.sampled_from([None, ("buy",)]),
        "duplicates": st.sampled_from(["keep", "exact"]),
        "source": st.sampled_from(
            [Source(rating_column="rating", event_column="event", ties=ties) for ties in ("shuffle", "file")]
        ),
    }
)


@settings(deadline=None, max_examples=50)
@given(days=deliveries, options=composable_options)
def test_after_compaction_the_dataset_is_that_of_one_go(
    tmp_path_factory: pytest.TempPathFactory, days: list[list[Event]], options: dict[str, Any]
) -> None:
    if options["label_events"]:  # each delivery has something to predict
        days = [[*day, Event("ann", "a", 3, event="buy")] for day in days]
    folder = tmp_path_factory.mktemp("days")
    files = []
    for number, day in enumerate(days):
        files.append(str(folder / f"day-{number}.csv"))
        Path(files[-1]).write_text(csv_of(day), "utf-8")
    prepare(PrepareConfig(events=(files[0],), **options), folder / "shop")
    for file in files[1:]:
        append(folder / "shop", [file], force=True)
    whole = prepare(PrepareConfig(events=tuple(files), **options), folder / "whole")
    merged = open_dataset(folder / "shop").interactions()
    assert open_dataset(folder / "shop").manifest["counts"] == whole.counts
    assert sorted(merged.to_frame().select("user", "item", "time").rows(), key=str) == sorted(
        open_dataset(folder / "whole").interactions().to_frame().select("user", "item", "time").rows(), key=str
    )
    assert merged.times is not None
    assert all((np.diff(merged.times[start:end]) >= 0).all() for start, end in _bounds(merged))
    compact(folder / "shop")
    assert open_dataset(folder / "shop").digest == whole.digest


def _bounds(data: Interactions) -> list[tuple[int, int]]:
    return list(zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True))


def test_a_late_event_has_its_position_by_time_and_is_counted(tmp_path: Path) -> None:
    shop = make(tmp_path)
    report = append(shop, [write(tmp_path, "day.csv", "ann,jam,15\nann,jam,30\neve,cup,20\n")])
    assert histories(shop) == {"ann": ["tea", "jam", "cup", "jam"], "bob": ["tea"], "eve": ["cup"]}
    one = report.delivery
    assert (one.events, one.late, one.repeated, one.new_users, one.new_items) == (3, 2, 0, 1, 1)
    assert report.counts == {"events": 6, "users": 3, "items": 3}
    assert "2 events are not newer than all that was there before" in report.notes


def test_a_file_that_is_delivered_twice_changes_nothing(tmp_path: Path) -> None:
    shop = make(tmp_path)
    day = write(tmp_path, "day.csv", "ann,jam,30\n")
    append(shop, [day])
    before = (shop / "manifest.json").read_bytes()
    for again in (day, write(tmp_path, "copy.csv", "ann,jam,30\n"), str(tmp_path / "base.csv")):
        assert append(shop, [again]).unchanged
    assert (shop / "manifest.json").read_bytes() == before
    assert [path.name for path in (shop / "deliveries").iterdir()] == ["00001"]


@pytest.mark.parametrize(("duplicates", "events"), [("keep", 6), ("exact", 4)])
def test_events_that_the_dataset_has_already_follow_its_option(tmp_path: Path, duplicates: str, events: int) -> None:
    shop = make(tmp_path, duplicates=duplicates)
    report = append(shop, [write(tmp_path, "day.csv", "ann,cup,20\nbob,tea,20\nbob,cup,20\n")])
    assert report.delivery.repeated == 2
    assert report.counts["events"] == events
    assert len(open_dataset(shop).interactions()) == events
    open_dataset(shop).verify()


def test_a_correction_replaces_the_delivery_of_its_name(tmp_path: Path) -> None:
    shop = make(tmp_path)
    day = write(tmp_path, "day.csv", "ann,jam,30\n")
    append(shop, [day])
    write(tmp_path, "day.csv", "ann,pot,30\nbob,pot,31\n")
    with pytest.raises(InputError, match=r"with other content: give `replace` if"):
        append(shop, [day])
    assert histories(shop)["ann"] == ["tea", "cup", "jam"]
    assert append(shop, [day], replace_earlier=True).replaced
    assert histories(shop) == {"ann": ["tea", "cup", "pot"], "bob": ["tea", "pot"]}
    assert open_dataset(shop).manifest["counts"] == {"events": 5, "users": 2, "items": 3}
    compact(shop)
    write(tmp_path, "day.csv", "ann,jam,30\nbob,pot,33\n")
    with pytest.raises(InputError, match="is compacted and cannot be replaced"):
        append(shop, [day], replace_earlier=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"split": "leave_last_out"}, "prepared with `split`"),
        ({"minimum_item_events": 2}, "`minimum_item_events`"),
        ({"duplicates": "last"}, "`duplicates='last'`"),
    ],
)
def test_options_that_need_all_events_are_refused(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    shop = make(tmp_path, **options)
    with pytest.raises(InputError, match=reason):
        append(shop, [write(tmp_path, "day.csv", "ann,jam,30\n")])


def test_other_columns_are_refused(tmp_path: Path) -> None:
    shop = make(tmp_path)
    (tmp_path / "day.csv").write_text("user,item,time,weight\nann,jam,30,2\n")
    with pytest.raises(InputError, match="user_row, item_row, time, weight, next_item_row"):
        append(shop, [str(tmp_path / "day.csv")])
    assert list((shop / "deliveries").iterdir()) == []


def test_preparation_does_not_lose_deliveries(tmp_path: Path) -> None:
    shop = make(tmp_path)
    append(shop, [write(tmp_path, "day.csv", "ann,jam,30\n")])
    config = PrepareConfig(events=(str(tmp_path / "base.csv"),))
    with pytest.raises(InputError, match="1 delivery that was appended"):
        prepare(config, shop)
    assert prepare(config, shop, force=True).counts["events"] == 3


def test_the_item_table_of_the_newest_delivery_counts(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item,title\ntea,Tea\ncup,Cup\n")
    shop = make(tmp_path, items=str(tmp_path / "items.csv"))
    (tmp_path / "new.csv").write_text("item,title\ntea,Green tea\njam,Jam\n")
    append(shop, [write(tmp_path, "day.csv", "ann,jam,30\nann,tea,31\n")], items=str(tmp_path / "new.csv"))

    def titles() -> dict[str, str]:
        return dict(open_dataset(shop).items.select("id", "title").iter_rows())

    expected = {"tea": "Green tea", "cup": "Cup", "jam": "Jam"}
    assert titles() == expected
    assert dict(open_dataset(shop).items.select("id", "count").iter_rows()) == {"tea": 3, "cup": 1, "jam": 1}
    compact(shop)
    assert titles() == expected


def test_a_damaged_delivery_is_found(tmp_path: Path) -> None:
    shop = make(tmp_path)
    append(shop, [write(tmp_path, "day.csv", "ann,jam,30\n")])
    (shop / "deliveries/00001/users.parquet").write_bytes(b"")
    with pytest.raises(ArtifactError, match=r"00001: users\.parquet is not as it was written"):
        open_dataset(shop).verify()


def test_spark_training_asks_for_compaction(tmp_path: Path) -> None:
    shop = make(tmp_path)
    append(shop, [write(tmp_path, "day.csv", "ann,jam,30\n")])
    with pytest.raises(InputError, match="lorentzrec prepare --compact"):
        open_dataset(shop).scan_training()


KILLED = """
import os, signal, sys
from lorentzrec.ingest import appending, dataset
module, name = sys.argv[1].rsplit(".", 1)
def end(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(dict(appending=appending, dataset=dataset)[module], name, end)
if sys.argv[4:]:
    appending.append(sys.argv[2], [sys.argv[4]], replace_earlier=sys.argv[3] == "replace")
else:
    appending.compact(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("dataset.content_digest", "append"),
        ("appending._find_repeated", "append"),
        ("appending.write_dataset_manifest", "append"),
        ("appending.write_dataset_manifest", "replace"),
        ("appending._export", "compact"),
        ("dataset.content_digest", "compact"),
    ],
)
def test_a_kill_leaves_the_dataset_and_the_next_run_ends_well(tmp_path: Path, where: str, how: str) -> None:
    shop = make(tmp_path)
    append(shop, [write(tmp_path, "first.csv", "ann,jam,30\n")])
    day = write(tmp_path, "first.csv" if how == "replace" else "day.csv", "bob,pot,40\n")
    shutil.copytree(shop, tmp_path / "before")
    command = [sys.executable, "-c", KILLED, where, str(shop), how, *([] if how == "compact" else [day])]
    assert subprocess.run(command, env=environment(), check=False).returncode == -signal.SIGKILL
    assert histories(shop) == {"ann": ["tea", "cup", "jam"], "bob": ["tea"]}
    open_dataset(shop).verify()
    if how == "compact":
        compact(shop)
    else:
        append(shop, [day], replace_earlier=how == "replace")
    listed = [one.folder for one in list_deliveries(open_dataset(shop).manifest)]
    folders = sorted(path.name for path in shop.glob("deliveries/*"))
    assert folders == sorted(folder.rpartition("/")[2] for folder in listed if folder)
    expected = {"append": (["tea", "cup", "jam"], ["tea", "pot"]), "replace": (["tea", "cup"], ["tea", "pot"])}
    assert tuple(histories(shop).values()) == expected.get(how, (["tea", "cup", "jam"], ["tea"]))


rows_of_parts = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=10),
    min_size=1,
    max_size=4,
)


@given(parts=rows_of_parts, fractions=st.booleans())
def test_interleave_equals_a_stable_sort(parts: list[list[tuple[int, int, int]]], fractions: bool) -> None:
    made = []
    for number, rows in enumerate(parts):
        users, items, times = map(list, zip(*rows, strict=True))
        moments = np.array(times) / 2 if fractions and number else np.array(times)
        made.append(Interactions.from_pairs(users, items, moments, orders=list(range(len(rows)))))
    together = interleave(made)
    frames = [part.to_frame() for part in made]
    for user in together.users.series.to_list():
        events = [row for frame in frames for row in frame.filter(user=user).rows(named=True)]
        events.sort(key=lambda row: row["time"])
        row = together.users.row(user)
        start, end = together.offsets[row : row + 2]
        assert together.history_ids(user) == [event["item"] for event in events]
        assert together.times is not None
        assert together.times[start:end].tolist() == [event["time"] for event in events]
    assert together.users.series.to_list()[: len(made[0].users)] == made[0].users.series.to_list()
    assert together.orders is not None
    pairs = set(zip(together.user_rows.tolist(), together.orders.tolist(), strict=True))
    assert len(pairs) == sum(
        len(set(zip(one.user_rows, one.orders, strict=True))) for one in made if one.orders is not None
    )
