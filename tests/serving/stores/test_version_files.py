"""Sending and receiving in chunks, against the most obvious store of chunks: a dictionary."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.ids import make_key
from lorentzrec.serving.stores.version_files import ChunkedVersions, read_manifest
from tests.serving.stores.raises_fault import raises_fault
from tests.serving.stores.version_folder import content_of, write_version


class Shelf(ChunkedVersions):
    """One version in memory, and a list of the chunks that were written."""

    url, chunk_bytes = "memory:", 4

    def __init__(self) -> None:
        self.manifest = b""
        self.data: dict[tuple[str, int], bytes] = {}
        self.sent: list[tuple[str, int]] = []

    def _begin_upload(self, name: str, manifest: bytes) -> str:
        self.manifest = manifest
        return name

    def _end_upload(self, version: str) -> bool:
        return version == "v1"

    def _find_version(self, name: str) -> tuple[str, bytes]:
        return name, self.manifest

    def _list_chunks(self, version: str) -> dict[tuple[str, int], str]:
        return {key: hashlib.sha256(data).hexdigest() for key, data in self.data.items()}

    def _write_chunk(self, version: str, file: str, number: int, digest: str, data: bytes) -> bool:
        assert (version, digest) == ("v1", hashlib.sha256(data).hexdigest())
        self.data[file, number] = data
        self.sent.append((file, number))
        return True

    def _read_chunk(self, version: str, file: str, number: int) -> bytes | None:
        return self.data.get((file, number))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_version(tmp_path, "v1", {"a.bin": b"0123456789", "b.bin": b"", "c.bin": b"abcd"})


def test_only_what_is_missing_or_wrong_is_sent(folder: Path, tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.upload(folder)
    assert shelf.data == {("a.bin", 0): b"0123", ("a.bin", 1): b"4567", ("a.bin", 2): b"89", ("c.bin", 0): b"abcd"}
    shelf.sent.clear()
    del shelf.data["a.bin", 1]
    shelf.data["c.bin", 0] = b"????"
    progress: list[int] = []
    shelf.upload(folder, progress.append)
    assert shelf.sent == [("a.bin", 1), ("c.bin", 0)]
    assert progress == [4, 4, 2, 4]
    assert content_of(shelf.fetch("v1", tmp_path / "cache")) == content_of(folder)


@pytest.mark.parametrize("chunk", [b"", b"12", b"????", b"0123456789012345"])
def test_a_wrong_chunk_is_never_taken(folder: Path, tmp_path: Path, chunk: bytes) -> None:
    shelf = Shelf()
    shelf.upload(folder)
    shelf.data["a.bin", 0] = chunk
    with raises_fault(StoreFault.VERSION_DAMAGED, "v1", "a.bin"):
        shelf.fetch("v1", tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".v1.lock"]


def test_a_cache_that_cannot_be_written_is_reported_in_one_line(folder: Path, tmp_path: Path) -> None:
    shelf = Shelf()
    shelf.upload(folder)
    (tmp_path / "cache" / ".v1.lock").mkdir(parents=True)  # no right of a folder stops an administrator; this does
    with pytest.raises(InputError, match=r"cannot write .*\.v1\.lock .*: give a folder that can be written"):
        shelf.fetch("v1", tmp_path / "cache")


def test_a_download_that_does_not_end(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lorentzrec.serving.stores.version_files._DOWNLOAD_SECONDS", 0)
    (tmp_path / "cache").mkdir()
    with closing(sqlite3.connect(tmp_path / "cache" / ".v1.lock", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with raises_fault(StoreFault.LOCKED, "download"):
            Shelf().fetch("v1", tmp_path / "cache")


def test_a_manifest_that_is_too_large(folder: Path) -> None:
    manifest = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(manifest + " " * 1_000_000)
    with pytest.raises(ArtifactError, match="bytes, 1,000,000 at most"):
        read_manifest(folder)


def test_keys_of_texts_do_not_run_together() -> None:
    keys = {make_key("a", "b"), make_key("ab"), make_key("a", "b", ""), make_key("", "ab"), make_key("ab", "")}
    assert len(keys) == 5
    assert {len(key) for key in keys} == {32}
