"""What a check found, and the table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """The counts of one check. It holds if every round was done and no fault was counted."""

    name: str
    planned: int
    done: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """What was looked at, for example acknowledged events."""
    faults: dict[str, int] = field(default_factory=dict)
    """What must be zero, for example lost events."""
    notes: list[str] = field(default_factory=list)
    skipped: bool = False

    def count(self, **counts: int) -> None:
        for name, number in counts.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def fault(self, note: str = "", **faults: int) -> None:
        for name, number in faults.items():
            self.faults[name] = self.faults.get(name, 0) + number
        if note and any(faults.values()):
            self.notes.append(note)

    @property
    def holds(self) -> bool:
        return self.skipped or (self.done >= self.planned and not any(self.faults.values()))

    @property
    def result(self) -> str:
        return "skipped" if self.skipped else "holds" if self.holds else "FAILS"


def table(outcomes: Sequence[Outcome]) -> str:
    """A line for each check, and the notes below."""
    rows = [("check", "rounds", "counted", "must be 0", "result")]
    for one in outcomes:
        counts, faults = (
            ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in numbers.items())
            for numbers in (one.counts, one.faults)
        )
        rows.append((one.name, f"{one.done}/{one.planned}", counts, faults, one.result))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines += [f"{one.name}: {note}" for one in outcomes for note in one.notes[:5]]
    return "\n".join(lines)
