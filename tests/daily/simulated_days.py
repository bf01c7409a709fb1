"""A shop that delivers a file every day, and its daily job: with or without kills."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.daily.config import read_config
from lorentzrec.daily.job import run_day
from lorentzrec.serving.stores.address import open_store
from tests.interruptible_processes import environment

CONFIG = """
dataset = "shop"
deliveries = "incoming"
store = "file:store"
work = "daily"
[prepare]
duplicates = "exact"
[training]
dimension = 8
epochs = 4
[rules]
{rules}
[publish]
arm = "next"
share = 0.1
map = false
{publish}
[prune]
compact_after = 4
"""
CUSTOMERS, ITEMS = 150, 120

KILLED = """
import os, signal, sys
from lorentzrec.daily import job, state
from lorentzrec.ingest import appending, dataset
from lorentzrec.model import artifact
from lorentzrec.serving.stores.file_store import FileStore
stage, moment, config = sys.argv[1:]

def end(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "end":
    known = state.State.save
    def save(self, path):
        if list(self.done)[-1] == stage:
            end()
        known(self, path)
    state.State.save = save
else:
    owner, name = {
        "append": (appending, "write_dataset_manifest"),
        "evaluate": (job, "check_reality"),
        "histories": (job, "add_histories"),
        "train": (artifact, "write_manifest"),
        "check": (job, "load"),
        "publish": (FileStore, "activate"),
        "promote": (FileStore, "end_arm"),
        "prune": (job, "compact"),
        "report": (job, "write_reports"),
    }[stage]
    setattr(owner, name, end)
from pathlib import Path
from lorentzrec.daily.config import read_config
job.run_day(read_config(Path(config)))
"""
"""Run a day that ends by kill -9: when a stage is done and not yet recorded (`end`), or in its middle."""


class Shop:
    """The folder of a shop with its configuration, deliveries, dataset, store and reports."""

    def __init__(self, folder: Path, rules: str = "", publish: str = "") -> None:
        self.folder = folder
        (folder / "incoming").mkdir(parents=True)
        (folder / "daily.toml").write_text(CONFIG.format(rules=rules, publish=publish))

    def deliver(self, day: int, *, shuffled: bool = False, name: str | None = None) -> Path:
        """The file of a day: what a customer takes next is close to what all take; `shuffled`: it is anything."""
        random, count = np.random.default_rng(day), 600
        users = random.integers(0, CUSTOMERS, count)
        items = (users * 7 + random.geometric(0.2, count) + 2 * day) % ITEMS
        if shuffled:
            items = random.integers(0, ITEMS, count)
        times = np.sort(random.integers(0, 86_400, count)) + 86_400 * (20_000 + day)
        times[:5] -= 86_400  # late events
        rows = "".join(f"u{u},i{i},{t}\n" for u, i, t in zip(users, items, times, strict=True))
        file = self.folder / "incoming" / (name or f"day-{day:03d}.csv")
        file.write_text(f"user,item,time\n{rows}")
        return file

    def run(self) -> dict[str, Any]:
        return run_day(read_config(self.folder / "daily.toml"))

    def run_killed(self, stage: str, moment: str) -> int:
        """The exit code of a run in a process of its own, which is killed in this stage if it gets there."""
        command = [sys.executable, "-c", KILLED, stage, moment, str(self.folder / "daily.toml")]
        return subprocess.run(command, env=environment(), capture_output=True, check=False).returncode

    def outcome(self) -> dict[str, Any]:
        """What must be the same with and without disturbances."""
        with closing(open_store(f"file:{self.folder / 'store'}")) as store:
            version = store.state().version
            assert version is not None
            points = b"".join(store.read_file(version, "points.safetensors"))
            pages = [*store.all_events()]
            events = sorted(
                row for page in pages for row in zip(page.users, page.items, page.times, page.weights, strict=True)
            )
            live = store.live_items()
            log = [(change.revision, change.reason, change.who) for change in store.rules_log()]
            rules = (None if (current := store.rules()) is None else current.document, log)
            arms = list(store.state().arms)
            versions = len(store.versions())
        kept = {"points": points, "events": events, "live": live, "rules": rules}
        return kept | {"arms": arms, "versions": versions}

    def days(self) -> list[dict[str, Any]]:
        """The entries of all runs that are over."""
        return list(json.loads((self.folder / "daily/state.json").read_text())["days"])

    def measure_disk(self) -> int:
        """Bytes of all that the daily job writes."""
        parts = [self.folder / name for name in ("shop", "daily", "store")]
        return sum(file.stat().st_size for part in parts for file in part.rglob("*") if file.is_file())
