"""`lorentzrec train`: from events to a model."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.base.atomic import MARKER, remove_directory
from lorentzrec.base.counting import Count
from lorentzrec.cli.inputs import require_dataset, training_data
from lorentzrec.cli.options import check_engine, event_file_options
from lorentzrec.cli.output import note, print_result, say, table, with_flags
from lorentzrec.cli.results import refuse_unwritable
from lorentzrec.errors import ConfigError, InputError, TrainingInterrupted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from lorentzrec.ingest.dataset import Dataset
    from lorentzrec.learning.run import TrainingRun
    from lorentzrec.model.config import TrainingConfig
    from lorentzrec.model.model import Model
    from lorentzrec.model.reality_check import RealityCheck

EPOCHS_SHOWN = 10

_ENGINE: Any = typer.Option(rich_help_panel="Engine")


def _show_settings(context: typer.Context, wanted: bool) -> None:
    """Print the fields of `TrainingConfig` and exit."""
    if not wanted:
        return
    from lorentzrec.base.field_checks import field_hints, field_texts, requirement
    from lorentzrec.model.config import TrainingConfig

    hints, texts = field_hints(TrainingConfig), field_texts(TrainingConfig)
    rows = [
        {
            "name": field.name,
            "values": requirement(hints[field.name]),
            "default": field.default,
            "meaning": texts[field.name][0].replace("`", ""),
        }
        for field in fields(TrainingConfig)
    ]
    columns = {"name": "left bold", "values": "left", "default": "left", "meaning": "left"}
    shown = table(columns, ([*{**row, "default": repr(row["default"]).strip("'")}.values()] for row in rows))
    remark = "None: chosen from the data when training starts, or no limit"
    print_result(rows, shown, remark, json=context.params.get("json", False))
    raise typer.Exit


@event_file_options
def train(
    data: str,
    *,
    out: Path,
    config: Path | None = None,
    settings: list[str] | None = None,
    list_settings: Annotated[bool, typer.Option(callback=_show_settings)] = False,
    attributes: str | None = None,
    complements: bool | None = None,
    start: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    verbose: bool = False,
    engine: Annotated[str, _ENGINE] = "local",
    master: Annotated[str | None, _ENGINE] = None,
    workers: Annotated[int | None, _ENGINE] = None,
    rounds: Annotated[int | None, _ENGINE] = None,
    scratch: Annotated[str | None, _ENGINE] = None,
    json: Annotated[bool, typer.Option(is_eager=True)] = False,  # before --list-settings
    **file_options: str | None,
) -> None:
    """Train a model.

    From a dataset, the training part is used for training, and the validation part, if there is one, to choose the best
    epoch. From event files, all events are used for training: to hold some out, prepare a dataset with --split first.

    Ctrl-C and SIGTERM end training and save the model so far: to --out if there is no model yet, otherwise next to it,
    to OUT.interrupted. Before the end of the first epoch nothing is saved. A checkpoint is written to OUT.checkpoint
    after every epoch, so that --resume continues after the last finished epoch, however the run ended.

    $ lorentzrec train shop --out model
    $ lorentzrec train events.csv --out model --user-column customer --item-column sku --set dimension=64 \
        --set seed=7
    $ lorentzrec train shop --out twin --set geometry=euclidean
    $ lorentzrec train shop --out model --attributes category,brand
    $ lorentzrec train shop --out model --config settings.toml --resume
    $ lorentzrec train shop --out tomorrow --start model --set epochs=3
    $ lorentzrec train shop --out model --engine keras
    $ lorentzrec train az://container/shop --out model --engine spark --master sc://host --workers 8 \
        --scratch az://container/scratch

    data: A dataset, or event files: CSV, JSON lines, Parquet.
    out: Folder for the model.
    attributes COLUMNS: Attributes of the dataset that items' points are composed of, or none. Default: all that it
        was prepared with.
    complements: Learn from orders what is bought together, for outfits. Default: if at least half of the events have an
        order with several events.
    start MODEL: Model to continue from, with its settings, few epochs and a low learning rate.
    list_settings: Show all hyper-parameters and exit.
    resume: Continue a stopped run after its last finished epoch.
    overwrite: If training is interrupted, replace the model in --out anyway.
    verbose: Print all settings, and counts of clipped gradients and capped steps per epoch.
    engine: local: compiled kernels on this machine. keras: Keras on the back end that KERAS_BACKEND names, for GPUs.
        spark: a cluster, from a dataset.
    master: Spark's master URL, or sc://HOST. Default: this machine.
    workers: Tasks of Spark that share the customers. Default: 1 on this machine.
    rounds: How often per epoch the points of the workers are merged. Default: 8 with several workers.
    scratch: Folder that all workers reach, for customers and points during training; local, az:// or s3://.
        Default: OUT.rounds.
    """
    from lorentzrec.learning.checkpoint import is_checkpoint
    from lorentzrec.model.artifact import load
    from lorentzrec.model.notes import Note, NoteKind

    described = None if attributes == "none" else attributes
    local_options = {"attributes": described, "complements": complements, "start": start}
    spark_options: dict[str, Any] = {"master": master, "workers": workers, "rounds": rounds, "scratch": scratch}
    check_engine(engine, ("local", "keras", "spark"), local=local_options, spark=spark_options)
    model_to_start = None if start is None else load(start)
    chosen = load_config(config, settings, model_to_start)
    if chosen.epochs == 0:
        raise ConfigError("epochs=0 would save an untrained model: set epochs to 1 or more")
    refuse_unwritable(out, "lorentzrec model")
    replaces = (out / MARKER).exists()
    path_if_interrupted = out.with_name(f"{out.name}.interrupted") if replaces and not overwrite else out
    refuse_unwritable(path_if_interrupted, "lorentzrec model")
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    if checkpoint.exists() and not resume:
        raise InputError(f"{checkpoint} is left from a run that was stopped: add --resume to continue it, or remove it")
    found = is_checkpoint(checkpoint)
    learn = partial(_learn, start=model_to_start, complements=complements, checkpoint=checkpoint, resume=found)
    if engine == "spark":
        rounds_folder = out.with_name(f"{out.name}.rounds")
        if rounds_folder.exists() and not resume:
            raise InputError(f"{rounds_folder} is left from a stopped run: add --resume to continue it, or remove it")
        found = found or rounds_folder.exists() or scratch is not None
        learn = partial(_learn_on_spark, checkpoint=checkpoint, rounds_folder=rounds_folder, **spark_options)
    elif engine == "keras":
        learn = partial(_learn_on_keras, checkpoint=checkpoint, resume=found)
    if resume and not found:
        note([str(Note(NoteKind.NOTHING_TO_RESUME, {"folder": checkpoint}))])
    try:
        model = learn(data, chosen, file_options, attributes, verbose=verbose)
    except TrainingInterrupted as interrupted:
        _save_unfinished(interrupted.model, path_if_interrupted, out, checkpoint, json, verbose)
        raise
    model.save(out)
    remove_directory(checkpoint)
    if replaces:
        note([f"the previous model in {out} was replaced"])
    show_model(model, out, json, verbose, interrupted=False)


def _learn(
    data: str,
    config: TrainingConfig,
    file_options: dict[str, str | None],
    attributes: str | None,
    *,
    start: Model | None,
    complements: bool | None,
    verbose: bool,
    **options: Any,
) -> Model:
    from lorentzrec.learning.trainer import prepare_run, run_training
    from lorentzrec.learning.warm_up import compiling_ahead

    unused = config.model == "symmetric" and attributes is None
    given = training_data(data, None if attributes in (None, "none") else "--attributes", **file_options)
    described = None if unused else given.attributes(attributes, start)
    if unused:
        _note_attributes(given.dataset, attributes, "model=symmetric", "model=asymmetric")
    if start is not None and attributes == "none" and start.attributes is not None:
        start = replace(start, points=replace(start.points, attributes=None), optimiser_state=None)
    composed = described is not None or (start is not None and start.attributes is not None)
    with compiling_ahead(config, attributes=composed) as until_compiled:
        events, validation = given.read()
        if start is not None:
            from lorentzrec.learning.new_events import with_types_of

            events = with_types_of(start, events)
            validation = None if validation is None else with_types_of(start, validation)
        run = prepare_run(
            events, config, validation=validation, attributes=described, complements=complements, start=start
        )
        _say_settings(run, verbose)
        until_compiled(say)
    return run_training(run, **options)


def _learn_on_keras(
    data: str,
    config: TrainingConfig,
    file_options: dict[str, str | None],
    attributes: str | None,
    *,
    verbose: bool,
    **options: Any,
) -> Model:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no lines about how TensorFlow was built
    from lorentzrec.keras.midpoint_model import MidpointModel
    from lorentzrec.learning.trainer import run_training

    model = MidpointModel(config)
    given = training_data(data, **file_options)
    _note_attributes(given.dataset, attributes, "--engine keras", "--engine local")
    events, validation = given.read()
    run = model.prepare(events, validation)
    _say_settings(run, verbose)
    return run_training(run, **options)


def _note_attributes(dataset: Dataset | None, attributes: str | None, unable: str, able: str) -> None:
    """Print that this engine ignores the attributes of the dataset, unless --attributes is given."""
    if attributes is None and dataset is not None and dataset.prepared_attributes:
        note([f"{unable} does not use the attributes of {dataset.address}: only {able} does"])


def _say_settings(run: TrainingRun, verbose: bool) -> None:
    if not sys.stderr.isatty():  # on a terminal, the progress bar shows these lines itself
        say(f"training {run.training_data!r}")
        if not verbose:
            say(run.config.summary(run.given))
    if verbose:
        say(", ".join(f"{name}={value}" for name, value in run.config.to_dict().items() if value is not None))


def _learn_on_spark(
    data: str,
    config: TrainingConfig,
    file_options: dict[str, str | None],
    attributes: str | None,
    *,
    checkpoint: Path,
    rounds_folder: Path,
    scratch: str | None,
    verbose: bool,
    **options: Any,
) -> Model:
    """Rounds in the scratch storage that belong to the same run are continued in any case."""
    from lorentzrec.learning.checkpoint import is_checkpoint
    from lorentzrec.spark import train as learn

    dataset = require_dataset(data, "--engine spark", **file_options)
    _note_attributes(dataset, attributes, "--engine spark", "--engine local")
    say(f"training on {dataset!r}")
    options |= {"scratch": scratch or rounds_folder, "checkpoint": checkpoint, "resume": is_checkpoint(checkpoint)}
    model = learn(dataset, config, **options)
    shutil.rmtree(rounds_folder, ignore_errors=True)
    return model


def load_config(path: Path | None, settings: list[str] | None, start: Model | None = None) -> TrainingConfig:
    """The config of a TOML file, or that of a model to start from, or the default one, with the settings of the command
    line."""
    from lorentzrec.model.config import TrainingConfig

    config = TrainingConfig() if path is None else TrainingConfig.from_toml(path)
    if start is not None:
        from lorentzrec.learning.warm_start import continued_config

        config = continued_config(start, None if path is None else config)
    return config.with_settings(settings or [])


def _save_unfinished(model: Model | None, folder: Path, out: Path, checkpoint: Path, json: bool, verbose: bool) -> None:
    """Save the model of an interrupted run, if there is one, and print how to continue."""
    unchanged = f"; {out} is unchanged" if (out / MARKER).exists() and folder != out else ""
    if model is None:
        say(f"interrupted before the end of the first epoch, so no model is saved{unchanged}")
        return
    model.save(folder)
    show_model(model, folder, json, verbose, interrupted=True)
    if unchanged:
        say(f"the unfinished model is in {folder}{unchanged}: to use the unfinished one, move it there")
    if checkpoint.exists():
        say(f"the checkpoint is in {checkpoint}: run the same command with --resume to continue")


def show_model(model: Model, folder: Path, json: bool, verbose: bool = False, *, interrupted: bool) -> None:
    from lorentzrec.model.notes import NoteKind
    from lorentzrec.model.reality_check import describe_check

    first_line = describe_check(model)
    result = {
        "summary": first_line,
        "check": None if model.check is None else model.check.to_dict(),
        "model": str(folder),
        "config": model.config.to_dict(),
        "items": len(model.items),
        "users": None if model.users is None else len(model.users),
        "epochs": [epoch.to_dict() for epoch in model.record],
        "metrics": model.metrics,
        "notes": list(model.notes),
        "interrupted": interrupted,
    }
    notes: Iterable[str] = [str(one) for one in model.note_records if one.kind is not NoteKind.LOST_CHECK]
    if sys.stderr.isatty():  # the progress bar has shown them, but with the names of options in Python
        notes = [one for one in notes if with_flags(one) != one]
    checked: list[RenderableType] = [] if model.check is None else [check_table(model.check)]
    shown = [first_line[0].upper() + first_line[1:], *checked, epoch_table(model, verbose=verbose)]
    print_result(result, *shown, f"The model is in {folder}: {model!r}", json=json, notes=notes)


def check_table(check: RealityCheck) -> Table:
    """The model next to the baselines, with differences."""
    columns = {"": "left bold", "NDCG@10": "right", "Recall@10": "right", "difference": "right", "result": "left"}
    rows: list[list[Any]] = []
    for row in check.rows:
        difference = result = ""
        if row.difference is not None:
            error = "" if row.standard_error is None else f" ± {row.standard_error:.4f}"
            difference = f"{row.difference:+.4f}{error}"
            result = "loses" if row.ahead else "wins" if row.significant else "level"
        rows.append([row.name, f"{row.ndcg:.4f}", f"{row.recall:.4f}", difference, result])
    return table(columns, rows, title=f"Reality check on {check.basis}")


def epoch_table(model: Model, *, verbose: bool = False) -> Table:
    """All epochs, or about `EPOCHS_SHOWN` of them at equal steps; the last is always shown."""
    step = -(-len(model.record) // EPOCHS_SHOWN) or 1
    chosen = [epoch for epoch in model.record if (len(model.record) - epoch.epoch) % step == 0]
    validated = list(chosen[-1].validation or ()) if chosen else []
    columns = {"epoch": "right", "loss": "right bold", "learning rate": "right", "events/s": "right"}
    columns |= {"clipped": "right", "capped": "right"} if verbose else {}
    columns |= dict.fromkeys(validated, "right bold")
    rows: list[list[Any]] = [
        [
            epoch.epoch,
            f"{epoch.loss:.4f}",
            f"{epoch.learning_rate:.4g}",
            f"{epoch.events_per_second:,.0f}",
            *([f"{epoch.clipped_gradients:,}", f"{epoch.capped_steps:,}"] if verbose else []),
            *(f"{value:.4f}" for value in (epoch.validation or {}).values()),
        ]
        for epoch in chosen
    ]
    seconds = sum(epoch.seconds for epoch in model.record)
    return table(columns, rows, title=f"{Count(len(model.record)):epoch|epochs} in {seconds:.1f} s")
