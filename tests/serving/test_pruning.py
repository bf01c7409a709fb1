"""Old events are removed from a store in use: no event that a service acknowledges is lost or refused."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from threading import Event as Signal
from threading import Thread

import pytest

from lorentzrec.serving.stores import sql_store
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event
from tests.serving.running_service import PATIENCE, published, service_process, wait_until


def test_a_service_accepts_events_while_old_ones_are_removed(
    any_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_store, "PRUNED_EVENTS", 50)
    sent: list[int] = []
    statuses: list[int] = []
    over, now = Signal(), time.time()
    with closing(open_store(any_url, create=True)) as store:
        published(store, tmp_path)
        users = [f"u{n:02d}" for n in range(30)]
        store.add_events([Event(user, f"i{n}", n, str(n)) for user in users for n in range(20)])
        options = ("--workers", "1", "--cache", str(tmp_path / "cache"))
        with service_process(any_url, tmp_path, *options) as service:

            def write() -> None:
                while not over.is_set():
                    number = len(statuses)
                    # Of a customer whose old events are being removed, and as recent as can be.
                    event = {"user": users[number % 30], "item": "i1", "time": now - 1000 + number, "id": f"w{number}"}
                    statuses.append(service.http.post("/v1/events", json=event).status_code)
                    sent.append(number)

            writer = Thread(target=write)
            writer.start()
            try:
                wait_until(lambda: len(sent) >= 5)
                removed = sum(step.events for step in store.prune_events(1_000_000, 5))
                known = len(sent)
                wait_until(lambda: len(sent) > known)
            finally:
                over.set()
                writer.join(PATIENCE)
        assert set(statuses) == {200}
        assert removed >= 30 * 15, "all but the newest five, which may be recent ones"
        for position, user in enumerate(users):
            recent = [event.time for event in store.history(user) if event.time > 1_000_000]
            assert recent == [now - 1000 + number for number in sent if number % 30 == position]
