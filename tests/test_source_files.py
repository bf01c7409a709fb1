"""Files are named by what they contain, stay short, and are in plain English. import-linter checks imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prose import find_mannerisms

ROOT = Path(__file__).parents[1]
VAGUE_NAMES = {"utils.py", "common.py", "helpers.py", "base.py"}
LONGEST_FILE = 700
GENERATED = {"node_modules", "dist", "schema.ts"}


def source_files() -> list[Path]:
    folders = [ROOT / name for name in ("src", "tests", "benchmarks", "clients", "examples")]
    found = [path for folder in folders for kind in ("*.py", "*.js", "*.ts") for path in folder.rglob(kind)]
    return [path for path in found if not GENERATED & set(path.parts)]


def test_files_are_named_by_what_they_contain() -> None:
    assert [path for path in source_files() if path.name in VAGUE_NAMES] == []


def test_files_are_short() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in source_files()}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_prose_is_plain() -> None:
    if found := find_mannerisms(ROOT):
        pytest.fail("\n".join(map(str, found)), pytrace=False)
