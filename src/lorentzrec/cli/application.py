"""All commands in the order of the help page, each with its examples; errors become exit codes here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lorentzrec._version import __version__
from lorentzrec.cli.bench import bench
from lorentzrec.cli.compare import compare
from lorentzrec.cli.demo import demo
from lorentzrec.cli.evaluate import evaluate
from lorentzrec.cli.export import export
from lorentzrec.cli.options import complete_signature
from lorentzrec.cli.output import printable, with_flags
from lorentzrec.cli.plot import plot
from lorentzrec.cli.prepare import prepare
from lorentzrec.cli.publish import live, publish
from lorentzrec.cli.recommend import recommend, recommend_all, similar
from lorentzrec.cli.serve import serve
from lorentzrec.cli.stats import stats
from lorentzrec.cli.synthesize import synthesize
from lorentzrec.cli.train import train
from lorentzrec.cli.tune import tune
from lorentzrec.cli.warm_up import warm_up
from lorentzrec.errors import LorentzrecError

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 plus the number of the signal, as in shells."""

# Some versions of Typer depend on click and others contain a copy of it; this is the UsageError of either.
UsageError: type[Any] = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """The group of commands. An error that a user can cause is one line on standard error, without a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            code = super().main(*args, **options | {"standalone_mode": False})
        except UsageError as error:
            code = _fail(f"{error.format_message().rstrip('.')}: see {_help_command(error)}", error.exit_code)
        except LorentzrecError as error:
            code = _fail(str(error), error.exit_code)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            code = _fail(f"{place}{error.strerror or error}: check the path, the permissions and the disk", 2)
        except MemoryError:
            code = _fail("out of memory: use less data, or a machine with more memory", 1)
        if code == INTERRUPTED:  # Typer's exit code for Ctrl-C
            typer.secho("stopped by Ctrl-C", err=True, fg="yellow")
        sys.exit(code)


def _fail(message: str, code: int) -> int:
    message = printable(message)
    typer.secho("error: ", err=True, fg="red", bold=True, nl=False)
    typer.echo(" ".join(with_flags(message).split()), err=True)
    return code


def _help_command(error: Any) -> str:
    return f"{error.ctx.command_path if error.ctx else 'lorentzrec'} --help"


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
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _add(panel: str, command: Callable[..., None], *examples: str) -> None:
    lines = "\n\n".join(f"[cyan]lorentzrec {example}[/]" for example in examples)
    name, text = command.__name__.replace("_", "-"), complete_signature(command)
    app.command(name, help=text, rich_help_panel=panel, epilog=f"[bold]Examples[/]\n\n{lines}")(command)


_add("Start here", demo, "demo", "demo --out my-demo")
_add(
    "Data",
    prepare,
    "prepare events.csv --out shop --split leave_last_out",
    "prepare 'logs/*.parquet' --out shop --user-column customer --item-column sku --minimum-user-events 5",
    "prepare ml-1m --reader movielens-1m --items ml-1m --out films --minimum-rating 4 --split leave_last_two",
    "prepare az://container/events --out az://container/shop --split last_days:days=14",
)
_add("Data", stats, "stats shop", "stats shop films --plot degrees.pdf", "stats events.csv --trials 0 --json")
_add(
    "Data",
    synthesize,
    "synthesize --out pretend",
    "synthesize --out large --customers 1000000 --items 100000 --interactions 20000000",
)
_add(
    "Models",
    train,
    "train shop --out model",
    "train events.csv --out model --user-column customer --item-column sku --set dimension=64 --set seed=7",
    "train shop --out twin --set geometry=euclidean",
    "train shop --out model --config settings.toml --resume",
)
_add(
    "Models",
    tune,
    "tune shop",
    "tune shop --trials 60 --metric recall@20 --set dimension=64 --parallel 2",
    "tune shop --geometry hyperboloid --time 3600",
)
_add(
    "Models",
    evaluate,
    "evaluate model shop",
    "evaluate model shop -k 10 -k 20 --baselines",
    "evaluate model later-events.csv --users 10000 --json",
)
_add(
    "Models",
    compare,
    "compare shop",
    "compare shop --seeds 5 --config hyperboloid=shop-tuning/hyperboloid.toml "
    "--config euclidean=shop-tuning/euclidean.toml --tune-baselines",
    "compare shop --systems hyperboloid --systems item-knn --metric recall@20",
)
_add("Models", warm_up, "warm-up", "warm-up --set model=symmetric --set loss=bpr")
_add("Models", export, "export model --out points.parquet", "export model --to npz --out points.npz")
_add(
    "Models",
    plot,
    "plot disk model --out disk.png --items shop",
    "plot disk model --out disk.pdf --items items.csv --customers 50 --labels 20",
    "plot disk model --out disk.svg --method neighbours",
)
_add(
    "Recommendations",
    recommend,
    "recommend model --history sku-1,sku-9",
    "recommend model --user u-17 -k 20 --titles shop",
    "recommend model --history @basket.txt --items @in-stock.txt --json",
)
_add("Recommendations", similar, "similar model sku-1 -k 5 --titles items.csv")
_add("Recommendations", recommend_all, "recommend-all model --out recommendations.parquet -k 10")
_add(
    "Service",
    publish,
    "publish model --to file:store --items shop --twin twin --histories",
    "publish model --to postgresql://shop@db/recommendations --keep 5",
    "publish --to file:store --rollback",
)
_add(
    "Service",
    live,
    "live file:store --set in-stock.txt",
    "live file:store --add sku-1,sku-9 --remove sku-4",
    "live file:store",
)
_add(
    "Service",
    serve,
    "serve file:store",
    "serve postgresql://shop@db/recommendations --host 0.0.0.0 --workers 4 --api-key-file keys.txt --log-format json",
)
_add("Measurements", bench, "bench", "bench start ranking --quick")
for entry in sorted(entry_points(group="lorentzrec.commands")):
    _add(*entry.load())
