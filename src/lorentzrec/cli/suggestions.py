"""The command that an error about event files asks for, to be copied."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields

from lorentzrec.cli.output import format_flag
from lorentzrec.errors import LorentzrecError
from lorentzrec.ingest.sources import Source


def suggest_command(arguments: Sequence[str], error: LorentzrecError) -> str:
    """The arguments with the options that an error names, as a command; empty if it names none, or leaves a choice.

    A column that only a person can name is COLUMN.
    """
    if not arguments or arguments[0] != "prepare" or error.leaves_choice:
        return ""
    known = {field.name for field in fields(Source)}
    added: dict[str, str] = {}
    for name, value in error.options:
        if name in known and (value is not None or name.endswith("_column")):
            added.setdefault(name, "COLUMN" if value is None else str(value))
    if not added:
        return ""
    options = [part for name, value in added.items() for part in (format_flag(name), value)]
    return shlex.join(["lorentzrec", *arguments, *options])
