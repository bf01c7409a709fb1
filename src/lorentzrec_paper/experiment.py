"""What an experiment receives and returns: tables, verdicts and figures, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
import numpy as np

from lorentzrec.errors import ConfigError, InputError
from lorentzrec.studies.parts import Part, PartStore
from lorentzrec_paper.data_sets import DamagedData, DataFolder, FoundData, MissingData

Origin = Literal["key", "ours", "paper"]
Status = Literal["holds", "partly", "fails", "not measured"]
Result = TypeVar("Result")

OF_THE_PAPER: tuple[str, ...] = ("networks", "midpoints", "simulations", "amazon", "movielens", "asos")
EXPERIMENTS = (*OF_THE_PAPER, "pipeline", "twins", "dimensions", "ablations", "shops")
"""Those of `all` in the paper's order, then the others; each is the name of a module of `lorentzrec_paper`."""


@dataclass(frozen=True)
class Column:
    """A column whose numbers are all `ours` or all the `paper`'s; `key` columns identify a row."""

    name: str
    origin: Origin = "ours"
    format: str = ""
    """How its numbers are printed, as in Python's `format`: ".3f", ",", ".1%"."""

    @classmethod
    def keys(cls, *names: str) -> list[Column]:
        return [cls(name, "key") for name in names]

    @classmethod
    def ours(cls, formats: Mapping[str, str]) -> list[Column]:
        """Columns of our numbers: name -> format."""
        return [cls(name, "ours", form) for name, form in formats.items()]

    @staticmethod
    def format_spread(runs: Sequence[float | None], places: int = 3) -> str:
        """ "0.123 ± 0.004": the mean and the standard deviation of several runs; None is a training that failed."""
        values = [run for run in runs if run is not None]
        if not values or len(values) < len(runs):
            return "diverged"
        deviation = f" ± {np.std(values, ddof=1):.{places}f}" if len(values) > 1 else ""
        return f"{np.mean(values):.{places}f}{deviation}"

    @property
    def heading(self) -> str:
        return self.name if self.origin == "key" else f"{self.name} ({self.origin})"

    def text(self, value: Any) -> str:
        if value is None:
            return "-"
        return str(value) if isinstance(value, str | bool) else format(value, self.format)


@dataclass(frozen=True)
class Table:
    """Rows under columns; cells are numbers, text, or None where there is no value."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __post_init__(self) -> None:
        if len({column.heading for column in self.columns}) < len(self.columns):
            raise ValueError(f"two columns of {self.title!r} have one heading")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.title!r} does not have {len(self.columns)} cells")

    def texts(self) -> list[list[str]]:
        """The cells as they are printed."""
        return [[column.text(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]


@dataclass(frozen=True)
class Verdict:
    """A claim, and what we measured."""

    claim: str
    """In our words, with the paper's numbers."""
    place: str
    """Where the paper makes it: "Table 1", "section 6.1"; empty for a claim that is not the paper's."""
    measured: str
    """Our numbers."""
    status: Status
    remark: str = ""
    """Why it fails, or a limit of the measurement."""


def status_of(good: Sequence[bool], partly_from: float = 0.0) -> Status:
    """ "holds" if all are good, "partly" if any is and at least this share of them are."""
    if all(good):
        return "holds"
    return "partly" if any(good) and np.mean(good) >= partly_from else "fails"


@dataclass(frozen=True)
class Figure:
    caption: str
    draw: Callable[[Path], None] = field(compare=False)
    """Draws to the path it is given, whose ending is that of PNG or SVG."""


@dataclass(frozen=True)
class Outcome:
    """Everything that an experiment measured."""

    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...]
    figures: Mapping[str, Figure] = field(default_factory=dict)
    """By the stem of the file name."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know, one sentence each."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What is needed to repeat it, as plain JSON."""


@dataclass(frozen=True)
class Services:
    """Addresses of the services that an experiment uses; for each that is None, it starts one on this machine."""

    blobs: str | None = None
    """A folder in a container, az://CONTAINER/PATH."""
    store: str | None = None
    """A store without versions, cosmos://ACCOUNT-HOST/DATABASE."""
    master: str | None = None
    """Spark's master, or sc://HOST."""


@dataclass
class Context:
    """What an experiment runs with."""

    data: DataFolder
    parts: PartStore
    quick: bool = False
    """Fewer seeds and smaller data, for a first impression."""
    services: Services = field(default_factory=Services)
    say: Callable[[str], None] = print
    """Prints a line about the progress."""
    failed: dict[str, int] = field(default_factory=dict)
    """A line for every data set that is there and gave no result, and the exit code for it."""
    write: Callable[[Outcome], object] = lambda _: None
    """Writes the results so far, where the next ones take hours."""

    def run(self, kind: type[Result], parts: Iterable[Part]) -> list[Result]:
        """The results of all parts, in order, as records of this kind, which may hold arrays. Those on disk are not run
        again; each new one is written when it is finished."""
        plain = [replace(part, make=partial(_run_to_plain, part.make)) for part in parts]
        try:
            return [msgspec.convert(one, kind, dec_hook=_read_array) for one in self.parts.run(plain, self.say)]
        except msgspec.ValidationError as error:
            raise InputError(
                f"{self.parts.folder} holds results of an earlier version ({error}): remove it and run again"
            ) from None

    def find_data(self, names: Sequence[str]) -> list[FoundData]:
        """The available data sets of these, after a line about each of the others; an error if there is none.

        Each is read once to check that it is complete. The check is a part, so a resumed run reads nothing.
        """
        sound: list[FoundData] = []
        reasons: list[str] = []
        for name in names:
            try:
                found = self.data.find(name)
                self.run(int, [Part(f"read {found.title}", {"data": found.digest}, partial(_count_events, found))])
                sound.append(found)
            except (MissingData, DamagedData) as error:
                reasons.append(str(error))
                if isinstance(error, DamagedData):
                    self.failed[str(error)] = error.exit_code
        if not sound:
            raise MissingData("; ".join(reasons))
        for reason in reasons:
            self.say(f"left out: {reason}")
        return sound


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper, or beyond it."""

    name: str
    title: str
    run: Callable[[Context], Outcome]


def find_experiments(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, each once; `all` means every one of the paper."""
    for name in names:
        if name not in (*EXPERIMENTS, "all"):
            raise ConfigError(f"there is no experiment {name!r}: use {', '.join(EXPERIMENTS)} or all")
    wanted = dict.fromkeys(one for name in names for one in (OF_THE_PAPER if name == "all" else (name,)))
    return [cast(Experiment, import_module(f"lorentzrec_paper.{name}").EXPERIMENT) for name in wanted]


def _run_to_plain(make: Callable[[], Any]) -> Any:
    return msgspec.to_builtins(make(), enc_hook=np.ndarray.tolist)


def _read_array(_: type, values: Any) -> Any:
    return np.array(values)


def _count_events(found: FoundData) -> int:
    return found.events
