"""Data sets are found by their official names; what is missing or damaged is reported with file and page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lorentzrec.errors import InputError
from lorentzrec_paper import data_sets
from lorentzrec_paper.data_sets import (
    AMAZON_PAGE,
    MOVIELENS_PAGE,
    DamagedData,
    DataFolder,
    DataSet,
    MissingData,
    complete_name,
    five_core_name,
)


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_missing_data_name_file_and_page(tmp_path: Path) -> None:
    with pytest.raises(MissingData) as error:
        DataFolder(tmp_path).find("movielens-20m")
    assert str(error.value) == f"MovieLens 20M needs {tmp_path}/ml-20m/ratings.csv: get it from {MOVIELENS_PAGE}"


def test_without_a_folder_everything_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LORENTZREC_DATA", raising=False)
    with pytest.raises(MissingData, match=r"ml-100k/u.data in a data folder: .* \(--data\)$"):
        DataFolder().find("movielens-100k")
    monkeypatch.setenv("LORENTZREC_DATA", str(tmp_path))
    assert DataFolder().path == tmp_path


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        DataFolder(tmp_path / "nowhere")


def test_complete_ratings_keep_customers_with_enough_events(tmp_path: Path) -> None:
    lines = [f"a,{item},5.0,{item}" for item in range(3)] + ["b,1,1.0,9"]
    write(tmp_path, "ratings_Automotive.csv", "\n".join(lines))
    found = DataFolder(tmp_path).find(complete_name("Automotive"))
    assert len(found.interactions()) == 4
    kept = found.interactions(minimum_user_events=3)
    assert (len(kept), len(kept.users), kept.ordered) == (3, 1, True)
    assert len(found.interactions(minimum_rating=2)) == 3


def test_filters_that_leave_nothing_are_an_error_that_names_the_data_set(tmp_path: Path) -> None:
    write(tmp_path, "ratings_Automotive.csv", "a,1,5.0,1\nb,1,5.0,2\n")
    found = DataFolder(tmp_path).find(complete_name("Automotive"))
    with pytest.raises(InputError, match=r"^Automotive: no event is left after minimum counts"):
        found.interactions(minimum_user_events=2)


def test_a_minimum_rating_applies_where_there_are_ratings(tmp_path: Path, small_files: None) -> None:
    write(tmp_path, "amazon-5core/Toys_and_Games.txt", "a 1 2\n")
    assert len(DataFolder(tmp_path).find(five_core_name("Toys_and_Games")).interactions(minimum_rating=4)) == 2


def test_events_that_were_counted_are_not_kept(tmp_path: Path) -> None:
    write(tmp_path, "ratings_Automotive.csv", "a,1,5.0,1\nb,1,5.0,2\n")
    found = DataFolder(tmp_path).find(complete_name("Automotive"))
    assert found.events == 2
    assert len(found.interactions()) == 2
    assert {type(value) for value in vars(found).values()} == {DataSet, tuple, str, int}


def test_half_a_download_is_damaged(tmp_path: Path) -> None:
    write(tmp_path, "ml-100k/u.data", "1\t2\t5\t100\n")
    with pytest.raises(
        DamagedData, match=r"holds 1 events where the official file has 100,000: get it again from http"
    ):
        _ = DataFolder(tmp_path).find("movielens-100k").events


def test_lines_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    write(tmp_path, "ml-100k/u.data", "1\t2\t5\t100\n1\t2\n")
    with pytest.raises(DamagedData, match=f"u.data line 2: .*, or get it again from {MOVIELENS_PAGE}"):
        _ = DataFolder(tmp_path).find("movielens-100k").events


def test_an_empty_file_and_a_lost_half_are_damage(tmp_path: Path) -> None:
    write(tmp_path, "ml-1m/ratings.dat", "")
    write(tmp_path, "gowalla/train.txt", "0 1 2\n")
    folder = DataFolder(tmp_path)
    with pytest.raises(DamagedData, match="is empty"):
        folder.find("movielens-1m")
    with pytest.raises(DamagedData, match=r"gowalla/test\.txt is missing"):
        folder.find("gowalla")
    assert "gowalla" in folder
    assert "movielens-10m" not in folder


def test_several_files_are_one_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = DataSet("pair", "Pair", AMAZON_PAGE, ((("a.txt", "b.txt"), "adjacency"),), events=3)
    monkeypatch.setitem(data_sets.DATA_SETS, "pair", known)
    write(tmp_path, "a.txt", "0 1 2\n")
    write(tmp_path, "b.txt", "0 3\n")
    found = DataFolder(tmp_path).find("pair")
    events = found.interactions()
    assert (len(events), events.ordered, events.history_ids(0)) == (3, False, [1, 2, 3])


def test_two_files_are_training_and_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(data_sets.DATA_SETS, "gowalla", replace(data_sets.DATA_SETS["gowalla"], events=6))
    write(tmp_path, "gowalla/train.txt", "7 1 2\n8 2\n")
    write(tmp_path, "gowalla/test.txt", "8 3 1\n7 4\n")
    train, test = DataFolder(tmp_path).find("gowalla").given_split()
    assert [train.history_ids(user) for user in (7, 8)] == [[1, 2], [2]]
    assert [sorted(map(str, test.history_ids(user))) for user in (7, 8)] == [["4"], ["1", "3"]]


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    digests = set()
    for place, text in (("one", "a 1\n"), ("two", "a 1\n"), ("three", "a 2\n")):
        write(tmp_path / place, "amazon-5core/Toys_and_Games.txt", text)
        digests.add(DataFolder(tmp_path / place).find(five_core_name("Toys_and_Games")).digest)
    assert len(digests) == 2
