"""The package from outside: quick to import, with every public name in its place."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import lorentzrec
from lorentzrec.data.readers import READERS, find_reader

ROOT = Path(__file__).parents[1]

HEAVY = {"matplotlib", "narwhals", "numba", "pandas", "polars", "scipy"}
"""What `import lorentzrec` must not load: the sum of their import times is what users of such packages wait for."""


def modules_after(statement: str, depth: int = 1) -> set[str]:
    """The modules loaded in a fresh interpreter after one statement, by the first `depth` parts of their names."""
    code = f"import sys; {statement}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {".".join(name.split(".")[:depth]) for name in run.stdout.split()}


def test_import_loads_nothing_heavy() -> None:
    assert modules_after("import lorentzrec") & HEAVY == set()


def test_the_measure_sees_what_is_loaded() -> None:
    assert "scipy" in modules_after("import lorentzrec, scipy.sparse")


def test_data_loads_what_reads_files_on_first_use() -> None:
    imported = "from lorentzrec.data.interactions import Interactions"
    used = "Interactions.from_frame(__import__('polars').DataFrame({'user': [1], 'item': [2]}))"
    assert "lorentzrec.ingest" not in modules_after(imported, 2)
    assert "lorentzrec.ingest" in modules_after(f"{imported}; {used}", 2)
    assert all(map(find_reader, READERS))
    assert all(hasattr(lorentzrec.Interactions, method) for method in READERS)


def test_version() -> None:
    assert len([int(part) for part in lorentzrec.__version__.split(".")]) == 3
    assert f"\nversion: {lorentzrec.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    for folder in ("clients/typescript", "examples/shop"):
        package, lock = (
            json.loads((ROOT / folder / name).read_text()) for name in ("package.json", "package-lock.json")
        )
        found = {package["version"], lock["version"], *(one["version"] for one in own_packages(lock))}
        assert found == {lorentzrec.__version__}, folder
    named = re.findall(r"lorentzrec-(\d[\d.]*\d)\.tar", (ROOT / "docs" / "quickstart.md").read_text())
    assert set(named) == {lorentzrec.__version__}


def own_packages(lock: dict[str, Any]) -> list[dict[str, Any]]:
    """The packages of this repository in a lock file."""
    return [one for one in lock["packages"].values() if str(one.get("name", "")).startswith("lorentzrec-")]


def test_hints_name_extras_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"(?:how_to_install|require_extra)\(['\"](\w+)", source)) | set(
        re.findall(r"lorentzrec\[(\w+)\]", source)
    )
    assert len(named) >= 8
    assert named <= set(extras)


@pytest.mark.parametrize("name", lorentzrec.__all__)
def test_public_names_resolve(name: str) -> None:
    assert getattr(lorentzrec, name) is not None
    assert name in dir(lorentzrec)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        lorentzrec.trian  # noqa: B018
