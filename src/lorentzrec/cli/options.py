"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer


def _file_option(help: str) -> Any:
    return typer.Option(help=help, rich_help_panel="Event files")


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
ModelFolder: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")]
Count: TypeAlias = Annotated[int, typer.Option("-k", help="How many items.")]
TitlesFrom: TypeAlias = Annotated[
    str | None, typer.Option(help="Where item titles are: a dataset, or a file with columns item and title.")
]
Reader: TypeAlias = Annotated[
    str | None,
    _file_option("The layout of a well-known data set: movielens-1m, amazon-reviews, recbole, adjacency, ..."),
]
UserColumn: TypeAlias = Annotated[str | None, _file_option("Column of the customer, if not user.")]
ItemColumn: TypeAlias = Annotated[str | None, _file_option("Column of the item, if not item.")]
TimeColumn: TypeAlias = Annotated[str | None, _file_option("Column of the time, if not time: unix seconds, or dates.")]
WeightColumn: TypeAlias = Annotated[str | None, _file_option("Column of the weight, if not weight.")]
