"""The notebooks run, and end as they did when their output was stored; that of Keras has its own test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_marks import SPARK_MARKS

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = ["quickstart", "your_own_csv", "geometry", "tune_and_compare", "daily_update", "serving"]
ON_SPARK = pytest.param("spark", marks=SPARK_MARKS)


def test_every_notebook_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ipynb")} == {*NAMES, "spark", "keras"}


@pytest.mark.parametrize("name", [*NAMES, ON_SPARK])
def test_the_notebook_runs(name: str, tmp_path: Path) -> None:
    for package in ("nbclient", "ipykernel", "matplotlib", "litestar", "optuna"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install {package}")
    import nbclient
    import nbformat

    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    stored = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    found = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    assert found[-1][-1]["data"] == stored[-1][-1]["data"] == {"text/plain": "True"}
    kinds = [{kind for output in outputs for kind in output.get("data", {})} for outputs in stored]
    assert kinds == [{kind for output in outputs for kind in output.get("data", {})} for outputs in found]
