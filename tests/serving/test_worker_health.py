"""The threads that determine the health of a worker: neither a failure nor a slow test makes it seem to hang."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.worker import health as health_module
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.health import Health
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.recommender import Recommender
from lorentzrec.serving.worker.version_watcher import VersionWatcher
from lorentzrec.serving.worker.worker_records import WorkerRecord, find_problems, read_records
from tests.serving.running_service import PATIENCE, shop_store

Check = Callable[[Callable[[], bool]], Awaitable[None]]


def run_health(folder: Path, check: Callable[[Check], Awaitable[None]]) -> None:
    """Run `check` in an event loop whose life is recorded in `folder`, with a way to wait in it."""
    shop_store(folder).close()
    url = f"file:{folder / 'store'}"
    with closing(GuardedStore(lambda: open_store(url), seconds=PATIENCE, threads=2)) as guard:
        metrics = Metrics()
        versions = VersionWatcher(guard, metrics, ServiceSettings(url), None)
        health = Health(versions, guard, metrics, folder, 1)

        async def wait_for(condition: Callable[[], bool]) -> None:
            end = time.monotonic() + PATIENCE
            while not condition():
                assert time.monotonic() < end, "it did not happen"
                await asyncio.sleep(0.02)

        async def run() -> None:
            versions.start()
            health.start()
            try:
                await check(wait_for)
            finally:
                health.stop()
                versions.stop()

        asyncio.run(run())


def record_of(folder: Path) -> WorkerRecord:
    (record,) = read_records(folder)
    return record


def test_a_failure_does_not_end_the_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    measure, failures = Health._measure, list[str]()

    def fail_twice(self: Health, used: Recommender) -> None:
        if len(failures) < 2:
            failures.append("failed")
            raise RuntimeError("dictionary changed size during iteration")
        measure(self, used)

    monkeypatch.setattr(Health, "_measure", fail_twice)
    monkeypatch.setattr(health_module, "BEAT_SECONDS", 0.01)

    async def check(wait_for: Check) -> None:
        await wait_for(lambda: len(failures) == 2)
        beat = record_of(tmp_path).beat
        await wait_for(lambda: record_of(tmp_path).beat > beat)

    run_health(tmp_path, check)
    lines = [line for line in caplog.records if "the health of this worker cannot be determined" in line.message]
    assert len(lines) == 1, "the same failure is logged once"
    assert "dictionary changed size" in caplog.text


def test_a_slow_test_of_a_version_does_not_delay_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = Event(), Event()

    def hang(self: Health, used: Recommender) -> None:
        began.set()
        go_on.wait(PATIENCE)

    monkeypatch.setattr(Health, "_test", hang)
    monkeypatch.setattr(health_module, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(health_module, "STALE_SECONDS", 0.0)

    async def check(wait_for: Check) -> None:
        await wait_for(began.is_set)
        beat = record_of(tmp_path).beat
        await wait_for(lambda: record_of(tmp_path).beat > beat + 0.1)
        await wait_for(lambda: record_of(tmp_path).problem is not None)
        (problem,) = find_problems([record_of(tmp_path)], 1)
        assert "has not ended in 0 seconds: check the disk" in problem
        go_on.set()
        monkeypatch.setattr(health_module, "STALE_SECONDS", PATIENCE)
        await wait_for(lambda: record_of(tmp_path).problem is None)

    run_health(tmp_path, check)
