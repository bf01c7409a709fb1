"""A table in parts takes the place of an older one as a whole, and no finished part is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lorentzrec.base import atomic
from lorentzrec.batch.part_files import Part, PartFiles, finish_parts, part_name, unfinished_parts
from lorentzrec.errors import InputError


def write_parts(parts: PartFiles, rank: int) -> None:
    """Two parts, next to what a run leaves there."""
    for number in range(2):
        parts.write(number, pl.DataFrame({"user": [number], "rank": [rank]}))
    Path(parts.folder, "index.faiss").write_bytes(b"index")


def write_table(out: Path, rank: int) -> int:
    """A whole table; returns its number of rows."""
    with unfinished_parts(out, str(rank)) as parts:
        write_parts(parts, rank)
        return finish_parts(parts, out, 2)


def ranks(out: Path) -> list[int]:
    return pl.read_parquet(out)["rank"].to_list()


@pytest.mark.parametrize("name", ["all", "all[2]"])  # brackets are no pattern
def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    for rank in (1, 2):
        assert write_table(out, rank) == 2
        parts = sorted(out.iterdir())
        assert [path.name for path in parts] == [part_name(0), part_name(1)]
        assert pl.read_parquet(parts, glob=False)["rank"].to_list() == [rank, rank]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write_table(tmp_path / "all", 1)
    assert ranks(tmp_path / "all") == [1, 1]


@pytest.mark.parametrize("name", ["all", "all.parquet"])
def test_an_interrupted_replacement_leaves_the_older_table_and_all_parts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / name
    write_table(out, 1)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with unfinished_parts(out, "2") as parts:
        write_parts(parts, 2)
        with monkeypatch.context() as interrupted:
            interrupted.setattr(atomic, "_sync", stop)  # everything is written, and nothing has another name yet
            with pytest.raises(KeyboardInterrupt):
                finish_parts(parts, out, 2)
    assert ranks(out) == [1, 1]
    with unfinished_parts(out, "2") as parts:
        assert [parts.find(number) for number in range(3)] == [Part(1), Part(1), None]
        finish_parts(parts, out, 2)
    assert ranks(out) == [2, 2]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "thesis.tex").write_text("...")
    with pytest.raises(InputError, match=r"all holds files but no part-00000\.parquet"):
        write_table(tmp_path / "all", 1)
    assert (tmp_path / "all" / "thesis.tex").is_file()
    with unfinished_parts(tmp_path / "all", "1") as parts:
        assert parts.find(0) == Part(1)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b""),
        lambda path: pl.DataFrame({"other": ["table"]}).write_parquet(path),
        flip,
        lambda path: path.unlink(),
        lambda path: path.with_name(f"_{path.name}.json").write_bytes(b"\xff\xfe"),
        lambda path: path.with_name(f"_{path.name}.json").write_text("[" * 100_000),
        lambda path: path.with_name(f"_{path.name}.json").write_text("[1]"),
    ],
    ids=["truncated", "empty", "foreign", "flipped", "missing", "not-utf-8", "nested", "a-list"],
)
def test_a_damaged_part_is_not_whole(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    with unfinished_parts(tmp_path / "all", "key") as parts:
        write_parts(parts, 1)
        damage(Path(parts.path(1)))
    with unfinished_parts(tmp_path / "all", "key") as parts:
        assert (parts.find(0), parts.find(1)) == (Part(1), None)
        assert parts.write(1, pl.DataFrame({"user": [1], "rank": [3]})) == Part(1, again=True)
        Path(parts.path(2)).write_bytes(b"a part of another run, which had more of them")
        assert finish_parts(parts, tmp_path / "all", 2) == 2
    assert ranks(tmp_path / "all") == [1, 3]


def test_parts_of_other_options_or_with_an_unreadable_key_are_removed(tmp_path: Path) -> None:
    for damage in (lambda path: None, lambda path: path.write_bytes(b"\xff\x00"), lambda path: path.unlink()):
        with unfinished_parts(tmp_path / "all", "key") as parts:
            write_parts(parts, 1)
            Path(parts.folder, "model").mkdir()
            damage(Path(parts.folder, "_key"))
        with unfinished_parts(tmp_path / "all", "other") as parts:
            assert [path.name for path in Path(parts.folder).iterdir()] == ["_key"]


def test_one_run_at_a_time_writes_a_table(tmp_path: Path) -> None:
    """Whatever the options of the other are: its parts are not removed."""
    out = tmp_path / "all.parquet"
    with unfinished_parts(out, "key") as parts:
        write_parts(parts, 1)
        for key in ("key", "other"):
            other = unfinished_parts(out, key)
            with pytest.raises(InputError, match=r"another run is writing \S*all.parquet: wait until it ends"):
                other.__enter__()
        finish_parts(parts, out, 2)
    assert ranks(out) == [1, 1]
    with unfinished_parts(out, "key") as parts:
        assert parts.find(0) is None, "the folder was removed, and is made again"


def test_a_folder_removed_between_opening_and_locking_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, calls = atomic._try_lock, []

    def lock_late(folder: Path, *, wait: bool) -> int | None:
        calls.append(folder)
        descriptor = lock(folder, wait=wait)
        if len(calls) == 1:  # the run that had it ends just now
            folder.rmdir()
        return descriptor

    monkeypatch.setattr(atomic, "_try_lock", lock_late)
    with atomic.locked_directory(tmp_path / "folder") as locked:
        assert (locked, len(calls)) == (True, 2)
        assert (tmp_path / "folder").is_dir()


def test_customers_are_dropped_from_finished_parts(tmp_path: Path) -> None:
    with unfinished_parts(tmp_path / "all", "key") as parts:
        for number in range(3):
            parts.write(number, pl.DataFrame({"user": ["ann", "ann", f"u{number}"], "rank": [1, 2, 1]}))
        before = [Path(parts.path(number)).stat().st_ino for number in range(3)]
        assert parts.drop_customers(["u1", "nobody"], 3) == 1
        assert [parts.find(number) for number in range(3)] == [Part(3), Part(2), Part(3)]
        after = [Path(parts.path(number)).stat().st_ino for number in range(3)]
        assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, True]
        assert parts.drop_customers([], 3) == 0
        assert finish_parts(parts, tmp_path / "all", 3) == 8
