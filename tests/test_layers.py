"""The shape of the package: who may import whom, and how large or vague a file may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "lorentzrec"
LAYERS = (
    "errors",
    "atomic",
    "manifest",
    "vocabulary",
    "geometry",
    "data",
    "ranking",
    "evaluation",
    "learning",
    "scale",
    "reduction",
    "figures",
    "experiments",
    "serving",
    "cli",
)
"""A module imports only from its own layer and from those before it; the package's `__init__` stands outside."""
NEVER_SERVED = (f"{PACKAGE}.learning.trainer", f"{PACKAGE}.learning.kernels", "numba")
VAGUE_NAMES = {"utils.py", "common.py", "helpers.py", "base.py"}
LONGEST_FILE = 500


def imports_of_tree(folder: Path) -> dict[str, set[str]]:
    """For each module of the package in `folder`, what it imports anywhere: at the top, in functions, for types."""
    paths = {}
    for path in sorted((folder / PACKAGE).rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {module: set(_imports(module, path, set(paths))) for module, path in paths.items()}


def _imports(module: str, path: Path, known: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                source = ".".join([*package[: len(package) - node.level + 1], *filter(None, [source])])
            for alias in node.names:
                name = f"{source}.{alias.name}"
                yield name if name in known or (source == PACKAGE and alias.name != "__version__") else source


def layer_faults(imports: dict[str, set[str]]) -> list[str]:
    """One line for every import that goes up, or that takes a name from the package instead of from its module."""
    faults = []
    for module, imported in imports.items():
        if module == PACKAGE:
            continue
        own = module.split(".")[1]
        if own not in LAYERS:
            faults.append(f"{module} belongs to no layer")
            continue
        for other in sorted(imported):
            if not other.startswith(f"{PACKAGE}."):
                continue
            theirs = other.split(".")[1]
            if theirs not in LAYERS:
                faults.append(f"{module} imports {other}, which is in no layer")
            elif LAYERS.index(theirs) > LAYERS.index(own):
                faults.append(f"{module} imports {other}, which is above it")
    return faults


def served_path(imports: dict[str, set[str]]) -> list[str]:
    """The imports that lead from a module of `serving` to one it must never load; empty if there are none."""
    waiting = [[module] for module in imports if module.startswith(f"{PACKAGE}.serving")]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if any(f"{path[-1]}.".startswith(f"{name}.") for name in NEVER_SERVED):
            return path
        parent = path[-1].rpartition(".")[0]
        for other in sorted((imports.get(path[-1], set()) | {parent}) - seen - {PACKAGE}):
            seen.add(other)
            waiting.append([*path, other])
    return []


def write_tree(folder: Path, files: dict[str, str]) -> dict[str, set[str]]:
    for name, text in files.items():
        path = folder / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return imports_of_tree(folder)


def test_imports_go_down() -> None:
    assert layer_faults(imports_of_tree(ROOT / "src")) == []


def test_serving_never_reaches_the_trainer() -> None:
    assert served_path(imports_of_tree(ROOT / "src")) == []


@pytest.mark.parametrize(
    "statement",
    [
        "from lorentzrec.learning.model import Model",
        "from lorentzrec.learning import model",
        "from lorentzrec import learning",
        "from lorentzrec import Model",
        "import lorentzrec.learning.model as model",
        "from ..learning.model import Model",
        "from .. import learning",
        "def late():\n    from lorentzrec.learning.model import Model",
        "if TYPE_CHECKING:\n    from lorentzrec.learning.model import Model",
    ],
)
def test_every_way_up_is_seen(tmp_path: Path, statement: str) -> None:
    files = {"data/dataset.py": statement, "learning/__init__.py": "", "learning/model.py": "", "data/__init__.py": ""}
    (fault,) = layer_faults(write_tree(tmp_path, files))
    assert fault.startswith("lorentzrec.data.dataset imports lorentzrec.")


def test_ways_down_and_sideways_are_allowed(tmp_path: Path) -> None:
    statements = [
        "import numpy",
        "from lorentzrec import __version__",
        "from lorentzrec.errors import InputError",
        "from lorentzrec.learning.model import Model",
        "from .model import Model",
    ]
    files = {"learning/artifact.py": "\n".join(statements), "learning/model.py": "", "errors.py": ""}
    assert layer_faults(write_tree(tmp_path, files)) == []


def test_a_module_outside_the_layers_is_seen(tmp_path: Path) -> None:
    assert layer_faults(write_tree(tmp_path, {"misc.py": ""})) == ["lorentzrec.misc belongs to no layer"]


@pytest.mark.parametrize(
    ("place", "statement", "steps"),
    [
        ("learning/model.py", "def late():\n    from numba import njit", ["numba"]),
        ("learning/model.py", "from .kernels.steps import dot", ["lorentzrec.learning.kernels.steps"]),
        ("learning/__init__.py", "from .trainer import train", ["lorentzrec.learning", "lorentzrec.learning.trainer"]),
    ],
)
def test_a_long_way_to_the_trainer_is_seen(tmp_path: Path, place: str, statement: str, steps: list[str]) -> None:
    files = {"serving/app.py": "from lorentzrec.learning.model import Model"}
    files |= dict.fromkeys(("__init__.py", "learning/__init__.py", "learning/model.py"), "")
    files |= dict.fromkeys(("learning/kernels/steps.py", "learning/trainer.py"), "") | {place: statement}
    assert served_path(write_tree(tmp_path, files)) == ["lorentzrec.serving.app", "lorentzrec.learning.model", *steps]


def source_files() -> list[Path]:
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "examples")]
    found = [path for folder in folders for kind in ("*.py", "*.js") for path in folder.rglob(kind)]
    return [path for path in found if "node_modules" not in path.parts]


def test_files_are_named_by_what_they_hold() -> None:
    assert [path for path in source_files() if path.name in VAGUE_NAMES] == []


def test_files_are_short() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in source_files()}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}
