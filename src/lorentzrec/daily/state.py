"""What the daily job remembers between runs, and between the stages of a run: a JSON file, replaced in one step."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from lorentzrec.base.atomic import write_text
from lorentzrec.errors import ArtifactError

STAGES = ("append", "evaluate", "histories", "train", "check", "publish", "promote", "prune", "report")
"""The stages of a run, in order."""
FIRST_CODE = 11
"""The exit code if the first stage fails; the second has the next number, and so on."""


def exit_code(stage: str) -> int:
    """The exit code of a run in which this stage fails."""
    return FIRST_CODE + STAGES.index(stage)


@dataclass
class State:
    """The state after the last stage that was done."""

    run: int = 0
    """The number of the run; 0 before the first."""
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Stage of the run -> its result. All stages are there when a run is over."""
    model: str | None = None
    """The folder, below `models`, of the model that the next run continues."""
    updates: int = 0
    """Models that were published since the last training from nothing."""
    reported: list[str] = field(default_factory=list)
    """Digests of the deliveries that the reports of earlier runs count."""
    repeated: list[list[Any]] = field(default_factory=list)
    """Address, size and version of each file whose events were delivered before."""
    refused: dict[str, list[Any]] = field(default_factory=dict)
    """Address of a file that cannot be appended -> size, version, and why; until it changes or is gone."""
    stored: list[str] = field(default_factory=list)
    """Digests of the deliveries whose events are in the store."""
    waiting: dict[str, Any] | None = None
    """The version that is in the arm and not yet promoted."""
    days: list[dict[str, Any]] = field(default_factory=list)
    """What the report shows of each run."""

    @property
    def is_over(self) -> bool:
        """Whether all stages of the run are done."""
        return self.run == 0 or "report" in self.done

    def save(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")


def read_state(path: Path) -> State:
    """The state of earlier runs; a new one if there was none."""
    if not path.exists():
        return State()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        known = {one.name for one in fields(State)}
        return State(**{name: value for name, value in values.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ArtifactError(
            f"{path} is not the state of a daily job ({error}): restore it, or remove the folder to begin again"
        ) from None
