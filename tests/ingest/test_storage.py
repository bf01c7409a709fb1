"""Files on local disk; those in object storage are in test_azure.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorentzrec.errors import InputError
from lorentzrec.ingest.storage import list_files, write_file


def test_a_file_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    address = str(tmp_path / "new" / "file.json")
    with write_file(address) as path:
        path.write_text("1")
        assert not Path(address).exists()
    with pytest.raises(UnicodeEncodeError), write_file(address) as path:
        path.write_text("2" * 100_000 + "\udce9", encoding="utf-8")
    assert Path(address).read_text() == "1"
    assert [file.address for file in list_files(tmp_path)] == [address]
    assert len(list(tmp_path.rglob("*"))) == 2


def test_a_file_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^cannot write .*file/a/b\.json \(Not a directory\): "):  # noqa: SIM117
        with write_file(str(tmp_path / "file" / "a" / "b.json")):
            pytest.fail("no work may begin")


def test_hidden_files_of_a_folder_are_skipped(tmp_path: Path) -> None:
    for name in ("a.csv", "_SUCCESS", ".a.csv.crc", "_temporary/b.csv", "more/c.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("user,item\n")
    assert [file.address for file in list_files(tmp_path)] == [str(tmp_path / name) for name in ("a.csv", "more/c.csv")]
    assert [file.address for file in list_files(tmp_path / "_SUCCESS")] == [str(tmp_path / "_SUCCESS")]
