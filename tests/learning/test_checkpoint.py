"""A run as a folder: whole when it comes back, refused when it is not the same run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from lorentzrec.base.atomic import checksum
from lorentzrec.base.manifest import write_manifest
from lorentzrec.errors import ArtifactError, ConfigError, InputError
from lorentzrec.learning.checkpoint import ARRAYS, Checkpoint
from lorentzrec.learning.trainer import train
from lorentzrec.model.notes import Note
from lorentzrec.model.record import EpochRecord
from tests.damaged_folders import check_refusals
from tests.learning.grouped_data import grouped, quick
from tests.model.hand_made_models import RECORD

DATA = grouped(events=300)
CONFIG = quick(epochs=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The checkpoint of a finished run."""
    train(DATA, CONFIG, checkpoint=tmp_path / "run")
    return tmp_path / "run"


def test_everything_comes_back(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(1, np.int32)}
    written = Checkpoint(CONFIG, "digest", RECORD, 2, (Note.of_text("a note"),), arrays)
    written.save(tmp_path / "run")
    read = Checkpoint.load(tmp_path / "run")
    assert (read.config, read.data_digest, read.record) == (CONFIG, "digest", RECORD)
    assert (read.best_epoch, read.notes) == (2, (Note.of_text("a note"),))
    assert {name: (array.dtype, array.tolist()) for name, array in read.arrays.items()} == {
        name: (array.dtype, array.tolist()) for name, array in arrays.items()
    }


def test_a_newer_one_takes_the_place_of_an_older(folder: Path) -> None:
    train(DATA, CONFIG.replace(epochs=3), checkpoint=folder)
    assert len(Checkpoint.load(folder).record) == 3
    assert [path.name for path in folder.parent.iterdir()] == ["run"], "nothing half-written remains"


def test_a_run_without_a_checkpoint_starts_with_its_first_epoch(tmp_path: Path) -> None:
    """As if it had been stopped before the end of that epoch."""
    model = train(DATA, CONFIG, checkpoint=tmp_path / "gone", resume=True)
    assert [epoch.epoch for epoch in model.record] == [1, 2]
    note = f"there was no checkpoint in {tmp_path / 'gone'}: training started with the first epoch"
    assert note in model.notes


def test_arrays_that_are_missing_are_named(folder: Path) -> None:
    (folder / ARRAYS).unlink()
    with pytest.raises(ArtifactError, match=r"state\.safetensors is missing: delete it and train from the start"):
        train(DATA, CONFIG, checkpoint=folder, resume=True)


