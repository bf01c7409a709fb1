"""What commands print: the result on standard output, progress and notes on standard error."""

from __future__ import annotations

import json
import os
import re
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

WIDTH_OF_FILES = 120
"""Columns of a table that is not shown on a terminal, unless COLUMNS says otherwise."""


def printable(text: str) -> str:
    r"""The text with what a terminal would obey written out (`\x1b`): titles and ids may come from anybody."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


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
        _console(stderr=True).print(f"note: {sentence}", style="yellow", soft_wrap=True)


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
        made.add_row(*("" if cell is None else str(cell) for cell in row))
    return made


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
