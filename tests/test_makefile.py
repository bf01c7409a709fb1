"""`make quick` names every folder that it leaves out, and a part that does not exist is one line."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What make would run, and its exit code, whatever make the tests themselves were started by."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    command = ["make", "--dry-run", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_every_folder_is_quick_or_named_as_left_out() -> None:
    *_, named, command = plan("quick").stdout.splitlines()
    quick = re.findall(r"tests/(\w+)", command)
    left_out = named.removeprefix('echo "').partition(".")[0].split()
    assert sorted(quick + left_out) == sorted({path.parent.name for path in ROOT.glob("tests/*/test_*.py")})


def test_a_part_is_a_folder_or_a_file() -> None:
    for part, found in {
        "points": "tests/points",
        "frames": "tests/test_frames.py",
        "tests/prose.py": "tests/prose.py",
    }.items():
        assert plan("test", f"PART={part}").stdout.splitlines()[-1].endswith(f" {found}")


def test_an_unknown_part_is_one_line_before_anything_is_installed(tmp_path: Path) -> None:
    ended = plan("test", "PART=modell", f"VENV={tmp_path / 'venv'}")
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert "there is no folder or file PART=modell in tests: give one of" in line


def test_an_installation_names_its_size(tmp_path: Path) -> None:
    first = plan("demo", f"VENV={tmp_path / 'venv'}").stdout.splitlines()[0]
    assert re.search(r"Installing lorentzrec\[plots,serve\] into .*, once: 0\.9 GB on disk", first)
