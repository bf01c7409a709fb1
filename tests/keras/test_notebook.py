"""The notebook runs, and shows what a run shows."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "keras.ipynb"

pytestmark = pytest.mark.keras


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("tensorflow", "nbclient", "ipykernel", "tensorboard"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install {package}")
    import nbclient
    import nbformat

    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    found = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert found[-1][-1]["data"] == stored[-1][-1]["data"] == {"text/plain": "True"}
    assert found[1][-1]["data"] == stored[1][-1]["data"]
    assert any((tmp_path / "logs").rglob("events.out.tfevents*"))
