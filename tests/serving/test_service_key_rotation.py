"""Keys replaced while a service runs: every worker uses the same ones, also workers that start later."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import httpx
import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.http.keys import ApiKeys
from tests.serving.running_service import Service, service_process, shop_store, wait_until

FIRST = "first-key-0123456789"
ROUNDS, DECISIONS = 5, 200


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text(FIRST)
    return path


@pytest.fixture
def service(tmp_path: Path, keys: Path) -> Iterator[Service]:
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path, "--workers", "2", "--api-key-file", str(keys)) as running:
        yield running
    store.close()


def status(service: Service, key: str) -> int:
    """What a request with this key gets. Each has a connection of its own, and so meets any worker that is alive."""
    while True:
        try:
            return service.http.get("/v1/model", headers={"X-API-Key": key, "Connection": "close"}).status_code
        except httpx.TransportError:
            assert service.process.poll() is None, service.log.read_text()


def reload(service: Service, line: str) -> None:
    """Send SIGHUP and wait for a line of the log."""
    before = service.log.read_text().count(line)
    service.process.send_signal(signal.SIGHUP)
    wait_until(lambda: service.log.read_text().count(line) > before)


def workers(service: Service) -> list[int]:
    children = Path(f"/proc/{service.process.pid}/task").glob("*/children")
    return sorted(int(one) for tasks in children for one in tasks.read_text().split())


def kill_a_worker(service: Service) -> None:
    os.kill(workers(service)[0], signal.SIGKILL)


def test_keys_rotated_while_workers_die(service: Service, keys: Path) -> None:
    """From the line `keys reloaded` on, no worker accepts an old key or refuses the new one."""
    old = FIRST
    with ThreadPoolExecutor(4) as pool:
        for number in range(ROUNDS):
            new = f"key-of-round-{number}-0123456789"
            keys.write_text(new)
            kill_a_worker(service)
            reload(service, "keys reloaded")
            sent = [old, new] * (DECISIONS // 2)
            decided = list(pool.map(lambda key: status(service, key), sent))
            assert decided == [401, 200] * (DECISIONS // 2)
            old = new


def test_an_unsound_file_changes_nothing(service: Service, keys: Path) -> None:
    for content in (b"short\n", b"\xff", b"# none\n"):
        keys.write_bytes(content)
        reload(service, "keys not reloaded, the current ones stay in use: ")
    keys.unlink()
    reload(service, "keys not reloaded, the current ones stay in use: ")
    (first, *_) = before = workers(service)
    os.kill(first, signal.SIGKILL)  # the new worker gets the keys from its parent, not from the file
    wait_until(lambda: len(set(workers(service)) - set(before)) == 1)
    assert {status(service, FIRST) for _ in range(50)} == {200}
    assert service.process.poll() is None
    assert FIRST not in service.log.read_text()


def test_a_service_without_keys_has_nothing_to_reload(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_process(store.url, tmp_path, "--workers", "1") as running:
        reload(running, "there are no keys to reload")
        assert running.http.get("/v1/model").status_code == 200
        assert running.stop() == 0
    store.close()


def writes(keys: ApiKeys, key: str) -> bool | None:
    found = keys.find(key)
    return None if found is None else found.writes


def test_the_shared_file_holds_no_key_and_is_private(tmp_path: Path, keys: Path) -> None:
    shared = ApiKeys(keys, tmp_path)
    (file,) = tmp_path.glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert FIRST not in file.read_text()
    assert (writes(shared, FIRST), writes(shared, "other")) == (True, None)
    file.unlink()  # temporary folders are cleaned up by some systems
    assert (writes(shared, FIRST), writes(shared, "other")) == (True, None)
    keys.write_text("other-key-0123456789 read")
    shared.reload()
    assert (writes(shared, FIRST), writes(shared, "other-key-0123456789")) == (None, False)
    with pytest.raises(InputError):
        ApiKeys(tmp_path / "none.txt", tmp_path)


def test_the_file_of_keys_is_read_once_so_that_it_may_be_a_pipe(tmp_path: Path) -> None:
    store, keys = shop_store(tmp_path), tmp_path / "pipe"
    os.mkfifo(keys)
    Thread(target=keys.write_text, args=(FIRST,), daemon=True).start()
    with service_process(store.url, tmp_path, "--api-key-file", str(keys)) as running:
        assert status(running, FIRST) == 200
    store.close()
