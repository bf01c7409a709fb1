"""`lorentzrec train`: events in, a model out."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.atomic import MARKER
from lorentzrec.cli.events import dataset_at, events_at, parts_of
from lorentzrec.cli.options import ItemColumn, Json, Reader, TimeColumn, UserColumn, WeightColumn
from lorentzrec.cli.output import note, print_json, say, show, table
from lorentzrec.cli.targets import refuse_unwritable
from lorentzrec.errors import ConfigError, InputError, TrainingInterrupted

if TYPE_CHECKING:
    from types import FrameType

    from rich.table import Table

    from lorentzrec.data.interactions import Interactions
    from lorentzrec.model.model import Model

EPOCHS_SHOWN = 10


def _show_settings(asked: bool) -> None:
    """The hyper-parameters as their only owner knows them."""
    if not asked:
        return
    from lorentzrec.field_checks import field_hints, requirement
    from lorentzrec.model.config import TrainingConfig

    rows = [
        (field.name, requirement(field_hints(TrainingConfig)[field.name]), repr(field.default).strip("'"))
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
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint of a stopped run.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="If training is interrupted, replace the model in --out all the same.")
    ] = False,
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

    Ctrl-C and SIGTERM end training and save the model so far: to --out if there is no model yet, else next to it, to
    OUT.interrupted. Before the end of the first epoch nothing is saved. While training runs, a checkpoint is kept in
    OUT.checkpoint.
    """
    from lorentzrec.learning.trainer import train as learn
    from lorentzrec.learning.warm_up import compiling_ahead
    from lorentzrec.model.config import TrainingConfig

    chosen = TrainingConfig() if config is None else TrainingConfig.from_toml(config)
    chosen = chosen.with_settings(settings or [])
    if chosen.epochs == 0:
        raise ConfigError("epochs=0 would save a model that has learned nothing: set epochs to 1 or more")
    refuse_unwritable(out, "lorentzrec model")
    replaces = (out / MARKER).exists()
    place_if_interrupted = out.with_name(f"{out.name}.interrupted") if replaces and not overwrite else out
    refuse_unwritable(place_if_interrupted, "lorentzrec model")
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    if checkpoint.exists() and not resume:
        raise InputError(f"{checkpoint} is left from a run that was stopped: add --resume to continue it, or remove it")
    with _sigterm_is_ctrl_c():
        with compiling_ahead(chosen) as until_compiled:
            events, validation = _parts(
                data,
                reader=reader,
                user_column=user_column,
                item_column=item_column,
                time_column=time_column,
                weight_column=weight_column,
            )
            if not sys.stderr.isatty():  # on a terminal, the progress bar shows these lines itself
                resolved = chosen.resolve_for(events)
                say(f"training on {events!r}")
                say(", ".join(f"{name}={value}" for name, value in resolved.to_dict().items() if value is not None))
            until_compiled(say)
        try:
            model = learn(events, chosen, validation=validation, checkpoint=checkpoint, resume=resume)
        except TrainingInterrupted as interrupted:
            _keep_what_there_is(interrupted.model, place_if_interrupted, out, checkpoint, json)
            raise
        model.save(out)
    shutil.rmtree(checkpoint, ignore_errors=True)
    if replaces:
        note([f"the model that was in {out} is replaced by this one"])
    _show(model, out, json, interrupted=False)


def _keep_what_there_is(model: Model | None, place: Path, out: Path, checkpoint: Path, json: bool) -> None:
    """Save the model of a run that was interrupted, if there is one, and print how to continue."""
    kept = f"; {out} is as it was" if (out / MARKER).exists() and place != out else ""
    if model is None:
        say(f"interrupted before the end of the first epoch, so no model is saved{kept}")
        return
    model.save(place)
    _show(model, place, json, interrupted=True)
    if kept:
        say(f"the unfinished model is in {place}{kept}: to use the unfinished one, move it there")
    if checkpoint.exists():
        say(f"{checkpoint} remains: the same command with --resume continues from there")


def _show(model: Model, place: Path, json: bool, *, interrupted: bool) -> None:
    if json:
        print_json(_result(model, place, interrupted))
        return
    show(epoch_table(model))
    note(model.notes)
    show(f"The model is in {place}: {model!r}")


@contextmanager
def _sigterm_is_ctrl_c() -> Iterator[None]:
    """End the block on SIGTERM as Ctrl-C does, with SIGTERM's exit code."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    received = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal received
        received = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        if not received:
            raise
        say("stopped by SIGTERM")
        raise typer.Exit(128 + signal.SIGTERM) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _parts(data: str, **file_options: str | None) -> tuple[Interactions, Interactions | None]:
    """What to learn from, and what to choose the best epoch by, if the dataset has a part for that."""
    dataset = dataset_at(data, **file_options)
    if dataset is None:
        return events_at(data, **file_options), None
    parts = parts_of(dataset)
    return next(iter(parts.values())), parts.get("validation")


def _result(model: Model, out: Path, interrupted: bool) -> dict[str, Any]:
    return {
        "model": str(out),
        "config": model.config.to_dict(),
        "items": len(model.items),
        "users": None if model.users is None else len(model.users),
        "epochs": [epoch.to_dict() for epoch in model.record],
        "metrics": model.metrics,
        "notes": list(model.notes),
        "interrupted": interrupted,
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
