"""Files and folders that appear complete or not at all, on a real disk with real failures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file

from lorentzrec.base import atomic
from lorentzrec.base.atomic import (
    atomic_directory,
    atomic_file,
    checksum,
    read_directory,
    remove_directory,
    scratch_directory,
)
from lorentzrec.errors import ArtifactError, ConfigError, InputError


def write_folder(target: Path, text: str) -> None:
    with atomic_directory(target) as folder:
        (folder / "manifest.json").write_text(text)


def content(folder: Path) -> dict[str, str]:
    """Everything below a folder: an extra or half-written file anywhere shows."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def fail_in_folder(target: Path, failure: type[BaseException]) -> None:
    with atomic_directory(target) as folder:
        (folder / "manifest.json").write_text("new")
        raise failure


def fail_in_file(target: Path, failure: type[BaseException]) -> None:
    with atomic_file(target) as file:
        file.write_text("new")
        raise failure


def write_big(
    writer: Callable[[Path], AbstractContextManager[Path]], target: Path, write: Callable[[Path], object]
) -> None:
    with writer(target) as path:
        write(path / "big" if path.is_dir() else path)


@contextmanager
def size_limit(size: int) -> Iterator[None]:
    """Make every write beyond `size` bytes of a file fail, as a full disk does; it binds the super-user as well."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_folder_appears_at_the_end_and_not_before(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "new") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "a").write_text("1")
        assert not (tmp_path / "new").exists()
        assert folder.parent == tmp_path
    assert content(tmp_path) == {"new/inner/a": "1"}


def test_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    with atomic_directory(tmp_path / "m") as folder:
        (folder / "manifest.json").write_text("old")
        (folder / "left over").write_text("old")
    with atomic_directory(tmp_path / "m") as folder:
        assert content(tmp_path / "m") == {"manifest.json": "old", "left over": "old"}
        (folder / "manifest.json").write_text("new")
    assert content(tmp_path) == {"m/manifest.json": "new"}


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_failure_changes_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    for old in ({}, {"m/manifest.json": "old", "f": "old"}):
        if old:
            write_folder(tmp_path / "m", "old")
            (tmp_path / "f").write_text("old")
        with pytest.raises(failure):
            fail_in_folder(tmp_path / "m", failure)
        with pytest.raises(failure):
            fail_in_file(tmp_path / "f", failure)
        assert content(tmp_path) == old
        assert len(list(tmp_path.iterdir())) == len(old)


def test_foreign_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday").write_text("dear")
    with pytest.raises(InputError, match="not written by lorentzrec: choose another name"):
        write_folder(tmp_path / "photos", "new")
    assert content(tmp_path) == {"photos/holiday": "dear"}
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", "new")
    assert content(tmp_path / "empty") == {"manifest.json": "new"}


def test_machine_stopped_between_the_renames(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", "old")
    (tmp_path / "m").rename(tmp_path / ".m.old")
    with pytest.raises(ValueError, match="again"), atomic_directory(tmp_path / "m"):
        raise ValueError("again")
    assert content(tmp_path) == {"m/manifest.json": "old"}


def test_machine_stopped_before_the_old_folder_was_removed(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", "newer")
    write_folder(tmp_path / ".m.old", "old")
    write_folder(tmp_path / "m", "newest")
    assert content(tmp_path) == {"m/manifest.json": "newest"}


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_failed_rename_puts_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    write_folder(tmp_path / "m", "old")
    rename = Path.rename

    def rename_unless_new(source: Path, target: Path) -> Path:
        if "writing" in source.name:
            raise failure
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", rename_unless_new)
    with pytest.raises((InputError, KeyboardInterrupt)):
        write_folder(tmp_path / "m", "new")
    assert content(tmp_path) == {"m/manifest.json": "old"}


def test_folder_that_vanishes_while_it_is_filled(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", "old")
    with pytest.raises(InputError, match="cannot write"), atomic_directory(tmp_path / "m") as folder:
        folder.rmdir()
    assert content(tmp_path) == {"m/manifest.json": "old"}


@pytest.fixture(params=["one step", "two renames"])
def replacement(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to replace a folder: that of Linux, and that of every other system."""
    if request.param == "two renames":
        monkeypatch.setattr(atomic, "_exchange", lambda *_: False)
    return str(request.param)


