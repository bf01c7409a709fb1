"""Public data sets are downloaded once, verified, and read from folders of the user without a network."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lorentzrec import Interactions, datasets
from lorentzrec.datasets import SOURCES, fetch
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.ingest.item_table import READERS as ITEM_READERS
from lorentzrec.ingest.sources import READERS
from tests.datasets.film_archives import file_server, use_source, write_archive, write_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(datasets.VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "lorentzrec" / "datasets"


def test_a_data_set_is_downloaded_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = write_archive(tmp_path)
    with file_server(tmp_path) as (address, asked):
        use_source(monkeypatch, f"{address}/ml-100k.zip", archive)
        films = fetch("movielens-100k")
        said = capsys.readouterr().err
        again = fetch("movielens-100k")
    assert asked == ["/ml-100k.zip"]
    assert "no commercial use and no redistribution" in said
    assert "ml-100k-README.txt" in said
    assert f"downloading {address}/ml-100k.zip (4.9 MB) to {cache / 'movielens-100k'}" in said
    assert capsys.readouterr().err == "", "the second time nothing is printed"
    assert sorted(path.name for path in (cache / "movielens-100k").iterdir()) == [".complete", "u.data", "u.item"]
    assert again.folder == films.folder == cache / "movielens-100k"
    assert len(films.interactions) == 1_000
    one = films.interactions.items.id(0)
    assert films.titles[one] == f"Film {one}, caf\u00e9 (1995)"
    assert set(films.titles) == set(films.interactions.items.ids(range(len(films.interactions.items))))
    assert films.items.columns == ["item", "title"]


def test_a_bar_is_shown_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = write_archive(tmp_path)
    with file_server(tmp_path) as (address, _):
        use_source(monkeypatch, f"{address}/ml-100k.zip", archive)
        fetch("movielens-100k", progress=True)
    size = f"{archive.stat().st_size / 1000:.1f}"
    assert f"{size}/{size} kB" in capsys.readouterr().err


def test_a_changed_archive_is_refused_and_nothing_is_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = write_archive(tmp_path)
    with file_server(tmp_path) as (address, _):
        use_source(monkeypatch, f"{address}/ml-100k.zip", archive)
        archive.write_bytes(archive.read_bytes()[:-1])
        digest = hashlib.md5(archive.read_bytes()).hexdigest()
        with pytest.raises(InputError, match=f"the MD5 checksum is {digest} instead of .*; try again"):
            fetch("movielens-100k")
    assert not (cache / "movielens-100k").exists()


def test_an_archive_without_the_files_is_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = write_archive(tmp_path, files=("u.data",))
    with file_server(tmp_path) as (address, _):
        use_source(monkeypatch, f"{address}/ml-100k.zip", archive)
        with pytest.raises(InputError, match=r"ml-100k/u.item.*does not have the files that are expected"):
            fetch("movielens-100k")
    assert not (cache / "movielens-100k").exists()


def test_a_server_that_refuses_is_one_line(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = write_archive(tmp_path)
    with file_server(tmp_path) as (address, _):
        use_source(monkeypatch, f"{address}/gone.zip", archive)
        with pytest.raises(InputError, match=r"gone.zip cannot .* \(HTTP Error 404: .*\): .* LORENTZREC_DATA"):
            fetch("movielens-100k")
    with pytest.raises(InputError, match=r"cannot be downloaded \(.*refused\)"):
        fetch("movielens-100k")
    assert not (cache / "movielens-100k").exists()


@pytest.mark.parametrize("inner", [".", "ml-100k", "movielens-100k"])
def test_a_folder_of_the_user_needs_no_network(inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = write_archive(tmp_path)
    use_source(monkeypatch, "http://127.0.0.1:9/never.zip", archive)
    write_folder(tmp_path / "mine" / inner)
    named = fetch("movielens-100k", tmp_path / "mine")
    monkeypatch.setenv(datasets.VARIABLE, str(tmp_path / "mine"))
    assert fetch("movielens-100k").folder == named.folder == tmp_path / "mine" / inner
    assert named.interactions.digest == Interactions.from_file(named.folder / "u.data").digest


def test_an_incomplete_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not have u.data and u.item: unpack https://files.grouplens.org"):
        fetch("movielens-100k", tmp_path)
    films = fetch("movielens-100k", write_folder(tmp_path / "short"))
    with pytest.raises(InputError, match="has 1,000 events instead of 100,000: it is not complete"):
        _ = films.interactions


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no public data set 'netflix': use one of movielens-100k, movielens-1m, "):
        fetch("netflix")


def test_every_data_set_has_a_reader_for_events_and_items() -> None:
    for name, source in SOURCES.items():
        assert READERS[name].file_name == source.files[0]
        assert ITEM_READERS[name][0].file_name == source.files[1]
