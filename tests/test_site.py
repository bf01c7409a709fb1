"""The documentation site builds without a warning, lists every public name, and has the settings of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import lorentzrec

ROOT = Path(__file__).parents[1]


def test_the_site_builds_without_warnings_and_lists_every_public_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(tmp_path)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert build.returncode == 0, build.stderr
    reference = (tmp_path / "reference.html").read_text()
    listed = set(re.findall(r'id="lorentzrec\.(?:errors\.)?(\w+)"', reference))
    assert set(lorentzrec.__all__) - listed == {"__version__"}


def test_the_page_of_settings_is_up_to_date() -> None:
    code = "from settings_page import settings_page; print(settings_page(), end='')"
    page = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "docs", capture_output=True, text=True, check=True)
    assert page.stdout == (ROOT / "docs" / "settings.md").read_text(), "run: python docs/settings_page.py"
