"""What commands print: the result on standard output, progress and notes on standard error."""

from __future__ import annotations

import ast
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

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line end, what turns the direction of writing, and what is no character at all."""
LONGEST_CELL = 200
"""Characters of a cell of a table; ids may be longer."""

WIDTH_OF_FILES = 120
"""Columns of a table that is not shown on a terminal, unless COLUMNS says otherwise."""


_FLAGS = {"event_weights": "--event-weight", "label_events": "--label-event", "item_columns": "--item-field"}
"""Options whose names on the command line differ from those in Python by more than dashes."""


def printable(text: str) -> str:
    r"""The text with what a terminal would obey written out (`\x1b`): titles and ids may come from anybody."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def with_flags(message: str) -> str:
    """A message of the library with its options as the command line has them: `time_column` is --time-column."""

    def flag(found: re.Match[str]) -> str:
        name, value = found.groups()
        shown = _FLAGS.get(name, "--" + name.replace("_", "-"))
        return shown if value is None else f"{shown} {shlex.quote(str(ast.literal_eval(value)))}"

    return re.sub(r"`([a-z]+(?:_[a-z]+)*)(?:=('[^`']*'|\"[^`\"]*\"|\d+))?`", flag, message)


def print_json(result: Any) -> None:
    """The result for a program."""
    text = json.dumps(result, indent=2, ensure_ascii=False)
    # Only strings can hold such characters, and there JSON has an escape of its own for them.
    typer.echo(_OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def show(*parts: RenderableType) -> None:
    """The result for a person: text and tables. Ids and titles may hold anything: see `printable`."""
    console = _console(stderr=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


def say(text: str) -> None:
    """A line about what is going on, beside the result."""
    _console(stderr=True).print(text, soft_wrap=True)


def note(sentences: Iterable[str]) -> None:
    """Sentences that a reader of the result should know."""
    for sentence in sentences:
        _console(stderr=True).print(f"note: {with_flags(sentence)}", style="yellow", soft_wrap=True)


def table(columns: Mapping[str, str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> Table:
    """`columns`: heading -> "left" or "right", perhaps with a style: "right bold"."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for heading, look in columns.items():
        side, _, style = look.partition(" ")
        made.add_column(heading, justify="right" if side == "right" else "left", style=style, overflow="fold")
    for row in rows:
        made.add_row(*("" if cell is None else _cut(str(cell)) for cell in row))
    return made


def _cut(cell: str) -> str:
    return cell if len(cell) <= LONGEST_CELL else cell[:LONGEST_CELL] + "..."


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say what is being done; on a terminal, with something that moves until it is."""
    if sys.stderr.isatty():
        with _console(stderr=True).status(text):
            yield
    else:
        say(text)
        yield


@contextmanager
def progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """A bar on standard error, if that is a terminal; the function given says how much of `total` is done."""
    from rich.progress import Progress

    with Progress(console=_console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def steps(text: str, names: Sequence[str]) -> Iterator[Callable[[str], None]]:
    """A bar over named steps, or one line without a terminal; the function given is called when a step begins."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if not sys.stderr.isatty():
        say(f"{text} ...")
        yield lambda name: None
        return
    looks = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*looks, console=_console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=len(names))
        yield lambda name: bar.update(task, completed=names.index(name), description=f"{text}: {name}")


@contextmanager
def stages() -> Iterator[Callable[[str, float], None]]:
    """One bar after another: the function given says what is being done, and what share of it is."""
    from rich.progress import Progress

    shown = sys.stderr.isatty()
    with Progress(console=_console(stderr=True), disable=not shown, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def tell(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=None if share == 0 else 1.0)
                if not shown:
                    say(what)
            bar.update(tasks[what], completed=share, total=None if share == 0 else 1.0)

        yield tell


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_OF_FILES
    return _console_type()(stderr=stderr, width=width, markup=False, highlight=False, emoji=False)


@cache
def _console_type() -> type[Console]:
    from rich.console import Console
    from rich.text import Text

    class PrintableConsole(Console):
        """A console that prints every text, in lines and in tables, without the control characters in it."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    return PrintableConsole
