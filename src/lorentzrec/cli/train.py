"""`lorentzrec train`: events in, a model out."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.atomic import MARKER
from lorentzrec.cli.events import dataset_at, events_at, parts_of
from lorentzrec.cli.options import ItemColumn, Json, Reader, TimeColumn, UserColumn, WeightColumn
from lorentzrec.cli.output import note, print_json, say, show, table
from lorentzrec.cli.targets import refuse_unwritable
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from lorentzrec.data.interactions import Interactions
    from lorentzrec.learning.model import Model

EPOCHS_SHOWN = 10


def _show_settings(asked: bool) -> None:
    """The hyper-parameters as their only owner knows them."""
    if not asked:
        return
    from lorentzrec.learning.config import TrainingConfig

    rows = [
        (field.name, re.sub(r"Literal\[|\]|'| \| None", "", str(field.type)), repr(field.default).strip("'"))
        for field in fields(TrainingConfig)
    ]
    show(table({"name": "left bold", "values": "left", "default": "left"}, rows))
    show("None: decided from the data when training starts, or no limit")
    raise typer.Exit


def train(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A dataset, or event files: CSV, JSON lines, Parquet."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")],
    config: Annotated[Path | None, typer.Option(help="TOML file of hyper-parameters: name = value.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A hyper-parameter; may be given again."),
    ] = None,
    list_settings: Annotated[
        bool,
        typer.Option(
            "--list-settings", callback=_show_settings, is_eager=True, help="Show all hyper-parameters and exit."
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of a stopped run.")] = False,
    reader: Reader = None,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    time_column: TimeColumn = None,
    weight_column: WeightColumn = None,
    json: Json = False,
) -> None:
    """Learn a point for each item.

    Of a dataset with parts, the training part is learned from, and the validation part, if there is one, chooses the
    best epoch. Of event files all events are learned from: to hold some out, prepare a dataset with --split first.

    Ctrl-C ends training and saves the model so far. While training runs, a checkpoint stands beside the model.
    """
    from lorentzrec.learning.config import TrainingConfig
    from lorentzrec.learning.trainer import train as learn

    chosen = TrainingConfig() if config is None else TrainingConfig.from_toml(config)
    chosen = chosen.with_settings(settings or [])
    refuse_unwritable(out, "lorentzrec model")
    replaces = (out / MARKER).exists()
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    if checkpoint.exists() and not resume:
        raise InputError(f"{checkpoint} is left from a run that was stopped: add --resume to go on, or remove it")
    events, validation = _parts(
        data,
        reader=reader,
        user_column=user_column,
        item_column=item_column,
        time_column=time_column,
        weight_column=weight_column,
    )
    if not sys.stderr.isatty():  # on a terminal, the progress bar says these things itself
        resolved = chosen.resolve_for(events)
        say(f"training on {events!r}")
        say(", ".join(f"{name}={value}" for name, value in resolved.to_dict().items() if value is not None))
    model = learn(events, chosen, validation=validation, checkpoint=checkpoint, resume=resume)
    model.save(out)
    if replaces:
        note([f"the model that was in {out} is replaced by this one"])
    if json:
        print_json(_result(model, out))
    else:
        show(epoch_table(model))
        note(model.notes)
        show(f"The model is in {out}: {model!r}")
    if was_interrupted(model):
        if checkpoint.exists():
            say(f"{checkpoint} remains: the same command with --resume goes on from there")
        raise KeyboardInterrupt
    shutil.rmtree(checkpoint, ignore_errors=True)


def was_interrupted(model: Model) -> bool:
    """Whether Ctrl-C ended the training, which then gives the model so far."""
    return any(sentence.startswith("stopped by Ctrl-C") for sentence in model.notes)


def _parts(data: str, **file_options: str | None) -> tuple[Interactions, Interactions | None]:
    """What to learn from, and what to choose the best epoch by, if the dataset has a part for that."""
    dataset = dataset_at(data, **file_options)
    if dataset is None:
        return events_at(data, **file_options), None
    parts = parts_of(dataset)
    return next(iter(parts.values())), parts.get("validation")


def _result(model: Model, out: Path) -> dict[str, Any]:
    return {
        "model": str(out),
        "config": model.config.to_dict(),
        "items": len(model.items),
        "users": None if model.users is None else len(model.users),
        "epochs": [epoch.to_dict() for epoch in model.record],
        "metrics": model.metrics,
        "notes": list(model.notes),
        "interrupted": was_interrupted(model),
    }


def epoch_table(model: Model) -> Table:
    """The epochs, or a choice of them spread evenly if there are many; the last is always there."""
    step = -(-len(model.record) // EPOCHS_SHOWN) or 1
    chosen = [epoch for epoch in model.record if (len(model.record) - epoch.epoch) % step == 0]
    validated = list(chosen[-1].validation or ()) if chosen else []
    columns = {"epoch": "right", "loss": "right bold", "learning rate": "right", "events/s": "right"}
    columns |= {"clipped": "right", "capped": "right"} | dict.fromkeys(validated, "right bold")
    rows = [
        (
            epoch.epoch,
            f"{epoch.loss:.4f}",
            f"{epoch.learning_rate:.4g}",
            f"{epoch.events_per_second:,.0f}",
            f"{epoch.clipped_gradients:,}",
            f"{epoch.capped_steps:,}",
            *(f"{value:.4f}" for value in (epoch.validation or {}).values()),
        )
        for epoch in chosen
    ]
    seconds = sum(epoch.seconds for epoch in model.record)
    return table(columns, rows, title=f"{len(model.record)} epochs in {seconds:.1f} s")
