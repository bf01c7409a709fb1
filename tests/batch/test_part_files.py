"""A table in parts takes the place of an older one as a whole, and no finished part is lost on the way."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from lorentzrec import atomic
from lorentzrec.batch.part_files import finish_parts, part_name, unfinished_folder
from lorentzrec.errors import InputError


def write_parts(out: Path, rank: int) -> Path:
    """All parts of a table, not yet put together, next to what a run leaves there."""
    folder = unfinished_folder(out, str(rank))
    for number in range(2):
        pl.DataFrame({"user": [number], "rank": [rank]}).write_parquet(folder / part_name(number))
    (folder / "index.faiss").write_bytes(b"index")
    return folder


def ranks(out: Path) -> list[int]:
    return pl.read_parquet(out)["rank"].to_list()


@pytest.mark.parametrize("name", ["all", "all[2]"])  # brackets are no pattern
def test_a_folder_takes_the_place_of_an_older_one(tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    for rank in (1, 2):
        assert finish_parts(write_parts(out, rank), out) == 2
        parts = sorted(out.iterdir())
        assert [path.name for path in parts] == [part_name(0), part_name(1)]
        assert pl.read_parquet(parts, glob=False)["rank"].to_list() == [rank, rank]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(target))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    finish_parts(write_parts(tmp_path / "all", 1), tmp_path / "all")
    assert ranks(tmp_path / "all") == [1, 1]


@pytest.mark.parametrize("name", ["all", "all.parquet"])
def test_an_interrupted_replacement_leaves_the_older_table_and_all_parts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / name
    finish_parts(write_parts(out, 1), out)
    folder = write_parts(out, 2)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(atomic, "_sync", stop)  # everything is written, and nothing has another name yet
        with pytest.raises(KeyboardInterrupt):
            finish_parts(folder, out)
    assert ranks(out) == [1, 1]
    assert unfinished_folder(out, "2") == folder
    assert sorted(path.name for path in folder.glob("part-*")) == [part_name(0), part_name(1)]
    finish_parts(folder, out)
    assert ranks(out) == [2, 2]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "thesis.tex").write_text("...")
    folder = write_parts(tmp_path / "all", 1)
    with pytest.raises(InputError, match=r"all holds files but no part-00000\.parquet"):
        finish_parts(folder, tmp_path / "all")
    assert (tmp_path / "all" / "thesis.tex").is_file()
    assert (folder / part_name(0)).is_file()
