"""The table of docs/math.md leads somewhere: each equation has its row, and each function, kernel and test that a row
names exists. Whether a function computes the equation is for the test that the row names.

Names are looked up in the source, not imported, so that no kernel has to be compiled to be found.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "math.md").read_text()
HEADER = "| equation | function | kernel | test |"
NO_KERNEL = "-"
NO_FORMULA = {
    "lorentzrec.geometry.sums.find_weights",
    "lorentzrec.geometry.charts.gap_to_boundary",
    "lorentzrec.geometry.hyperboloid.require_points",
}


def require_rows(page: str) -> list[list[str]]:
    """The cells of the table under `HEADER`, without their back-ticks."""
    lines = page[page.index(HEADER) :].splitlines()[2:]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]


def names_in(source: Path) -> set[str]:
    """What a module defines at its top, and `Class.method` of what its classes do."""
    names = set()
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def exists(name: str) -> bool:
    """Whether `package.module.name` or `folder/file.py::name` is defined in this repository."""
    if "::" in name:
        file, _, member = name.partition("::")
        return (ROOT / file).is_file() and member in names_in(ROOT / file)
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        source = (ROOT / "src").joinpath(*parts[:split]).with_suffix(".py")
        if source.is_file():
            return ".".join(parts[split:]) in names_in(source)
    return False


def missing(rows: list[list[str]]) -> list[str]:
    """What the rows name that does not exist. Only a kernel may be left out."""
    kernels = [row[2] for row in rows if row[2] != NO_KERNEL]
    return [name for name in [*(row[1] for row in rows), *kernels, *(row[3] for row in rows)] if not exists(name)]


def test_every_name_in_the_table_exists() -> None:
    assert missing(require_rows(PAGE)) == []


def test_every_equation_has_its_row() -> None:
    equations = [int(number) for number in re.findall(r"\\tag\{(\d+)\}", PAGE)]
    numbered = [int(row[0][1:].partition(")")[0]) for row in require_rows(PAGE)]
    assert equations == list(range(1, len(equations) + 1))
    assert sorted(set(numbered)) == equations
    assert numbered == sorted(numbered)


@pytest.mark.parametrize("module", ["hyperboloid", "charts", "midpoint", "sums"])
def test_every_formula_of_the_geometry_has_its_row(module: str) -> None:
    """Functions of the Euclidean twin have the same names."""
    public = {name for name in names_in(ROOT / f"src/lorentzrec/geometry/{module}.py") if not name.startswith("_")}
    listed = {row[1] for row in require_rows(PAGE)}
    assert {f"lorentzrec.geometry.{module}.{name}" for name in public} - listed <= NO_FORMULA


def test_faults_in_a_table_are_seen() -> None:
    page = f"""
{HEADER}
|---|---|---|---|
| (1) good | `lorentzrec.geometry.hyperboloid.lift` | - | `tests/test_math_table.py::exists` |
| (2) also | `lorentzrec.data.vocabulary.Vocabulary.rows` | `lorentzrec.data.vocabulary.UNKNOWN` | - |
| (3) bad | `lorentzrec.geometry.hyperboloid.gone` | `lorentzrec.gone.kernel` | `tests/gone.py::test_gone` |
| (4) bad | `lorentzrec.data.vocabulary.Vocabulary.gone` | `lorentzrec.errors` | `tests/test_math_table.py::gone` |
"""
    assert missing(require_rows(page)) == [
        "lorentzrec.geometry.hyperboloid.gone",
        "lorentzrec.data.vocabulary.Vocabulary.gone",
        "lorentzrec.gone.kernel",
        "lorentzrec.errors",
        "-",
        "tests/gone.py::test_gone",
        "tests/test_math_table.py::gone",
    ]
