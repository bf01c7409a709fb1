"""The bar that a person watches."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from lorentzrec.learning.progress import TrainingProgress
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from tests.learning.grouped_data import grouped, quick


def test_nothing_is_printed_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    train(grouped(events=300), quick(), progress=False)  # compiles the kernels, if this is the first test to run
    assert capfd.readouterr() == ("", "")


def test_a_script_gets_one_line_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    train(grouped(events=300), quick(), progress=False)
    train(grouped(events=300), quick(epochs=1))
    train(grouped(events=300), quick(epochs=2, negative_count=1000))
    out, shown = capfd.readouterr()
    assert out == ""
    assert [re.sub(r"\d+(\.\d)? s", "0 s", line) for line in shown.splitlines()] == [
        "trained 1 epoch in 0 s; 1 note: model.notes",
        "trained 2 epochs in 0 s; 2 notes: model.notes",
    ]


def test_a_default_is_no_note() -> None:
    data = grouped(events=300)
    assert TrainingConfig().resolve_for(data).negative_count > len(data.items)
    notes = train(data, quick(epochs=1), progress=False).notes
    assert [note for note in notes if "negative_count" in note] == []


@pytest.mark.parametrize("threads", [1, 2])
def test_settings_notes_and_epochs_are_shown(threads: int, capsys: pytest.CaptureFixture[str]) -> None:
    config = quick(validation=0.5, negative_count=1000, threads=threads)
    model = train(grouped(events=300), config, progress=True)
    out, shown = capsys.readouterr()
    assert out == ""
    flat = " ".join(shown.split())
    assert "geometry=hyperboloid" in flat
    assert "regularisation" not in flat, "only what matters most, and what was chosen"
    assert "history=causal" in flat, "what the data decided"
    assert "negative_count is 1000, more than the 60 items" in flat
    assert f"epoch {len(model.record)}/4" in flat
    last = model.record[-1].validation
    assert last is not None
    assert all(f"{name} {value:.4f}" in flat for name, value in last.items()), (
        "of the last epoch, not of the one before"
    )


def test_what_takes_long_is_announced_unless_progress_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    for shown, expected in ((None, "compiling\n"), (False, "")):
        with TrainingProgress(shown, 1, 1, done=0) as progress:
            progress.announce("compiling")
        assert capsys.readouterr() == ("", expected)
    with TrainingProgress(True, 1, 1, done=0) as progress:
        progress.announce("compiling")
    assert "compiling" in capsys.readouterr().err


def test_nothing_done_yet_is_no_loss(capsys: pytest.CaptureFixture[str]) -> None:
    """As on Spark, where an epoch begins with what an earlier run has done of it."""
    with TrainingProgress(True, 1, 4, done=0) as progress:
        progress.begin(1)
        progress.advance(0, 0.0)
        assert progress._bar.tasks[0].fields["loss"] == "-"
        progress.advance(2, 3.0)
        assert progress._bar.tasks[0].fields["loss"] == "1.5000"


@pytest.mark.parametrize("shown", [None, True])
def test_a_notebook_gets_plain_lines(
    shown: bool | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a Jupyter kernel, `get_ipython()` is a shell with a kernel; rich would require ipywidgets there."""
    notebook = ModuleType("IPython")
    notebook.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setattr("lorentzrec.learning.progress._SECONDS_BETWEEN_LINES", 0.0)
    model = train(grouped(events=300), quick(validation=0.5), progress=shown)
    lines = capsys.readouterr().out.splitlines()
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert [line.split()[1] for line in epochs] == [f"{epoch.epoch}/4" for epoch in model.record]
    assert all(f"loss {epoch.loss:.4f}" in line for epoch, line in zip(model.record, epochs, strict=True))
    assert "ndcg@10" in epochs[0]
    train(grouped(events=300), quick(), progress=False)
    assert capsys.readouterr() == ("", "")
