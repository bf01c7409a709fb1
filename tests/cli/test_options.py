"""Options are generated from signatures: all have help, and shells complete them. docs/commands.md lists them, and
tests/test_site.py notices a change of a name or a default."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import typer

from lorentzrec.cli.application import app
from lorentzrec.cli.options import complete_signature, field_options
from lorentzrec.synthetic.config import SyntheticConfig


def parameters() -> list[tuple[str, Any]]:
    """The parameters of all commands; those of a group are named "GROUP NAME"."""
    top: Any = typer.main.get_command(app)
    found = [(name, one) for name, command in top.commands.items() for one in command.params]
    groups = {name: command.commands for name, command in top.commands.items() if hasattr(command, "commands")}
    inner = [(f"{group} {name}", command) for group, members in groups.items() for name, command in members.items()]
    return found + [(name, one) for name, command in inner for one in command.params]


def test_every_option_has_help() -> None:
    assert [(name, one.name) for name, one in parameters() if not one.help] == []


def test_a_command_is_described_by_its_signature_and_docstring() -> None:
    @field_options(SyntheticConfig, "Shop", ("customers", ..., "space"))
    def open_shop(street: str, *, k: int = 3, dry_run: bool = False, doors: bool = True, **shop: Any) -> None:
        """Open a shop.

        It stays
        open.

        $ lorentzrec open-shop Elm

        street NAME: Where
            it is.
        dry_run: Only pretend.
        """

    text, examples = complete_signature(open_shop)
    assert text == "Open a shop.\n\nIt stays open."
    assert examples == ["open-shop Elm"]
    small = typer.Typer(add_completion=False)
    small.command()(open_shop)
    command: Any = typer.main.get_command(small)
    assert [(one.opts, one.secondary_opts, one.default) for one in command.params] == [
        (["street"], [], None),
        (["-k"], [], 3),
        (["--dry-run"], [], False),
        (["--doors"], ["--no-doors"], True),
        (["--customers"], [], 3000),
        (["--items"], [], 1000),
        (["--interactions"], [], 60000),
        (["--space"], [], "hyperbolic"),
    ]
    assert (command.params[0].metavar, command.params[0].help) == ("NAME", "Where it is.")
    assert command.params[2].metavar == "", "a flag takes no value"
    assert (command.params[-1].metavar, command.params[-1].rich_help_panel) == ("hyperbolic|flat", "Shop")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("train shop --set memory", ["memory=", "memory_neighbours="]),
        ("prepare events.csv --split leave", ["leave_last_out", "leave_last_two", "leave_last_order_out"]),
        ("prepare events.csv --reader sas", ["sasrec"]),
        ("compare shop --systems implicit", ["implicit-als", "implicit-bpr"]),
    ],
)
def test_shells_complete_names(words: str, expected: list[str]) -> None:
    given = {"_LORENTZREC_COMPLETE": "complete_bash", "COMP_WORDS": f"lorentzrec {words}"}
    given["COMP_CWORD"] = str(len(words.split()))
    command = [sys.executable, "-m", "lorentzrec"]
    found = subprocess.run(command, env=os.environ | given, capture_output=True, text=True)
    assert found.stdout.split() == expected, found.stderr
