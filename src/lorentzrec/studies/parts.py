"""Long experiments in parts: each finished part is saved as a small JSON file, so that a stopped run can resume."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lorentzrec._version import __version__
from lorentzrec.base.atomic import write_text


@dataclass(frozen=True)
class Part:
    """A part of an experiment that does not depend on other parts."""

    name: str
    """Printed while it runs, and the beginning of the file name."""
    key: Mapping[str, Any]
    """Everything that the result depends on, as plain JSON: settings, seed, digest of the data. For the code, the key
    includes only the package's version: after a change to `make` between versions, change the key or remove the
    folder."""
    make: Callable[[], Any]
    """Computes the result, which is plain JSON without NaN."""


class PartStore:
    """The folder of an experiment's finished parts. A part is identified by its key and the package's version."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.made = 0
        self.reused = 0
        """Parts that were found on disk."""
        self.seconds = 0.0
        """Time that all results took, including that of earlier runs."""

    def run(self, parts: Sequence[Part], say: Callable[[str], None]) -> list[Any]:
        """Return all results in order; `say` is called with a line when a part begins, and one when it is
        finished."""
        files = [self._locate(part) for part in parts]
        records = [_read(path, key) for path, key in files]
        waiting = [number for number, record in enumerate(records) if record is None]
        self.reused += len(parts) - len(waiting)
        if waiting and len(waiting) < len(parts):
            say(f"{len(parts) - len(waiting)} of {len(parts)} parts are reused from an earlier run")
        spent = 0.0
        for done, number in enumerate(waiting, start=1):
            say(f"part {done} of {len(waiting)}, {parts[number].name}: begins")
            record = records[number] = self._make(parts[number], *files[number])
            spent += record["seconds"]
            left = spent / done * (len(waiting) - done)
            remaining = f", about {left:.0f} s left" if left >= 1 else ""
            say(f"part {done} of {len(waiting)}, {parts[number].name}: {record['seconds']:.1f} s{remaining}")
        finished = [record for record in records if record is not None]
        self.seconds += sum(record["seconds"] for record in finished)
        return [record["result"] for record in finished]

    def _make(self, part: Part, path: Path, key: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        result = part.make()
        record = {"key": key, "seconds": time.perf_counter() - started, "result": result}
        text = json.dumps(record, allow_nan=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        self.made += 1
        # Continue with what a later run will read, so that types are the same in both.
        return json.loads(text)  # type: ignore[no-any-return]

    def _locate(self, part: Part) -> tuple[Path, dict[str, Any]]:
        key = json.loads(json.dumps({"part": part.name, "version": __version__, **part.key}, sort_keys=True))
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        stem = re.sub(r"[^a-z0-9]+", "-", part.name.lower()).strip("-")[:60]
        return self.folder / f"{stem}-{digest[:16]}.json", key


def _read(path: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a finished part; None if there is none, or the file is damaged, so that it is made again."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        valid = record["key"] == key and "result" in record and record["seconds"] >= 0
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return record if valid else None