def test_every_epoch_is_on_disk_when_it_is_reported(tmp_path: Path) -> None:
    saved: list[int] = []

    def look(record: EpochRecord) -> None:
        saved.append(len(Checkpoint.load(tmp_path / "run").record))

    train(DATA, CONFIG.replace(epochs=4), checkpoint=tmp_path / "run", callbacks=[look])
    assert saved == [1, 2, 3, 4]


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_an_interrupt_waits_until_the_checkpoint_is_written(
    signals: list[signal.Signals], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signals arrive in the middle of writing that of epoch 2."""

    def save_and_interrupt(tensors: Any, path: Any) -> None:
        save_file(tensors, path)
        if Path(path).parent.name.startswith(".run") and len(reported) == 1:
            for number in signals:
                signal.raise_signal(number)

    reported: list[EpochRecord] = []
    whole = train(DATA, CONFIG.replace(epochs=4))
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("safetensors.numpy.save_file", save_and_interrupt)
            with pytest.raises(KeyboardInterrupt):
                train(DATA, CONFIG.replace(epochs=4), checkpoint=tmp_path / "run", callbacks=[reported.append])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(Checkpoint.load(tmp_path / "run").record) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"], "nothing half-written remains"
    resumed = train(DATA, CONFIG.replace(epochs=4), checkpoint=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.item_points, whole.item_points)


def test_damaged_arrays_are_refused(folder: Path) -> None:
    content = bytearray((folder / ARRAYS).read_bytes())
    content[-1] ^= 1
    (folder / ARRAYS).write_bytes(content)
    with pytest.raises(ArtifactError, match=r"state\.safetensors is damaged: delete it and train from the start"):
        train(DATA, CONFIG, checkpoint=folder, resume=True)


@pytest.mark.parametrize(
    "manifest",
    [
        "{",
        "[]",
        "{}",
        '{"format": "lorentzrec checkpoint", "format_version": 1}',
        '{"format": "other", "format_version": 1}',
    ],
)
def test_a_foreign_manifest_is_refused(folder: Path, manifest: str) -> None:
    (folder / "manifest.json").write_text(manifest)
    with pytest.raises(
        ArtifactError, match=r"manifest\.json is (damaged .*train from the start|not the manifest of a)"
    ):
        train(DATA, CONFIG, checkpoint=folder, resume=True)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("format_version", 99),
        ("record", [{"epoch": 1}]),
        ("record", [RECORD[0].to_dict() | {"loss": "low"}]),
        ("record", [RECORD[0].to_dict() | {"validation": [1]}]),
        ("record", 3),
        ("config", {"dimenson": 3}),
        ("config", {"dimension": 0}),
        ("best_epoch", 3),
        ("best_epoch", "last"),
        ("notes", None),
        ("files", {}),
    ],
)
def test_other_versions_and_values_are_refused(folder: Path, place: str, value: Any) -> None:
    write_manifest(folder, json.loads((folder / "manifest.json").read_text()) | {place: value})
    with pytest.raises(ArtifactError, match=r"train from the start$"):
        train(DATA, CONFIG, checkpoint=folder, resume=True)


def test_an_edited_manifest_is_refused(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"best_epoch": 0', '"best_epoch": 1'))
    with pytest.raises(ArtifactError, match=r"changed after it was written.*train from the start"):
        Checkpoint.load(folder)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("items_points", lambda array: array[:-1], "items_points is float32"),
        ("items_points", lambda array: array.astype(np.float64), "items_points is float64"),
        ("items_points", None, "items_points is missing"),
    ],
)
def test_arrays_that_do_not_fit_the_run_are_refused(folder: Path, name: str, change: Any, message: str) -> None:
    arrays = load_file(folder / ARRAYS)
    array = arrays.pop(name)
    save_file(arrays if change is None else arrays | {name: np.ascontiguousarray(change(array))}, folder / ARRAYS)
    manifest = json.loads((folder / "manifest.json").read_text())
    write_manifest(folder, manifest | {"files": {ARRAYS: checksum(folder / ARRAYS)}})
    with pytest.raises(ArtifactError, match=f"does not fit the run .{message}"):
        train(DATA, CONFIG, checkpoint=folder, resume=True)


def test_any_damage_ends_in_one_line(folder: Path) -> None:
    check_refusals(folder, ["manifest.json", ARRAYS], lambda: Checkpoint.load(folder), rounds=50)


def test_a_model_is_no_checkpoint(tmp_path: Path) -> None:
    train(DATA, CONFIG).save(tmp_path / "model")
    with pytest.raises(ArtifactError, match="is not the manifest of a checkpoint"):
        train(DATA, CONFIG, checkpoint=tmp_path / "model", resume=True)


def test_only_the_same_run_continues(folder: Path) -> None:
    with pytest.raises(ConfigError, match="made with epochs=2, not 3: set it back, or train without resume"):
        train(DATA, CONFIG.replace(epochs=3, learning_rate=0.5), checkpoint=folder, resume=True)
    with pytest.raises(ConfigError, match="belongs to other data: give the same data"):
        train(grouped(events=301), CONFIG, checkpoint=folder, resume=True)
    train(DATA, CONFIG.replace(threads=2), checkpoint=folder, resume=True)


def test_somebody_elses_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to grandmother").write_text("dear")
    with pytest.raises(InputError, match=r"letters holds files but no manifest\.json"):
        train(
            DATA,
            CONFIG,
            checkpoint=tmp_path / "letters",
            callbacks=[lambda epoch: pytest.fail("it began all the same")],
        )
    assert (tmp_path / "letters" / "to grandmother").read_text() == "dear"


def test_a_disk_that_is_full_costs_the_checkpoint_and_not_the_training(tmp_path: Path) -> None:
    """The process may write no file above one kilobyte, which fails as a full disk does."""
    script = tmp_path / "run.py"
    script.write_text(
        "import resource\n"
        "from tests.learning.grouped_data import grouped, quick\n"
        "from lorentzrec.learning import trainer\n"
        "trainer.train(grouped(), quick(epochs=1))  # the kernels are in their cache from here on\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))\n"
        f"model = trainer.train(grouped(), quick(), checkpoint={str(tmp_path / 'run')!r})\n"
        "print(len(model.record), *model.notes, sep='\\n')\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    epochs, *notes = done.stdout.splitlines()
    assert epochs == "4"
    (note,) = [line for line in notes if "checkpoint" in line]
    assert note.startswith("the checkpoint could not be written after epoch 1 (cannot write ")
    assert [line for line in done.stderr.splitlines() if "checkpoint" in line] == [f"{note}: training continues"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.py"], "nothing half-written remains"
