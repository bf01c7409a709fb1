"""What commands print: results on standard output, progress and notes on standard error."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from lorentzrec.errors import replace_options

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and newline, marks that change the direction of text, and surrogates."""
LONGEST_CELL = 200
"""Characters in a cell of a table; ids may be longer."""
WIDTH_OF_FILES = 120
"""Columns of a table that is not printed to a terminal, unless COLUMNS is set."""
_FLAGS = {
    "settings": "--set",
    "event_weights": "--event-weight",
    "label_events": "--label-event",
    "item_columns": "--item-field",
    "allowed_hosts": "--allow-host",
    "allowed_origins": "--allow-origin",
}
"""Options whose names on the command line differ from those in Python by more than dashes."""


def format_flag(name: str) -> str:
    """The option for a parameter or field: --time-column for `time_column`, -k for `k`."""
    return _FLAGS.get(name, ("--" if len(name) > 1 else "-") + name.replace("_", "-"))


def printable(text: str) -> str:
    r"""The text with control characters escaped (`\x1b`), since titles and ids may come from anywhere."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def with_flags(message: str) -> str:
    """A message of the library with its options as on the command line: --time-column for `time_column`."""

    def flag(name: str, value: str | int | None) -> str:
        return format_flag(name) + ("" if value is None else f" {shlex.quote(str(value))}")

    return replace_options(message, flag)


def print_json(result: Any) -> None:
    """Print the result for a program."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    # Only strings can contain such characters, and JSON has an escape for them.
    typer.echo(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def show(*parts: RenderableType) -> None:
    """Print the result for a person: text and tables."""
    console = _console(stderr=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


def say(text: str) -> None:
    """Print a line of progress, which is not part of the result."""
    _console(stderr=True).print(text, soft_wrap=True)


def print_result(data: Any, *shown: RenderableType, json: bool, notes: Iterable[str] = ()) -> None:
    """Print the result of a command: `data` as JSON for a program, or `shown` for a person; in any case the notes."""
    if json:
        print_json(data)
    else:
        show(*shown)
    note(notes)


def note(sentences: Iterable[str]) -> None:
    """Print what a reader of the result should know."""
    for sentence in sentences:
        _console(stderr=True).print(f"note: {with_flags(sentence)}", style="yellow", soft_wrap=True)


def table(columns: Mapping[str, str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> Table:
    """`columns`: heading -> "left" or "right", optionally with a style: "right bold". With "whole" at the end, cells
    are not broken into several lines."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for heading, look in columns.items():
        side, _, style = look.removesuffix(" whole").partition(" ")
        made.add_column(
            heading,
            justify="right" if side == "right" else "left",
            style=style,
            overflow="fold",
            no_wrap=look.endswith(" whole"),
        )
    for row in rows:
        cells = ["" if cell is None else str(cell) for cell in row]
        made.add_row(*(cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "..." for cell in cells))
    return made


@contextmanager
def working(text: str) -> Iterator[None]:
    """Print what is being done; on a terminal, with a spinner until it is done."""
    if sys.stderr.isatty():
        with _console(stderr=True).status(text):
            yield
    else:
        say(text)
        yield


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar on standard error, if that is a terminal; call the function with how much of `total` is done."""
    with stages(announced=False) as report:
        yield lambda done: report(what, done / total if total else 0)


@contextmanager
def stages(*, announced: bool = True) -> Iterator[Callable[[str, float], None]]:
    """One bar after another: call the function with what is being done, and what share of it is done.

    `announced`: print a line for each if standard error is not a terminal.
    """
    from rich.progress import Progress

    shown = sys.stderr.isatty()
    with Progress(console=_console(stderr=True), disable=not shown, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=None if share == 0 else 1.0)
                if announced and not shown:
                    say(what)
            bar.update(tasks[what], completed=share, total=None if share == 0 else 1.0)

        yield report


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_OF_FILES
    return _console_type()(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


@cache
def _console_type() -> type[Console]:
    from rich.console import Console
    from rich.text import Text

    class PrintableConsole(Console):
        """A console that escapes control characters in all text, in lines and in tables."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PrintableConsole
