"""The parent of a service is killed at moments of its workers' start: no worker survives it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from lorentzrec_paper.servers import free_port
from tests.serving.running_service import PATIENCE, shop_store, wait_until

HELD_UP = """
import importlib.abc, os, pathlib, sys, time

moment, store, port, notes = sys.argv[1:]
parent = os.getpid()

def hold_up():
    # At the fork until the parent is gone, later for ever.
    pathlib.Path(notes, str(os.getpid())).touch()
    while os.getppid() == parent or moment != "fork":
        time.sleep(0.01)

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "lorentzrec.serving.http.app" and moment == "start":
            from lorentzrec.serving.worker.version_watcher import VersionWatcher
            VersionWatcher.start = lambda self: hold_up()

if moment == "fork":
    os.register_at_fork(after_in_child=hold_up)
sys.meta_path.insert(0, Finder())
from lorentzrec.serving.http.server import run
from lorentzrec.serving.settings import ServiceSettings

run(ServiceSettings(store, port=int(port), workers=2))
"""
"""A service whose workers do not get past a moment of their start before their parent is killed."""


STARTED_BY = """
import multiprocessing, sys

method, store, port = sys.argv[1:]
multiprocessing.set_start_method(method)
from lorentzrec.serving.http.server import run
from lorentzrec.serving.settings import ServiceSettings

run(ServiceSettings(store, port=int(port), workers=1))
"""
"""A service in a Python that starts processes in another way, as other releases of Python do."""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_start_and_stay_however_python_starts_processes(tmp_path: Path, method: str) -> None:
    """A worker that is not a child of the service itself would take itself for an orphan, and end."""
    shop_store(tmp_path).close()
    port = free_port()
    command = [sys.executable, "-c", STARTED_BY, method, f"file:{tmp_path / 'store'}", str(port)]

    def is_ready() -> bool:
        assert parent.poll() is None, (tmp_path / "log").read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE).status_code == 200
        except httpx.TransportError:
            return False

    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(is_ready)
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(PATIENCE) == 0
        assert "died" not in (tmp_path / "log").read_text()
    finally:
        if parent.poll() is None:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.wait(PATIENCE)


@pytest.mark.parametrize("moment", ["fork", "start"])
def test_workers_end_with_a_parent_that_is_killed_while_they_start(tmp_path: Path, moment: str) -> None:
    shop_store(tmp_path).close()
    notes = tmp_path / "notes"
    notes.mkdir()
    port = free_port()
    command = [sys.executable, "-c", HELD_UP, moment, f"file:{tmp_path / 'store'}", str(port), str(notes)]
    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: len(list(notes.iterdir())) == 2)
        parent.kill()
        parent.wait(PATIENCE)
        wait_until(lambda: not any(Path(f"/proc/{note.name}").exists() for note in notes.iterdir()))
        with socket.socket() as again:
            again.bind(("127.0.0.1", port))
    finally:
        if parent.poll() is None:
            parent.kill()
            parent.wait(PATIENCE)
        for note in notes.iterdir():  # of the process group, since the id may be that of another process by now
            if Path(f"/proc/{note.name}").exists() and os.getpgid(int(note.name)) == parent.pid:
                os.kill(int(note.name), signal.SIGKILL)
