"""What an experiment is given and what it returns: tables, verdicts and figures, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from lorentzrec.tuning.parts import Part, PartStore
from lorentzrec_paper.data_sets import DamagedData, DataFolder, FoundData, MissingData

Origin = Literal["key", "ours", "paper"]
Answer = Literal["holds", "partly", "fails", "not measured"]


@dataclass(frozen=True)
class Column:
    """A column whose numbers are all `ours` or all the `paper`'s; `key` columns say what a row is about."""

    name: str
    origin: Origin = "ours"
    format: str = ""
    """How its numbers are printed, as in Python's `format`: ".3f", ",", ".1%"."""

    @classmethod
    def ours(cls, formats: Mapping[str, str]) -> list[Column]:
        """Columns of our numbers: name -> format."""
        return [cls(name, "ours", form) for name, form in formats.items()]

    @property
    def heading(self) -> str:
        return self.name if self.origin == "key" else f"{self.name} ({self.origin})"

    def text(self, value: Any) -> str:
        if value is None:
            return "-"
        return str(value) if isinstance(value, str | bool) else format(value, self.format)


@dataclass(frozen=True)
class Table:
    """Rows under columns; cells are numbers, text, or None where there is nothing to say."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    def __post_init__(self) -> None:
        if len({column.heading for column in self.columns}) < len(self.columns):
            raise ValueError(f"two columns of {self.title!r} have one heading")
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"a row of {self.title!r} does not have {len(self.columns)} cells")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Table:
        """The table that `Outcome.to_dict` described."""
        columns = tuple(Column(**column) for column in values["columns"])
        return cls(values["title"], columns, tuple(map(tuple, values["rows"])))

    def texts(self) -> list[list[str]]:
        """The cells as they are printed."""
        return [[column.text(cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]


@dataclass(frozen=True)
class Verdict:
    """One claim, and what we found."""

    claim: str
    """In our words, with the paper's numbers."""
    place: str
    """Where the paper makes it: "Table 1", "section 6.1"; empty for a claim that is not the paper's."""
    measured: str
    """Our numbers."""
    answer: Answer
    remark: str = ""
    """Why it fails, or what it is worth."""


@dataclass(frozen=True)
class Outcome:
    """All that an experiment found."""

    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...]
    figures: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)
    """Stem of the file name -> draws to the path it is given; the path's ending says PNG or SVG."""
    captions: Mapping[str, str] = field(default_factory=dict)
    """Stem of the file name -> what the figure shows."""
    notes: tuple[str, ...] = ()
    """What a reader of the numbers should know, one sentence each."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Everything somebody would need to repeat it, as plain JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, without the figures."""
        return {
            "tables": [asdict(table) for table in self.tables],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "notes": list(self.notes),
            "settings": dict(self.settings),
        }


@dataclass
class Context:
    """What an experiment is run with."""

    data: DataFolder
    parts: PartStore
    quick: bool = False
    """Fewer seeds and smaller data, for a first look."""
    say: Callable[[str], None] = print
    """A line about what goes on."""
    damaged: list[str] = field(default_factory=list)
    """A line for every data set that is there and cannot be used."""
    publish: Callable[[Outcome], object] = lambda _: None
    """Writes what is found so far, where one result does not wait for hours for the next."""

    def run(self, parts: Iterable[Part]) -> list[Any]:
        """The results of all parts, in order. Those on disk are not run again; each new one is kept as it ends."""
        return self.parts.run(list(parts), self.say)

    def available(self, names: Sequence[str]) -> list[FoundData]:
        """The data sets at hand of these, after a line about each of the others; an error if there is none.

        Each is read once to see that it is whole. That it was is kept as a part, so a resumed run reads nothing.
        """
        sound: list[FoundData] = []
        reasons: list[str] = []
        for name in names:
            try:
                found = self.data.find(name)
                self.run([Part(f"read {found.title}", {"data": found.digest}, partial(_count_events, found))])
                sound.append(found)
            except MissingData as error:
                reasons.append(str(error))
            except DamagedData as error:
                reasons.append(str(error))
                self.damaged.append(str(error))
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


def _count_events(found: FoundData) -> int:
    return len(found.events)
