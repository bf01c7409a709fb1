"""The command that an error about event files asks for, to be copied."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import fields

from lorentzrec.cli.output import format_flag
from lorentzrec.errors import find_options
from lorentzrec.ingest.sources import Source

_ALTERNATIVE = re.compile(r"`[^`]*` or `[^`]*`")


def suggest_command(arguments: Sequence[str], message: str) -> str:
    """The arguments with the options that a message of the library names, as a command; empty if it names none.

    Empty also where the message leaves a choice between two options: only a person knows which of them is true. A
    column that only a person can name is COLUMN.
    """
    if not arguments or arguments[0] != "prepare" or _ALTERNATIVE.search(message):
        return ""
    known = {field.name for field in fields(Source)}
    added: dict[str, str] = {}
    for name, value in find_options(message):
        if name in known and (value is not None or name.endswith("_column")):
            added.setdefault(name, "COLUMN" if value is None else str(value))
    if not added:
        return ""
    options = [part for name, value in added.items() for part in (format_flag(name), value)]
    return shlex.join(["lorentzrec", *arguments, *options])
