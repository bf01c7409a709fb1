"""The result of a check, and the table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.serving.event_load import EventLoad, look_for, stored_events


@dataclass
class Outcome:
    """The counts of one check. It holds if every round was done and no fault was counted."""

    name: str
    planned: int
    done: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """What was checked, for example acknowledged events."""
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

    def compare(self, load: EventLoad, store: str, since: float = 0.0) -> None:
        """Count which events sent after `since` are lost, and which are stored twice or were never sent."""
        expected = [event for event in load.acknowledged if event.begun > since]
        found = look_for(expected, store)
        strangers = [
            event for event in stored_events({user for user, _ in load.tried}, store) if event not in load.tried
        ]
        others = {status: number for status, number in load.refused.items() if status.isdigit() and status != "503"}
        self.count(acknowledged=len(expected))
        self.fault(f"{load.label}: lost {found.missing[:3]}", lost=len(found.missing))
        self.fault(f"{load.label}: stored twice {found.duplicated[:3]}", stored_twice=len(found.duplicated))
        self.fault(f"{load.label}: never sent {strangers[:3]}", never_sent=len(strangers))
        self.fault(f"{load.label}: statuses {others}", other_statuses=sum(others.values()))

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
