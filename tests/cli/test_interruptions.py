"""Commands that are interrupted by real signals: training with a good model in place, which is intact every time."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.command_line import SETTINGS, run, run_json
from interruptible_processes import environment
from lorentzrec import load
from lorentzrec.learning.kernels.compiling import COMPILING
from lorentzrec.model.notes import NoteKind

FOREVER = ("--set", "dimension=4", "--set", "epochs=1000000")
PATIENCE = 300.0
"""Seconds to wait for the end of a process: long, since the machine may be busy. Nothing is measured by it."""
SIGNALS = [(signal.SIGINT, 130, "stopped by Ctrl-C"), (signal.SIGTERM, 143, "stopped by SIGTERM")]


@pytest.fixture
def place(model: Path, tmp_path: Path) -> Path:
    """A copy of the model, to be trained again."""
    shutil.copytree(model, tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def begin(
    processes: list[subprocess.Popen[str]], *arguments: str | Path, moment: str | None = None, **variables: str
) -> subprocess.Popen[str]:
    program = (
        ["-m", "lorentzrec.cli"] if moment is None else [str(Path(__file__).with_name("interruptible.py")), moment]
    )
    command = [sys.executable, *program, *map(str, arguments)]
    env = environment(**variables)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    processes.append(process)
    return process


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stderr is not None
    seen = []
    for seen_line in process.stderr:
        seen.append(seen_line)
        if seen_line.strip() == line:
            return
    pytest.fail(f"{line!r} never came: {seen}")


def interrupt(process: subprocess.Popen[str], number: int, code: int) -> tuple[str, list[str]]:
    process.send_signal(number)
    out, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, rest
    assert "Traceback" not in rest
    return out, rest.splitlines()


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("module", "number", "code", "line"),
    [("typer", *SIGNALS[1]), *((module, *SIGNALS[0]) for module in ("typer", "lorentzrec.learning", "numba"))],
)
def test_during_import(
    place: Path,
    shop: Path,
    module: str,
    number: int,
    code: int,
    line: str,
    processes: list[subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    """Right after one of the modules was imported, of the command line or of training."""
    before = content_of(place)
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPROFILEIMPORTTIME": "1"}
    process = begin(processes, "train", shop, "--out", place, *FOREVER, **variables)
    assert process.stderr is not None
    assert any(text.split("|")[-1].strip() == module for text in process.stderr), f"{module} was not imported"
    _, lines = interrupt(process, number, code)
    assert line in lines
    assert content_of(place) == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["model"]


DROPPED = """
import os, signal, sys, time, weakref
from lorentzrec import cli
from lorentzrec.cli import application

class Something: pass

def work(prog_name):
    something = Something()
    reference = weakref.ref(something, lambda _: os.kill(os.getpid(), number))
    del something
    time.sleep(600)

