"""The commands of README, quickstart and the example shop run as they are printed, one after another."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lorentzrec.synthetic.shop import synthetic_shop
from tests.cli.command_line import run

ROOT = Path(__file__).parents[2]


def commands(page: str) -> list[list[str]]:
    """The arguments of every `lorentzrec ...` line in the shell blocks of a page."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("lorentzrec ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "examples/shop/README.md"])
def test_commands_of_the_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shop = synthetic_shop(customers=200, items=100, interactions=1_500)
    shop.events.write_csv("events.csv")
    shop.items.write_csv("items.csv")
    found = commands(page)
    assert len(found) >= 5
    for arguments in found:
        run(*arguments)
