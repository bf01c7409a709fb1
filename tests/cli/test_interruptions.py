"""Commands that are interrupted by real signals: training with a good model in place, which is intact every time."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lorentzrec import TrainingConfig, load, train
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.learning.checkpoint import Checkpoint
from lorentzrec.learning.kernels.compiling import COMPILING
from lorentzrec.model.notes import NoteKind
from tests.cli.command_line import SETTINGS, run
from tests.interruptible_processes import environment

FOREVER = ("--set", "dimension=4", "--set", "epochs=1000000")
CONFIG = TrainingConfig(dimension=4, epochs=3, threads=1, seed=5)
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
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env)
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
    checkpoint = place.with_name("model.checkpoint")
    kept = f"the checkpoint is in {checkpoint}: run the same command with --resume to continue"
    assert lines[-3:] == [moved, kept, line]
    assert content_of(place) == before
    assert len(load(unfinished).record) == len(Checkpoint.load(checkpoint).record) >= 1
    assert NoteKind.INTERRUPTED in {note.kind for note in load(unfinished).note_records}
    assert sorted(path.name for path in place.parent.iterdir()) == ["model", "model.checkpoint", "model.interrupted"]


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
    assert sorted(path.name for path in place.parent.iterdir()) == ["model", "model.checkpoint"]


MOMENTS = [
    ("before epoch 1", 0),
    ("checkpoint 1", 1),
    ("before epoch 2", 1),
    ("checkpoint 2", 2),
    ("checkpoint 3", 3),
    ("save", 3),
    ("removal", 0),
]
"""A moment of a run of three epochs, and the epochs that are finished then; none are left at the end."""


@pytest.mark.parametrize(
    ("number", "moment", "finished"),
    [
        *((number, *moment) for number in (signal.SIGINT, signal.SIGKILL) for moment in MOMENTS),
        (signal.SIGTERM, "checkpoint 2", 2),
    ],
)
def test_a_stopped_run_continues_after_its_last_finished_epoch(
    number: signal.Signals, moment: str, finished: int, place: Path, shop: Path, processes: list[subprocess.Popen[str]]
) -> None:
    """However and whenever it was stopped, with a good model in place; a checkpoint that is killed is not written."""
    before, checkpoint = content_of(place), place.with_name("model.checkpoint")
    command = ("train", shop, "--out", place, *SETTINGS, "--set", "seed=5")
    process = begin(processes, *command, moment=moment)
    wait_for(process, f"now: {moment}")
    process.send_signal(number)
    _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number], rest
    assert "Traceback" not in rest
    if number == signal.SIGKILL and moment.startswith("checkpoint"):
        finished -= 1
    if moment != "removal":
        assert content_of(place) == before
    assert (len(Checkpoint.load(checkpoint).record) if checkpoint.exists() else 0) == finished

    resumed = begin(processes, *command, "--resume", moment="none")
    _, rest = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, rest
    first = [line for line in rest.splitlines() if line.startswith("first: ")]
    assert first == ([f"first: epoch {finished + 1}"] if finished < 3 else [])
    parts = open_dataset(shop).named_parts()
    expected = train(parts["train"], CONFIG, validation=parts["validation"], progress=False)
    np.testing.assert_array_equal(load(place).item_points, expected.item_points)
    left = {path.name for path in place.parent.iterdir()}
    assert left <= {"model", "model.interrupted"}, "no checkpoint, nothing half-written"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_within_an_epoch(number: int, place: Path, shop: Path, processes: list[subprocess.Popen[str]]) -> None:
    """At no special moment: the run continues until the signal arrives, and the next begins with the epoch after."""
    before, checkpoint = content_of(place), place.with_name("model.checkpoint")
    command = ("train", shop, "--out", place, *FOREVER, "--set", "patience=1000000")
    process = begin(processes, *command, moment="epoch 3")
    wait_for(process, "now: epoch 3")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert content_of(place) == before
    finished = len(Checkpoint.load(checkpoint).record)
    assert finished >= 2
    if number != signal.SIGKILL:
        assert len(load(place.with_name("model.interrupted")).record) == finished
    wait_for(begin(processes, *command, "--resume", moment="none"), f"first: epoch {finished + 1}")


def test_a_place_for_an_unfinished_model_that_is_taken(place: Path, shop: Path) -> None:
    """Found out before training, not when there is something to save."""
    (place.parent / "model.interrupted").mkdir()
    (place.parent / "model.interrupted" / "letter").touch()
    result = run("train", shop, "--out", place, *SETTINGS, code=2)
    assert "model.interrupted holds files but no manifest.json" in result.stderr
