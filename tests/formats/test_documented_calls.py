"""What the documentation of 0.1 shows still works: every block of Python, and every command."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from pathlib import Path

import pytest

from cli.command_line import run
from lorentzrec.synthetic.shop import synthetic_shop

TEXT = (Path(__file__).parent / "0.1" / "documented_calls.md").read_text()
PAGES = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
FENCE = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOVED = {
    "lorentzrec.data.synthetic": "lorentzrec.data.synthetic has moved to lorentzrec.synthetic.shop: removed in 0.3",
    "lorentzrec.data.network": "lorentzrec.data.network has moved to lorentzrec.networks.statistics: removed in 0.3",
    "as_printed": "import einstein_midpoint_as_printed from lorentzrec_paper.midpoints: removed here in 0.3",
}
"""What an import contains -> the warning it leads to."""


def blocks(page: str, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(PAGES[page]) if kind == language]


@pytest.mark.parametrize("page", list(PAGES))
def test_python(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for name in MOVED:
        monkeypatch.delitem(sys.modules, name, raising=False)  # a module warns when it is first imported
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        for body in blocks(page, "python"):
            exec(compile(body, page, "exec", dont_inherit=True), namespace)
    ours = {str(warning.message) for warning in caught if "lorentzrec" in str(warning.message)}
    assert ours == {text for name, text in MOVED.items() if re.search(rf"import.*{name}|{name}.* import", PAGES[page])}


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_commands(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shop = synthetic_shop(customers=200, items=100, interactions=1_500)
    shop.events.write_csv("events.csv")
    shop.items.write_csv("items.csv")
    commands = [shlex.split(line, comments=True)[1:] for body in blocks(page, "sh") for line in body.splitlines()]
    assert len(commands) >= 8
    for arguments in commands:
        run(*arguments)
