"""The search for mannerisms finds them, with file, line and replacement."""

from __future__ import annotations

from pathlib import Path

from tests.prose import find_mannerisms


def test_words_are_found_with_file_line_and_replacement(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "package"
    folder.mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Title\n\nTrain it Anew, beside the twin.\n")
    (folder / "module.py").write_text('"""The client is\n    # told the rest."""\n\ndef mend_row(): ...\n')
    (folder / "fine.py").write_text('"""Recommend, amend, besides, also: told you so. A man, ewer."""\n')
    (folder / "data.parquet").write_bytes(b"\xff anew")
    (tmp_path / "node_modules").mkdir()
    assert [str(one) for one in find_mannerisms(tmp_path)] == [
        'README.md:3: "Anew": write again',
        'README.md:3: "beside": write next to, compared with, in addition to',
        'src/package/module.py:1: "is told": write is passed, receives, is reported',
        'src/package/module.py:4: "mend": write fix',
    ]