number = int(sys.argv[1])
if number != signal.SIGINT:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job
application.app = work
cli.main()
"""


@pytest.mark.parametrize(("number", "code", "line"), SIGNALS)
def test_an_interrupt_that_python_drops(number: int, code: int, line: str) -> None:
    """An exception in a callback is only printed; there is one at the end of every import."""
    ended = subprocess.run(
        [sys.executable, "-c", DROPPED, str(int(number))],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        env=environment(),
    )
    assert (ended.returncode, ended.stderr) == (code, f"{line}\n")


@pytest.mark.parametrize(("number", "code", "line"), SIGNALS)
def test_during_compilation(
    place: Path, shop: Path, number: int, code: int, line: str, processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    before = content_of(place)
    process = begin(processes, "train", shop, "--out", place, *FOREVER, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    wait_for(process, COMPILING)
    time.sleep(1)
    _, lines = interrupt(process, number, code)
    assert lines[-1] == line
    assert content_of(place) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "model"]
    assert {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()} == {"lock"}, "no half of an entry"


@pytest.mark.parametrize(("number", "code", "line"), SIGNALS)
def test_during_warm_up(
    number: int, code: int, line: str, processes: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Here the main thread compiles, and the signal waits for the end of a pass of the compiler."""
    process = begin(processes, "warm-up", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    wait_for(process, COMPILING)
    time.sleep(1)
    assert interrupt(process, number, code)[1] == [line]
    assert {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()} == {"lock"}


def training(
    processes: list[subprocess.Popen[str]], shop: Path, place: Path, setting: str, epoch: str
) -> subprocess.Popen[str]:
    """A training that has reached an epoch."""
    process = begin(processes, "train", shop, "--out", place, *FOREVER, "--set", setting, moment=epoch)
    wait_for(process, f"now: {epoch}")
    return process


@pytest.mark.parametrize(("number", "code", "line"), SIGNALS)
def test_in_the_first_epoch_nothing_is_saved(
    place: Path, shop: Path, number: int, code: int, line: str, processes: list[subprocess.Popen[str]]
) -> None:
    before = content_of(place)
    out, lines = interrupt(training(processes, shop, place, "dimension=4096", "epoch 1"), number, code)
    assert out == ""
    saved = f"interrupted before the end of the first epoch, so no model is saved; {place} is unchanged"
    assert lines[-2:] == [saved, line]
    assert content_of(place) == before
    assert [path.name for path in place.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(("number", "code", "line"), SIGNALS)
def test_in_a_later_epoch_the_model_so_far_is_saved_next_to_the_good_one(
    place: Path, shop: Path, number: int, code: int, line: str, processes: list[subprocess.Popen[str]]
) -> None:
    before = content_of(place)
    out, lines = interrupt(training(processes, shop, place, "patience=1000000", "epoch 2"), number, code)
    unfinished = place.with_name("model.interrupted")
    assert f"The model is in {unfinished}" in out
    moved = f"the unfinished model is in {unfinished}; {place} is unchanged: to use the unfinished one, move it there"
    assert lines[-2:] == [moved, line]
    assert content_of(place) == before
    assert len(load(unfinished).record) >= 1
    assert NoteKind.INTERRUPTED in {note.kind for note in load(unfinished).note_records}
    assert sorted(path.name for path in place.parent.iterdir()) == ["model", "model.interrupted"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_where_there_is_no_model_or_it_may_be_overwritten(
    place: Path, shop: Path, overwrite: bool, processes: list[subprocess.Popen[str]]
) -> None:
    if not overwrite:
        shutil.rmtree(place)
    options = (*FOREVER, "--set", "patience=1000000", "--json", *(["--overwrite"] if overwrite else []))
    process = begin(processes, "train", shop, "--out", place, *options, moment="epoch 2")
    wait_for(process, "now: epoch 2")
    out, lines = interrupt(process, signal.SIGINT, 130)
    assert lines[-1] == "stopped by Ctrl-C"
    assert '"interrupted": true' in out
    assert NoteKind.INTERRUPTED in {note.kind for note in load(place).note_records}
    assert [path.name for path in place.parent.iterdir()] == ["model"]


def test_while_the_model_is_written(place: Path, shop: Path, processes: list[subprocess.Popen[str]]) -> None:
    """The old model stays, and the run is finished by --resume from its last checkpoint."""
    before = content_of(place)
    process = begin(processes, "train", shop, "--out", place, *SETTINGS, "--set", "seed=5", moment="save")
    wait_for(process, "now: save")
    interrupt(process, signal.SIGINT, 130)
    assert content_of(place) == before
    assert sorted(path.name for path in place.parent.iterdir()) == ["model", "model.checkpoint"]
    assert run_json("train", shop, "--out", place, *SETTINGS, "--set", "seed=5", "--resume")["config"]["seed"] == 5
    assert load(place).config.seed == 5


def test_killed_in_an_epoch(place: Path, shop: Path, processes: list[subprocess.Popen[str]]) -> None:
    before = content_of(place)
    process = begin(processes, "train", shop, "--out", place, *FOREVER, "--set", "patience=1000000", moment="epoch 2")
    wait_for(process, "now: epoch 2")
    process.kill()
    process.communicate()
    assert content_of(place) == before


def test_a_place_for_an_unfinished_model_that_is_taken(place: Path, shop: Path) -> None:
    """Found out before training, not when there is something to save."""
    (place.parent / "model.interrupted").mkdir()
    (place.parent / "model.interrupted" / "letter").touch()
    result = run("train", shop, "--out", place, *SETTINGS, code=2)
    assert "model.interrupted holds files but no manifest.json" in result.stderr
