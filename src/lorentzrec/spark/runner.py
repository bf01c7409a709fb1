"""Epochs that workers share: rounds of training and merging, through the scratch storage."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from lorentzrec.errors import ConfigError, LorentzrecError
from lorentzrec.ingest.storage import join, read_record, write_record
from lorentzrec.learning.engine import EpochResult, Runner, Table
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.notes import Note, NoteKind
from lorentzrec.spark.scratch import remove_files, round_folder
from lorentzrec.spark.tables import load_states, view_states, write_states
from lorentzrec.spark.tasks import (
    Plan,
    Round,
    merge_range,
    part_record,
    run_each,
    train_part,
    write_shard,
)

_ATTEMPTS = 3
"""How often a round is run whose files turn out to be damaged."""


class RoundRunner(Runner):
    """Runs epochs as rounds: every worker trains on a part of its customers, then the points are merged.

    A round that is complete in the scratch storage is not run again.
    """

    def __init__(
        self, session: Any, plan: Plan, rounds: int, config: ResolvedConfig, histories: Table, items: Table
    ) -> None:
        self._session, self._plan, self._rounds = session, plan, rounds
        self._states = view_states(histories, items, config)
        self._current: tuple[str, list[str]] | None = None
        """Folder and checksums of the points that the tables hold."""

    def prepare(self, announce: Callable[[str], None]) -> None:
        """Give every worker its customers; those of an earlier run are checked."""
        run_each(self._session, write_shard, range(self._plan.workers), plan=self._plan)

    def check_notes(self, notes: Sequence[Note]) -> None:
        """Raise an error unless the checkpoint was made by as many workers and rounds."""
        noted = next((note.values for note in notes if note.kind is NoteKind.WORKERS), {"workers": 1})
        workers = self._plan.workers
        given = {"workers": workers} | ({"rounds": self._rounds} if workers > 1 else {})
        if noted != given:
            described = " and ".join(f"{name}={value}" for name, value in noted.items())
            raise ConfigError(f"the checkpoint was made with {described}: set it back, or train without resume")

    def remove_files(self) -> None:
        """Delete the run's folder in the scratch storage."""
        remove_files(self._plan.folder)

    def run(
        self, epoch: int, learning_rate: float, advance: Callable[[int, float], None], cancelled: threading.Event
    ) -> EpochResult:
        """One epoch, from the points in the tables; they are replaced by the merged ones."""
        plan = self._plan
        done, measured = self._latest_round(epoch)
        advance(int(measured["positives"]), measured["loss"])
        if not done and self._current is None:
            folder = round_folder(plan.folder, epoch, 0)
            self._current = folder, write_states(folder, plan.bounds, self._states)
        for number in range(done + 1, self._rounds + 1):
            assert self._current is not None
            start, start_checksums = self._current
            folder = round_folder(plan.folder, epoch, number)
            task = Round(epoch, learning_rate, number - 1, self._rounds, start, tuple(start_checksums), folder)
            parts, checksums = self._run_round(task)
            of_round: Counter[str] = Counter()
            for part in parts:
                of_round.update(part["measured"])
            measured.update(of_round)
            write_record(join(folder, "merged.json"), {"checksums": checksums, "measured": measured})
            self._current = folder, checksums
            remove_files(start)
            remove_files(task.changes)
            advance(of_round["positives"], of_round["loss"])
        assert self._current is not None
        load_states(*self._current, plan.bounds, self._states)
        return EpochResult(**{field.name: measured[field.name] for field in fields(EpochResult)})

    def _latest_round(self, epoch: int) -> tuple[int, Counter[str]]:
        """The last round of an epoch that is complete, or 0; and what was counted until then."""
        for number in range(self._rounds, 0, -1):
            folder = round_folder(self._plan.folder, epoch, number)
            record = read_record(join(folder, "merged.json"))
            if record is not None:
                self._current = folder, record["checksums"]
                return number, Counter(record["measured"])
        return 0, Counter()

    def _run_round(self, task: Round) -> tuple[list[dict[str, Any]], list[str]]:
        """The records of all parts, and the checksums of the merged ranges."""
        shared: dict[str, Any] = {"plan": self._plan, "task": task}
        records = {worker: read_record(part_record(task, worker)) for worker in range(self._plan.workers)}
        missing = {worker for worker, record in records.items() if record is None}
        for _ in range(_ATTEMPTS):
            records |= run_each(self._session, train_part, missing, **shared)
            parts = [record for record in records.values() if record is not None]
            indices, checksums = range(len(self._plan.bounds) - 1), [part["checksums"] for part in parts]
            ranges = run_each(self._session, merge_range, indices, **shared, checksums=checksums)
            missing = {worker for record in ranges.values() for worker in record.get("damaged", ())}
            if not missing:
                return parts, [ranges[index]["checksum"] for index in indices]
        raise LorentzrecError(
            f"files of workers {sorted(missing)} in {task.folder} were damaged {_ATTEMPTS} times: check the storage, "
            "then resume"
        )
