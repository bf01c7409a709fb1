"""The settings of the daily job: a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from lorentzrec.base.field_checks import PositiveInt, Range, check_fields, check_names
from lorentzrec.errors import ConfigError
from lorentzrec.ingest.config import PrepareConfig
from lorentzrec.ingest.sources import Source
from lorentzrec.model.config import TrainingConfig
from lorentzrec.serving.stores.address import read_address

Positive = Annotated[float, Range(above=0)]
Share = Annotated[float, Range(0, 1)]
Table = TypeVar("Table")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """When to train everything again, and what to do with a model or a file that is not as it should be."""

    full_every: PositiveInt = 30
    """Of this many models, one is trained from nothing."""
    full_below: Share = 0.8
    """Train from nothing if NDCG@10 on the new day is below this share of its median over the last 7 runs."""
    check: Literal["note", "refuse"] = "note"
    """What to do with a model that loses to a baseline in its reality check: publish it with a note, or refuse it."""
    damaged: Literal["skip", "stop"] = "skip"
    """What to do with a delivery that cannot be read: go on with the others, or stop."""
    corrections: Literal["replace", "refuse"] = "replace"
    """What to do with a delivery whose name was delivered before with other content. `refuse` treats it as damaged."""
    rehearse: Share = 0.2
    """Share of the customers whose earlier events are trained on again by an update."""
    prune_items_after: Positive | None = None
    """Remove items without an event in this number of days from the model."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """How a model becomes the current version of the store."""

    arm: str | None = None
    """Publish to this arm first, and promote its version afterwards; None: publish to main at once."""
    share: Share = 0.1
    """The share of the customers that the arm has."""
    hours: Annotated[float, Range(0)] = 0.0
    """How long a version stays in the arm before it is promoted: by this run if 0, else by the first run after it."""
    probe: tuple[str, ...] = ()
    """A command that is run before a version is promoted: any exit code but 0 ends the arm instead."""
    require: tuple[str, ...] = ()
    """Requirements of the gate, as `lorentzrec publish --require` takes them."""
    keep: PositiveInt = 3
    """Versions to keep in the store, and models on disk."""
    map: bool = True
    """Make the map for the page."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """What is removed."""

    compact_after: PositiveInt = 30
    """Make one piece of the dataset when it has this many deliveries."""
    events_after: Positive | None = None
    """Remove events from the store that are older than this number of days, except the newest of each customer."""
    newest: PositiveInt = 1000
    """How many events each customer keeps."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class DailyConfig:
    """All settings. Relative paths begin at the folder of the TOML file."""

    dataset: str
    """The folder of the dataset. The first run makes it."""
    deliveries: str
    """A folder or pattern of files; those that the dataset does not have are appended in the order of their names."""
    store: str
    """The address of the store, or @FILE."""
    work: Path
    """A folder for the state, the models and the reports."""
    metrics: Path | None = None
    """Where to write the metrics for Prometheus' node exporter; by default `metrics.prom` in `work`."""
    prepare: PrepareConfig
    """Options of the first run; the events are the deliveries that are there."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    rules: Rules = field(default_factory=Rules)
    publish: Publishing = field(default_factory=Publishing)
    prune: Pruning = field(default_factory=Pruning)


def read_config(path: Path) -> DailyConfig:
    """The settings in a TOML file; an error names the file and the entry."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): check the path") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML ({error}): fix that line") from None
    try:
        return _make_config(values, path.absolute().parent)
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def _make_config(values: dict[str, Any], folder: Path) -> DailyConfig:
    check_names(DailyConfig, values, "setting")
    for name in ("dataset", "deliveries", "store", "work"):
        if not isinstance(values.get(name), str):
            raise ConfigError(f"there is no text {name!r}: add one, as docs/daily-job.md shows")
    for name in ("prepare", "training", "rules", "publish", "prune"):
        if not isinstance(values.get(name, {}), dict):
            raise ConfigError(f"{name!r} is not a table: write [{name}] above its entries")
    deliveries = _place(values["deliveries"], folder)
    prepare = {**values.get("prepare", {}), "events": (deliveries,)}
    if isinstance(prepare.get("items"), str):
        prepare["items"] = _place(prepare["items"], folder)
    source = prepare.pop("source", {})
    check_names(PrepareConfig, prepare, "option of prepare")
    check_names(Source, source, "option of prepare.source")
    store = read_address(values["store"])
    if store.startswith("file:"):
        store = f"file:{_place(store.removeprefix('file:').removeprefix('//'), folder)}"
    return DailyConfig(
        dataset=_place(values["dataset"], folder),
        deliveries=deliveries,
        store=store,
        work=Path(_place(values["work"], folder)),
        metrics=Path(_place(values["metrics"], folder)) if "metrics" in values else None,
        prepare=PrepareConfig(**_with_tuples(prepare), source=Source(**_with_tuples(source))),
        training=TrainingConfig.from_mapping(values.get("training", {})),
        rules=_make_table(Rules, values.get("rules", {})),
        publish=_make_table(Publishing, values.get("publish", {})),
        prune=_make_table(Pruning, values.get("prune", {})),
    )


def _make_table(kind: type[Table], values: Mapping[str, Any]) -> Table:
    check_names(kind, values, f"entry of [{kind.__name__.lower()}]")
    return kind(**_with_tuples(values))


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _place(text: str, folder: Path) -> str:
    return text if "://" in text else str(folder / text)
