"""The dataset folder: round trips, a digest that depends only on content, and detection of damage."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.base.atomic import checksum
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import split
from lorentzrec.errors import ArtifactError, ConfigError, InputError
from lorentzrec.ingest.dataset import (
    USERS_PER_BLOCK,
    content_digest,
    is_dataset,
    open_dataset,
    write_events,
)
from tests.damaged_folders import check_refusals, reseal
from tests.saved_datasets import save_dataset

SMALL = Interactions.from_pairs(
    ["ann", "ann", "ann", "Bob", "Bob", "é"], ["a", "b", "c", "c", "a", "a"], [3, 1, 2, 5, 5, 9], [1, 2, 0.5, 1, 1, 4]
)


def same(left: Interactions, right: Interactions) -> bool:
    return left.digest == right.digest


def test_round_trip(tmp_path: Path) -> None:
    dataset = save_dataset(SMALL, tmp_path / "d")
    assert same(Interactions.from_dataset(tmp_path / "d"), SMALL)
    assert is_dataset(tmp_path / "d")
    assert repr(dataset) == "Dataset(6 events, 3 users, 3 items)"
    dataset.verify()


def test_parts_survive_a_round_trip(tmp_path: Path) -> None:
    names = ("train", "validation", "test")
    parts = split(SMALL, "leave_last_two")
    dataset = save_dataset(dict(zip(names, parts, strict=True)), tmp_path / "d")
    assert dataset.part_names == names
    assert dataset.manifest["parts"] == {"train": 4, "validation": 1, "test": 1}
    for name, part, again in zip(names, parts, dataset.parts(), strict=True):
        assert same(part, again)
        assert same(part, Interactions.from_dataset(tmp_path / "d", name))
    assert same(Interactions.from_dataset(tmp_path / "d"), SMALL)


def test_labels_survive_a_round_trip_and_decide_the_next_target(tmp_path: Path) -> None:
    columns = ["ann", "ann", "ann", "bob", "bob"], ["a", "b", "c", "a", "b"], [1, 2, 3, 1, 2]
    data = Interactions.from_pairs(*columns, labels=[False, False, True, True, False])
    save_dataset(data, tmp_path / "d")
    again = Interactions.from_dataset(tmp_path / "d")
    assert same(data, again)
    assert not same(data, Interactions.from_pairs(*columns))
    events = pl.read_parquet(tmp_path / "d" / "interactions.parquet")
    c = data.items.row("c")
    assert events["next_item_row"].to_list() == [c, c, None, None, None]


def test_content_of_the_tables_on_disk(tmp_path: Path) -> None:
    save_dataset(SMALL, tmp_path / "d")
    users, items = (pl.read_parquet(tmp_path / "d" / f"{name}.parquet") for name in ("users", "items"))
    assert users.rows() == [(0, "ann", 3), (1, "Bob", 2), (2, "é", 1)]
    assert items.rows() == [(0, "a", 3), (1, "c", 2), (2, "b", 1)]
    events = pl.read_parquet(tmp_path / "d" / "interactions.parquet")
    assert events.columns == ["user_row", "item_row", "time", "weight", "next_item_row"]
    assert events.rows() == [
        (0, 2, 1, 2.0, 1),
        (0, 1, 2, 0.5, 0),
        (0, 0, 3, 1.0, None),
        (1, 1, 5, 1.0, 0),
        (1, 0, 5, 1.0, None),
        (2, 0, 9, 4.0, None),
    ]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=30))
def test_digest_depends_on_content_only(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("datasets")
    users, items, times = (list(column) for column in zip(*rows, strict=True))
    data = Interactions.from_pairs(users, items, times)
    other = Interactions.from_pairs([*users, 3], [*items, 3], [*times, 3])
    shuffled = Interactions.from_pairs(users[::-1], items[::-1], times[::-1])
    digests = [save_dataset(some, folder / str(place)).digest for place, some in enumerate((data, shuffled, other))]
    assert digests[0] == digests[1] != digests[2]


def test_digest_does_not_depend_on_the_number_of_files(tmp_path: Path) -> None:
    count = 3 * USERS_PER_BLOCK + 7
    data = Interactions.from_pairs(np.repeat(np.arange(count), 2), np.arange(2 * count) % 11)
    frame = pl.DataFrame({"user_row": data.user_rows, "item_row": data.item_rows})
    cut = 2 * USERS_PER_BLOCK
    pieces = [frame.filter(pl.col("user_row") < cut), frame.filter(pl.col("user_row") >= cut)]
    files = [write_events(piece, str(tmp_path)) for piece in pieces]
    whole = write_events(frame, str(tmp_path / "one"), whole=True)
    digests = {content_digest(data.users, data.items, frame.columns, some) for some in (files, files[::-1], [whole])}
    assert len(digests) == 1
    assert [file.name for file in files] == [
        "interactions.parquet/part-0000000000.parquet",
        f"interactions.parquet/part-{cut:010d}.parquet",
    ]


def test_unknown_parts_are_refused(tmp_path: Path) -> None:
    dataset = save_dataset(SMALL, tmp_path / "d")
    with pytest.raises(ConfigError, match="has no part 'test': it is not split"):
        dataset.interactions("test")
    parts = dict(zip(("train", "test"), split(SMALL), strict=True))
    with pytest.raises(ConfigError, match="has no part 'tset': use one of train, test"):
        save_dataset(parts, tmp_path / "e").interactions("tset")


def test_damage_is_detected(tmp_path: Path) -> None:
    place = tmp_path / "d"
    with pytest.raises(ArtifactError, match=r"holds no manifest\.json"):
        open_dataset(place)
    save_dataset(SMALL, place)
    reseal(place, format_version=99)
    with pytest.raises(
        ArtifactError, match=r"has format 99 and this lorentzrec reads 1: upgrade .*prepare the dataset"
    ):
        open_dataset(place)
    reseal(place, format_version=1, format="other")
    assert not is_dataset(place)
    with pytest.raises(ArtifactError, match="is not the manifest of a dataset"):
        open_dataset(place)
    dataset = save_dataset(SMALL, tmp_path / "f")
    events = tmp_path / "f" / "interactions.parquet"
    pl.read_parquet(events).head(2).write_parquet(events)
    for read in (dataset.interactions, dataset.verify, lambda: Interactions.from_dataset(tmp_path / "f")):
        with pytest.raises(ArtifactError, match=r"interactions\.parquet is not as it was written"):
            read()
    reseal(tmp_path / "f")
    with pytest.raises(ArtifactError, match="2 events instead of 6"):
        Interactions.from_dataset(tmp_path / "f")
    events.write_bytes(b"rubbish")
    reseal(tmp_path / "f")
    with pytest.raises(ArtifactError, match=r"interactions\.parquet cannot be read"):
        Interactions.from_dataset(tmp_path / "f")
    events.unlink()
    with pytest.raises(ArtifactError, match=r"interactions\.parquet is missing"):
        dataset.verify()


def set_value(name: str, value: Any, row: int = 1) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Put a value into one row of a column, which takes the type it needs for that."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        values = [*frame[name].to_list()]
        values[row] = value
        dtype = frame[name].dtype
        return frame.with_columns(pl.Series(name, values, dtype if value is None or type(value) is int else None))

    return change


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "interactions",
            set_value("item_row", 3),
            r"parquet row 2: item_row is 3, it must be at least 0 and less than 3",
        ),
        ("interactions", set_value("item_row", 2_000_000_000), "row 2: item_row is 2000000000"),
        ("interactions", set_value("item_row", -1), "row 2: item_row is -1"),
        ("interactions", set_value("item_row", None), "row 2: item_row is None, there is none"),
        ("interactions", lambda frame: frame.cast({"item_row": pl.Float64}), "column item_row is Float64, not Int32"),
        ("interactions", lambda frame: frame.cast({"item_row": pl.Int64}), "column item_row is Int64, not Int32"),
        ("interactions", set_value("user_row", 3, row=5), "row 6: user_row is 3"),
        ("interactions", set_value("user_row", -7, row=0), "row 1: user_row is -7"),
        ("interactions", lambda frame: frame.reverse(), "row 2: user_row is 1, events are not sorted by user"),
        ("interactions", set_value("weight", -1), r"row 2: weight is -1\.0, it must be positive"),
        ("interactions", lambda frame: frame.with_columns(weight=pl.lit(math.nan, pl.Float32)), "row 1: weight is nan"),
        ("interactions", lambda frame: frame.with_columns(weight=pl.lit(math.inf, pl.Float32)), "row 1: weight is inf"),
        ("interactions", set_value("time", 0), "row 2: time is 0, it is before the event above it"),
        ("interactions", lambda frame: frame.cast({"time": pl.String}), "column time is String"),
        ("interactions", lambda frame: frame.drop("item_row"), "cannot be read"),
        ("interactions", lambda frame: frame.head(5), "5 events instead of 6"),
        ("interactions", set_value("part", 2, row=5), "row 6: part is 2, it must be at least 0 and less than 2"),
        ("interactions", set_value("part", 1, row=0), "the parts have .* events instead of"),
        ("items", lambda frame: frame.head(2), "items.parquet has 2 rows instead of 3"),
        ("items", lambda frame: frame.reverse(), "rows are not numbered 0, 1, 2"),
        ("items", lambda frame: frame.with_columns(id=pl.lit("a")), "items.parquet is damaged .*occurs twice"),
        ("users", set_value("id", None), "users.parquet is damaged .*missing"),
        ("users", lambda frame: frame.drop("id"), "users.parquet cannot be read"),
    ],
)
def test_an_invalid_dataset_is_refused_before_it_is_used(
    tmp_path: Path, file: str, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    place = tmp_path / "d"
    save_dataset(dict(zip(("train", "test"), split(SMALL), strict=True)), place)
    path = place / f"{file}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)
    reseal(place)
    with pytest.raises(ArtifactError, match=message) as caught:
        Interactions.from_dataset(place, "train")
    assert str(caught.value).endswith(": prepare the dataset again with `force`")
    assert "\n" not in str(caught.value)


def test_the_file_of_a_wrong_row_is_named(tmp_path: Path) -> None:
    place = tmp_path / "d"
    save_dataset(SMALL, place)
    frame = set_value("item_row", 9, row=4)(pl.read_parquet(place / "interactions.parquet"))
    (place / "interactions.parquet").unlink()
    (place / "interactions.parquet").mkdir()
    names = ["interactions.parquet/part-0000000000.parquet", "interactions.parquet/part-0000000001.parquet"]
    for name, piece in zip(names, (frame.head(3), frame.tail(3)), strict=True):
        piece.write_parquet(place / name)
    files = {name: checksum(place / name) for name in [*names, "items.parquet", "users.parquet"]}
    reseal(place, files=files)
    with pytest.raises(ArtifactError, match=r"part-0000000001\.parquet row 2: item_row is 9"):
        Interactions.from_dataset(place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": []}, "its entry 'counts' is not a dict"),
        ({"counts": {"events": 6, "users": "3", "items": 3}}, "its counts are not numbers"),
        ({"columns": ["user_row"]}, "its columns are"),
        ({"columns": ["user_row", "item_row", "price"]}, "its columns are"),
        ({"columns": [["user_row"], "item_row"]}, "its columns are"),
        ({"parts": {"train": 6}}, "parts without a column of them"),
        ({"parts": {"train": None}}, "its parts are not numbers"),
        ({"notes": "none"}, "its notes are not a list"),
        ({"files": {"../secret.parquet": "0"}}, "'../secret.parquet', which is not the name of a file in the folder"),
        ({"files": {"/etc/passwd": "0"}}, "'/etc/passwd', which is not the name"),
        ({"files": {}}, r"it does not list interactions\.parquet"),
    ],
)
def test_an_invalid_manifest_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    save_dataset(SMALL, tmp_path / "d")
    reseal(tmp_path / "d", **changes)
    with pytest.raises(ArtifactError, match=message):
        Interactions.from_dataset(tmp_path / "d")


def test_a_manifest_in_another_encoding_is_refused(tmp_path: Path) -> None:
    save_dataset(SMALL, tmp_path / "d")
    (tmp_path / "d" / "manifest.json").write_bytes('{"format": "é"}'.encode("latin-1"))
    assert not is_dataset(tmp_path / "d")
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged .*utf-8"):
        open_dataset(tmp_path / "d")


def test_a_manifest_that_was_edited_or_has_no_seal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d" / "manifest.json"
    save_dataset(SMALL, path.parent)
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"notes": ["edited"]}))
    with pytest.raises(ArtifactError, match="changed after it was written"):
        open_dataset(path.parent)
    del manifest["checksum"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ArtifactError, match="changed after it was written"):
        open_dataset(path.parent)


def test_any_damage_is_reported_in_one_line(tmp_path: Path) -> None:
    place = tmp_path / "d"
    save_dataset(dict(zip(("train", "test"), split(SMALL), strict=True)), place)

    def use() -> None:
        for part in open_dataset(place).parts():
            assert part.item_rows.max(initial=0) < len(part.items)
        assert len(open_dataset(place).items) == 3

    names = sorted(path.name for path in place.iterdir())
    check_refusals(place, names, use, rounds=200 // len(names))


def test_a_dataset_that_a_kill_left_under_its_old_name_is_found(tmp_path: Path) -> None:
    save_dataset(SMALL, tmp_path / "d")
    (tmp_path / "d").rename(tmp_path / ".d.old")
    assert is_dataset(tmp_path / "d")
    assert same(Interactions.from_dataset(tmp_path / "d"), SMALL)


def test_a_folder_that_is_no_dataset_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"no manifest\.json"):
        save_dataset(SMALL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
