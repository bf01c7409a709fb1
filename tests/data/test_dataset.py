"""The dataset folder: round trips, a digest of content alone, and damage that is noticed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.data.dataset import USERS_A_BLOCK, content_digest, is_dataset, open_dataset, save_dataset, write_events
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.splitting import split
from lorentzrec.errors import ArtifactError, ConfigError, InputError

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


def test_round_trip_of_parts(tmp_path: Path) -> None:
    names = ("train", "validation", "test")
    parts = split(SMALL, "leave_last_two")
    dataset = save_dataset(dict(zip(names, parts, strict=True)), tmp_path / "d")
    assert dataset.part_names == names
    assert dataset.manifest["parts"] == {"train": 4, "validation": 1, "test": 1}
    for name, part, again in zip(names, parts, dataset.parts(), strict=True):
        assert same(part, again)
        assert same(part, Interactions.from_dataset(tmp_path / "d", name))
    assert same(Interactions.from_dataset(tmp_path / "d"), SMALL)


def test_labels_make_the_round_trip_and_name_the_next_target(tmp_path: Path) -> None:
    columns = ["ann", "ann", "ann", "bob", "bob"], ["a", "b", "c", "a", "b"], [1, 2, 3, 1, 2]
    data = Interactions.from_pairs(*columns, labels=[False, False, True, True, False])
    save_dataset(data, tmp_path / "d")
    again = Interactions.from_dataset(tmp_path / "d")
    assert same(data, again)
    assert not same(data, Interactions.from_pairs(*columns))
    events = pl.read_parquet(tmp_path / "d" / "interactions.parquet")
    c = data.items.row("c")
    assert events["next_item_row"].to_list() == [c, c, None, None, None]


def test_tables_on_disk(tmp_path: Path) -> None:
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
        (1, 0, 5, 1.0, 1),
        (1, 1, 5, 1.0, None),
        (2, 0, 9, 4.0, None),
    ]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=30))
def test_digest_is_of_the_content(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]) -> None:
    folder = tmp_path_factory.mktemp("datasets")
    users, items, times = (list(column) for column in zip(*rows, strict=True))
    data = Interactions.from_pairs(users, items, times)
    other = Interactions.from_pairs([*users, 3], [*items, 3], [*times, 3])
    shuffled = Interactions.from_pairs(users[::-1], items[::-1], times[::-1])
    digests = [save_dataset(some, folder / str(place)).digest for place, some in enumerate((data, shuffled, other))]
    assert digests[0] == digests[1] != digests[2]


def test_digest_does_not_depend_on_the_number_of_files(tmp_path: Path) -> None:
    count = 3 * USERS_A_BLOCK + 7
    data = Interactions.from_pairs(np.repeat(np.arange(count), 2), np.arange(2 * count) % 11)
    frame = pl.DataFrame({"user_row": data.user_rows, "item_row": data.item_rows})
    cut = 2 * USERS_A_BLOCK
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


def edit(path: Path, **changes: Any) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | changes))


def test_damage_is_noticed(tmp_path: Path) -> None:
    place = tmp_path / "d"
    with pytest.raises(ArtifactError, match=r"holds no manifest\.json"):
        open_dataset(place)
    save_dataset(SMALL, place)
    edit(place, schema_version=99)
    with pytest.raises(ArtifactError, match="schema version 99, and this is 1"):
        open_dataset(place)
    edit(place, schema_version=1, format="other")
    assert not is_dataset(place)
    with pytest.raises(ArtifactError, match="is not of a dataset"):
        open_dataset(place)
    dataset = save_dataset(SMALL, tmp_path / "f")
    events = tmp_path / "f" / "interactions.parquet"
    pl.read_parquet(events).head(2).write_parquet(events)
    with pytest.raises(ArtifactError, match="2 events instead of 6"):
        dataset.interactions()
    with pytest.raises(ArtifactError, match=r"interactions\.parquet is not as it was written"):
        dataset.verify()
    events.write_bytes(b"rubbish")
    with pytest.raises(ArtifactError, match=r"interactions\.parquet cannot be read"):
        dataset.interactions()
    events.unlink()
    with pytest.raises(ArtifactError, match=r"interactions\.parquet is missing"):
        dataset.verify()


def test_a_strangers_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"no manifest\.json"):
        save_dataset(SMALL, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