def write_version(target: Path, number: int) -> None:
    with atomic_directory(target) as folder:
        for name in ("a", "b", "manifest.json"):
            (folder / name).write_text(str(number))


def read_version(folder: Path) -> int:
    """An error if the files are of different versions, as a mixed model would be."""
    if not folder.is_dir():
        raise ArtifactError("nothing there")
    numbers = {(folder / name).read_text() for name in ("manifest.json", "a", "b")}
    if len(numbers) > 1:
        raise ArtifactError("versions are mixed")
    return int(numbers.pop())


@pytest.mark.usefixtures("replacement")
def test_readers_and_writers_of_one_folder_do_not_interfere(tmp_path: Path) -> None:
    write_version(tmp_path / "m", 0)
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(100):
                write_version(tmp_path / "m", number)
        except BaseException as error:
            failures.append(error)

    writers = [Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        read_directory(tmp_path / "m", read_version)
        reads += 1
    for writer in writers:
        writer.join()
    assert failures == []
    assert reads > 0
    assert read_version(tmp_path / "m") == 99
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_reader_that_finds_nothing_waits_for_a_writer_that_is_renaming(tmp_path: Path) -> None:
    write_version(tmp_path / "m", 7)
    (tmp_path / "m").rename(tmp_path / "neither name")
    looked = Event()

    def read(folder: Path) -> int:
        looked.set()
        return read_version(folder)

    with ThreadPoolExecutor() as pool:
        with atomic._exclusive(tmp_path):
            found = pool.submit(read_directory, tmp_path / "m", read)
            assert looked.wait(60)
            time.sleep(0.05)
            (tmp_path / "neither name").rename(tmp_path / "m")
        assert found.result() == 7


def test_linux_replaces_a_folder_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that looks at the worst moment, without any retry, finds a folder."""
    if not sys.platform.startswith("linux"):
        return
    write_folder(tmp_path / "m", "old")
    renames: list[Path] = []
    monkeypatch.setattr(Path, "rename", lambda source, _: renames.append(source))
    write_folder(tmp_path / "m", "new")
    assert content(tmp_path) == {"m/manifest.json": "new"}
    assert renames == []


def test_folder_is_found_after_a_stop_between_the_renames(tmp_path: Path) -> None:
    write_version(tmp_path / "m", 7)
    (tmp_path / "m").rename(tmp_path / ".m.old")
    assert read_directory(tmp_path / "m", read_version) == 7
    with pytest.raises(ArtifactError, match="nothing there"):
        read_directory(tmp_path / "other", read_version)


def test_an_error_of_an_unchanged_folder_is_reported_at_once(tmp_path: Path) -> None:
    write_version(tmp_path / "m", 7)
    (tmp_path / "m" / "a").write_text("8")
    reads = []

    def read(folder: Path) -> int:
        reads.append(folder)
        return read_version(folder)

    with pytest.raises(ArtifactError, match="mixed"):
        read_directory(tmp_path / "m", read)
    assert len(reads) == 1


STUCK = """
import sys, time
from lorentzrec.base import atomic
with getattr(atomic, sys.argv[1])(sys.argv[2]) as place:
    (place / "half" if place.is_dir() else place).write_text("half")
    print(place, flush=True)
    time.sleep(60)
"""


@contextmanager
def stuck_writer(writer: str, target: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process in the middle of a write, and what it is writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, writer, target], stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )
    assert process.stdout is not None
    with process:
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no lock of folders")
@pytest.mark.parametrize("writer", ["atomic_directory", "atomic_file", "scratch_directory"])
def test_folders_of_killed_processes_are_removed_and_those_in_use_are_not(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    target = "publish" if writer == "scratch_directory" else str(tmp_path / "m")

    def write() -> None:
        with getattr(atomic, writer)(target) as place:
            (place / "manifest.json" if place.is_dir() else place).write_text("new")

    with (
        stuck_writer(writer, target, TMPDIR=str(tmp_path)) as (killed, left),
        stuck_writer(writer, target, TMPDIR=str(tmp_path)) as (_, written),
    ):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        write()
        assert not left.exists()
        assert written.exists(), "the folder of a living writer was removed"
    write()
    assert {path.name for path in tmp_path.iterdir()} <= {"m"}


def test_scratch_folders_are_private_and_removed(tmp_path: Path) -> None:
    with scratch_directory("publish", within=tmp_path) as folder:
        (folder / "x").write_text("1")
        assert folder.parent == tmp_path
        assert os.name == "nt" or folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    write_folder(tmp_path / "version-1", "old")
    (tmp_path / "current").symlink_to("version-1")
    write_folder(tmp_path / "current", "new")
    assert (tmp_path / "current").is_symlink()
    assert content(tmp_path / "version-1") == {"manifest.json": "new"}


def test_file_is_replaced_and_keeps_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "figure.png").write_text("old")
    with atomic_file(tmp_path / "figure.png") as file:
        assert file.suffix == ".png"
        file.write_text("new")
        assert (tmp_path / "figure.png").read_text() == "old"
    assert content(tmp_path) == {"figure.png": "new"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_folder(tmp_path / "m", "1")
        with atomic_file(tmp_path / "f") as file:
            file.write_text("1")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("m", "f")] == [0o755, 0o644]


def test_a_file_is_no_folder_and_a_folder_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="is a file: give the name of a folder"), atomic_directory(tmp_path / "file"):
        pass
    with pytest.raises(InputError, match="is a folder: give the name of a file"), atomic_file(tmp_path / "folder"):
        pass
    assert content(tmp_path) == {"file": "1"}


@pytest.mark.parametrize("parent", ["missing", "file"])
@pytest.mark.parametrize("writer", [atomic_directory, atomic_file])
def test_a_parent_that_is_no_folder_is_reported(
    tmp_path: Path, parent: str, writer: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    (tmp_path / "file").write_text("1")
    target = tmp_path / parent / "m"
    with pytest.raises(InputError) as caught, writer(target):
        pytest.fail("no work may begin")
    assert str(caught.value) == f"cannot write {target}: {target.parent} is not a folder; create it first"


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(bytes(100_000)),
        lambda path: pl.DataFrame({"a": np.random.default_rng(0).random(10_000)}).write_parquet(path),
        lambda path: save_file({"a": np.zeros(10_000)}, path),
    ],
    ids=["python", "polars", "safetensors"],
)
def test_a_full_disk_is_reported(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write_folder(tmp_path / "m", "old")
    for writer, name in ((atomic_directory, "m"), (atomic_file, "f")):
        with pytest.raises(InputError) as caught, size_limit(10_000):
            write_big(writer, tmp_path / name, write)
        assert str(caught.value) == f"cannot write {tmp_path / name}: File too large; make room or choose another disk"
    assert content(tmp_path) == {"m/manifest.json": "old"}


def test_a_full_disk_is_reported_with_the_folder_that_is_being_written(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught, size_limit(10_000), atomic_directory(tmp_path / "m") as folder:
        write_big(atomic_file, folder / "f", lambda path: path.write_bytes(bytes(100_000)))
    assert str(caught.value) == f"cannot write {tmp_path / 'm'}: File too large; make room or choose another disk"
    with (
        pytest.raises(InputError, match=r"cannot write .*/f: File too large"),
        size_limit(10_000),
        scratch_directory("test", within=tmp_path) as folder,
    ):
        write_big(atomic_file, folder / "f", lambda path: path.write_bytes(bytes(100_000)))


def test_errors_about_other_things_pass_unchanged(tmp_path: Path) -> None:
    elsewhere = Path(os.sep, "no such folder", "events.csv")
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "f"):
        elsewhere.read_text()
    with pytest.raises(ConfigError, match="of its own"), atomic_directory(tmp_path / "m"):
        raise ConfigError("of its own (os error 28)")
    assert content(tmp_path) == {}


def test_checksum_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    # The example of the standard, FIPS 180-2 appendix B.1.
    assert checksum(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_folder_is_removed_whole(tmp_path: Path) -> None:
    """Killed when it begins to delete files, a process leaves no part of the folder under its name."""
    write_folder(tmp_path / "folder", "text")
    script = (
        "import os, shutil, signal, sys\n"
        "from lorentzrec.base.atomic import remove_directory\n"
        "shutil.rmtree = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)\n"
        "remove_directory(sys.argv[1])\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, tmp_path / "folder"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "folder").exists()
    write_folder(tmp_path / "folder", "new")
    assert content(tmp_path) == {"folder/manifest.json": "new"}, "the next write removes what was left"
    remove_directory(tmp_path / "folder")
    remove_directory(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []
