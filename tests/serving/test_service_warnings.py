"""What `/readyz` and `/metrics` report of a service that works, and of what it recommends."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lorentzrec.base.manifest import write_manifest
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.version import write_version
from lorentzrec.serving.worker.worker_records import (
    HUNG_SECONDS,
    STALE_SECONDS,
    RecordFile,
    WorkerRecord,
    find_hung,
    find_problems,
    merge_warnings,
    read_records,
    remove_record,
)
from tests.serving.running_service import service_here, shop_store, wait_until
from tests.serving.small_shop import ITEMS, shop_model, shop_table


def value_of(service: Any, name: str) -> float:
    (line,) = re.findall(rf"^{re.escape(name)} (.*)$", service.get("/metrics").text, re.MULTILINE)
    return float(line)


def warnings_of(service: Any) -> list[str]:
    warnings: list[str] = service.get("/readyz").json()["warnings"]
    return warnings


def test_live_items_and_unknown_ones_are_counted(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    name = store.state().version
    with service_here(store.url, poll_seconds=0.05) as service:
        wait_until(lambda: value_of(service, "lorentzrec_live_items") == ITEMS)
        assert service.put("/v1/live", json={"items": ["i1", "i2", "x1"]}).status_code == 200
        wait_until(lambda: value_of(service, "lorentzrec_live_items") == 2)
        assert value_of(service, "lorentzrec_unknown_live_items") == 1
        assert warnings_of(service) == []
        wrong = {"items": ["i1", "x1", "x2"], "force": True}
        assert service.put("/v1/live", json=wrong).status_code == 200
        warning = f"2 of 3 live ids are not in version {name}: check the live items"
        wait_until(lambda: warnings_of(service) == [warning])
        assert service.put("/v1/live", json={"items": [], "force": True}).status_code == 200
        none = "no item is live, so all recommendations are empty: check the live items"
        wait_until(lambda: warnings_of(service) == [none])
        assert value_of(service, "lorentzrec_live_items") == 0
    store.close()


def test_empty_responses_are_counted_and_reported(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url) as service:
        for _ in range(20):
            found = service.post("/v1/recommend", json={"history": ["i1"], "allow": []}).json()
            assert (found["items"], found["fallback_kinds"]) == ([], ["nothing_allowed"])
        assert value_of(service, "lorentzrec_empty_responses_total") == 20
        wanted = "20 of the last 20 recommendations of a worker were empty, and `fallback_kinds` has the reason"
        assert warnings_of(service) == [wanted]
        for _ in range(20):
            assert service.post("/v1/recommend", json={"history": ["i1"]}).json()["items"]
        assert warnings_of(service) == []
    store.close()


def test_an_old_version_is_reported(tmp_path: Path) -> None:
    folder, store = tmp_path / "version", open_store(f"file:{tmp_path / 'store'}", create=True)
    write_version(folder, shop_model(), items=shop_table())
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["checksum"]
    created = datetime.now(UTC) - timedelta(days=45, hours=1)
    write_manifest(folder, manifest | {"created": created.isoformat(timespec="seconds")})
    store.upload(folder)
    store.activate(manifest["name"])
    with service_here(store.url) as service:
        assert warnings_of(service) == [f"version {manifest['name']} is 45 days old: publish a new one"]
        wait_until(lambda: value_of(service, "lorentzrec_version_age_seconds") >= 45 * 86_400)
    store.close()


def test_calls_to_the_store_are_timed(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url) as service:
        assert service.post("/v1/events", json={"user": "ann", "item": "i1"}).status_code == 200
        assert service.get("/v1/users/ann/history").status_code == 200
        assert value_of(service, 'lorentzrec_store_seconds_count{operation="write"}') >= 1
        assert value_of(service, 'lorentzrec_store_seconds_count{operation="read"}') >= 1
        assert value_of(service, 'lorentzrec_store_seconds_count{operation="poll"}') >= 1
    store.close()


def a_record(process: int, beat: float, **parts: Any) -> WorkerRecord:
    usual: dict[str, Any] = {"model": "m", "problem": None, "warnings": []}
    return WorkerRecord(process=process, beat=beat, **usual | parts)


def test_a_record_is_read_as_it_was_written_last(tmp_path: Path) -> None:
    own = RecordFile(tmp_path, os.getpid())
    assert read_records(tmp_path) == [], "nothing is written yet"
    now = time.monotonic()
    own.write(a_record(os.getpid(), now, problem="none yet", warnings=["long" * 100]))
    own.write(a_record(os.getpid(), now, warnings=["short"]))
    (found,) = read_records(tmp_path)
    assert (found.problem, found.warnings) == (None, ["short"])
    own.write(a_record(os.getpid(), now, warnings=[f"{number} " + "x" * 900 for number in range(100)]))
    (found,) = read_records(tmp_path)
    assert found.warnings[-1] == "there are more warnings, and the log of the service has them"
    remove_record(tmp_path, os.getpid())
    assert read_records(tmp_path) == []
    own.write(a_record(os.getpid(), now))
    assert len(read_records(tmp_path)) == 1, "a temporary folder that was cleaned up is written again"
    ended = RecordFile(tmp_path, 2**22 + 1)  # no process has such an id
    ended.write(a_record(2**22 + 1, now))
    assert [record.process for record in read_records(tmp_path)] == [os.getpid()]


def test_every_worker_has_to_be_well() -> None:
    now = time.monotonic()
    well, broken = a_record(1, now, warnings=["a", "b"]), a_record(2, now, problem="no version", warnings=["b"])
    assert find_problems([well, a_record(2, now)], 2) == []
    assert find_problems([well], 2) == ["1 of 2 workers are starting"]
    assert find_problems([], 1) == ["1 of 1 worker is starting"]
    assert find_problems([well, broken, broken], 3) == ["no version"]
    (problem,) = find_problems([well, a_record(7, now - STALE_SECONDS - 5)], 2)
    assert re.fullmatch(r"the worker 7 has not responded for \d+ seconds", problem)
    assert merge_warnings([well, broken]) == ["a", "b"]
    assert find_hung([well, a_record(7, now), a_record(8, now - HUNG_SECONDS - 5)]) == [8]
