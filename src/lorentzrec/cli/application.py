"""All commands in the order of the help page, each with its examples; errors become exit codes here."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from lorentzrec._version import __version__
from lorentzrec.cli import end_by_signal
from lorentzrec.cli.arms import arms
from lorentzrec.cli.backtest import backtest
from lorentzrec.cli.compare import compare
from lorentzrec.cli.complete import complete
from lorentzrec.cli.daily import daily
from lorentzrec.cli.demo import demo
from lorentzrec.cli.evaluate import evaluate
from lorentzrec.cli.export import export
from lorentzrec.cli.options import complete_signature
from lorentzrec.cli.output import printable, with_flags
from lorentzrec.cli.plot import plot
from lorentzrec.cli.prepare import prepare
from lorentzrec.cli.publish import live, publish
from lorentzrec.cli.recommend import recommend, similar
from lorentzrec.cli.recommend_all import recommend_all
from lorentzrec.cli.rules import RULES
from lorentzrec.cli.serve import serve
from lorentzrec.cli.similar_all import similar_all
from lorentzrec.cli.stats import stats
from lorentzrec.cli.store import STORE
from lorentzrec.cli.suggestions import suggest_command
from lorentzrec.cli.synthesize import synthesize
from lorentzrec.cli.train import train
from lorentzrec.cli.tune import tune
from lorentzrec.cli.update import add_items, update
from lorentzrec.cli.warm_up import warm_up
from lorentzrec.errors import LorentzrecError

INTERRUPTED = 130
"""Typer's exit code for every `KeyboardInterrupt`."""

# Some versions of Typer depend on click and others contain a copy of it; this is the UsageError of either.
UsageError: type[Any] = typer.BadParameter.__mro__[1]


class PlainHelp:
    """Shows flags without a value. Typer prints `<bool>` behind its own, such as `--help`."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if getattr(one, "is_flag", False):
                one.metavar = ""
        return found


class Command(PlainHelp, TyperCommand):
    pass


class Group(PlainHelp, TyperGroup):
    pass


class Commands(Group):
    """The group of commands. An error that a user can cause is one line on standard error, without a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except UsageError as error:
            command = error.ctx.command_path if error.ctx else "lorentzrec"
            # Typer's words for a text that is no number are those of its parser.
            message = re.sub(r"Input should be a valid (\w+),.*", r"not a valid \1", error.format_message())
            variable = getattr(getattr(error, "param", None), "envvar", None)
            if variable and message.startswith("Missing "):
                message = f"{message.rstrip('.')}, and {variable} is not set"
            code = _fail(f"{message.rstrip('.')}: see {command} --help", error.exit_code)
        except LorentzrecError as error:
            given = options.get("args") or (args[0] if args else None) or sys.argv[1:]
            command = suggest_command([str(one) for one in given], error)
            code = _fail(f"{error}; try: {command}" if command else str(error), error.exit_code)
        except OSError as error:
            prefix = f"{error.filename}: " if error.filename else ""
            code = _fail(f"{prefix}{error.strerror or error}: check the path, the permissions and the disk", 2)
        except MemoryError:
            code = _fail("out of memory: use less data, or a machine with more memory", 1)
        if code == INTERRUPTED:
            code, line = end_by_signal()
            typer.secho(line, err=True, fg="yellow")
        sys.exit(code)


def _fail(message: str, code: int) -> int:
    typer.secho("error: ", err=True, fg="red", bold=True, nl=False)
    typer.echo(" ".join(with_flags(printable(message)).split()), err=True)
    return code


app = typer.Typer(
    cls=Commands,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback means a bug, and is for whoever fixes it
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[dim]First steps:[/] lorentzrec demo    [dim]More on one command:[/] lorentzrec train --help",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lorentzrec {__version__}")
        raise typer.Exit


ABOUT = """Recommender systems in hyperbolic space.

Results go to standard output, progress and notes to standard error; --json prints the result as JSON.

Exit codes: 0 success, 1 failure, 2 invalid input or options, 130 stopped by Ctrl-C, 143 stopped by SIGTERM."""


@app.callback(invoke_without_command=True, help=ABOUT)
def lorentzrec(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", metavar="", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


COMMANDS = {
    "Start here": (demo,),
    "Data": (prepare, stats, synthesize),
    "Models": (train, tune, evaluate, compare, add_items, update, backtest, warm_up, export, plot),
    "Recommendations": (recommend, similar, complete, recommend_all, similar_all),
    "Service": (daily, publish, arms, live, serve),
}
"""Panel of the help page -> its commands."""


GROUPS = {"Service": {"rules": RULES, "store": STORE}}
"""Panel of the help page -> its groups of commands, by name: what they do, and the commands."""


def _add(panel: str | None, command: Callable[..., None], group: typer.Typer = app) -> None:
    name, (text, examples) = command.__name__.replace("_", "-"), complete_signature(command)
    lines = "\n\n".join(f"[cyan]lorentzrec {example}[/]" for example in examples)
    group.command(name, cls=Command, help=text, rich_help_panel=panel, epilog=f"[bold]Examples[/]\n\n{lines}")(command)


def _add_group(panel: str, name: str, about: str, commands: Iterable[Callable[..., None]]) -> None:
    group = typer.Typer(cls=Group, rich_markup_mode="rich")

    @group.callback(invoke_without_command=True, help=about)
    def show_help(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    for command in commands:
        _add(None, command, group)
    app.add_typer(group, name=name, rich_help_panel=panel)


for panel, commands in COMMANDS.items():
    for command in commands:
        _add(panel, command)
    for name, group in GROUPS.get(panel, {}).items():
        _add_group(panel, name, *group)
for entry in sorted(entry_points(group="lorentzrec.commands")):
    _add(*entry.load())
