"""The service as processes: workers that handle requests, a parent that replaces dead ones, and their log."""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server import MPServer

from lorentzrec.base.atomic import scratch_directory
from lorentzrec.errors import InputError
from lorentzrec.serving.http.keys import ApiKeys
from lorentzrec.serving.http.parent_watch import end_with_parent
from lorentzrec.serving.http.probes import ProbeListener
from lorentzrec.serving.settings import SERVICE_FOLDER, ServiceSettings
from lorentzrec.serving.worker.worker_records import remove_record

SHORT_LIFE = 10.0
"""Seconds. A worker that ends sooner, and not by a signal, could not start."""
MOST_SHORT_LIVES = 5
"""After this many in a row the service ends, since its workers cannot start."""
OTHER_FILES = 512
"""File descriptors that a worker needs in addition to those of connections."""

logger = logging.getLogger("lorentzrec.serving")


def run(settings: ServiceSettings, listening: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are finished first. `listening` is called with the port bound.

    Workers are processes of their own. One that dies is replaced; all end with their parent, even if that is killed.
    SIGHUP makes the parent read the file of API keys again.
    """
    _bind(settings.host, settings.port, "--port").close()
    probe_port = settings.probe_port
    listener = None if probe_port is None else _bind(settings.host, probe_port, "--probe-port")
    _choose_start_method()
    _allow_files(settings.connections + OTHER_FILES)
    set_up_logging(settings.log_format, settings.log_level)
    with scratch_directory("serve") as folder:
        os.environ[SERVICE_FOLDER] = str(folder)
        try:
            keys = None if settings.api_key_file is None else ApiKeys(settings.api_key_file, Path(folder))
            server = _Server(
                "lorentzrec",
                address=settings.host,
                port=settings.port,
                interface=Interfaces.ASGI,
                # Browsers and most gateways use HTTP/2 only with TLS, and what is off cannot be attacked.
                http=HTTPModes.http1,
                workers=settings.workers,
                backpressure=settings.connections,
                http1_settings=HTTP1Settings(header_read_timeout=int(1000 * settings.idle_seconds)),
                websockets=False,
                respawn_failed_workers=True,
                workers_kill_timeout=settings.shutdown_seconds,
                log_enabled=False,
            )
            server.keys, server.folder = keys, Path(folder)
            if listener is not None:
                server.probes = ProbeListener(
                    listener, Path(folder), settings.workers, stopping=lambda: server.interrupt_signal
                )
            server.on_startup(listening)
            _import_application()
            server.serve(target_loader=partial(_load, settings, keys, os.getpid()), wrap_loader=False)
        finally:
            del os.environ[SERVICE_FOLDER]


class _Server(MPServer):
    """Granian's server with another main loop: deaths are logged and counted, and SIGHUP reloads keys.

    Granian ends the service when a worker dies twice within a few seconds, for any reason, and can miss the second of
    two deaths at the same time.
    """

    keys: ApiKeys | None = None
    folder: Path
    probes: ProbeListener | None = None

    def _spawn_workers(self, spawn_target: Any, target_loader: Any) -> None:
        super()._spawn_workers(spawn_target, target_loader)  # type: ignore[no-untyped-call]
        if self.probes is not None:
            self.probes.start()

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        from prometheus_client.multiprocess import mark_process_dead

        from lorentzrec.serving.worker.metrics import worker_deaths

        deaths, short_lives = worker_deaths(), 0
        names = {number.value: number.name for number in signal.Signals}  # without most real-time signals
        while not self.interrupt_signal:
            self.main_loop_interrupt.wait()
            self.main_loop_interrupt.clear()  # first, so that nothing that happens from now on is missed
            if self.reload_signal:
                self.reload_signal = False
                if self.keys is not None:
                    self.keys.reload()
                else:
                    logger.warning("there are no keys to reload: the service was started without --api-key-file")
            while self.interrupt_children and not self.interrupt_signal:
                index = self.interrupt_children.pop(0)
                worker = self.wrks[index]
                deaths.inc()
                mark_process_dead(worker.inner.pid)  # type: ignore[no-untyped-call]
                remove_record(self.folder, worker.inner.pid)
                code: int = worker.inner.exitcode
                end = f"exit code {code}" if code >= 0 else f"signal {names.get(-code, -code)}"
                logger.warning("worker %d (pid %s) died (%s); it is replaced", index + 1, worker.inner.pid, end)
                failed_to_start = code > 0 and time.monotonic() < worker.birth + SHORT_LIFE
                short_lives = short_lives + 1 if failed_to_start else 0
                if short_lives >= MOST_SHORT_LIVES:
                    logger.error("workers die as soon as they start: the service ends; see the lines before this one")
                    self.interrupt_children.append(index)  # the exit code is then 1
                    return
                self._respawn_workers([index], spawn_target, target_loader, delay=0)


def _load(settings: ServiceSettings, keys: ApiKeys | None, parent: int) -> Any:
    """The application, in the process of a worker. `parent`: the id of its parent."""
    end_with_parent(parent)  # before anything that takes time
    # The handler of the parent, which a forked worker inherits, would swallow it until the worker has started.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # for the parent, but a terminal sends it to all
    set_up_logging(settings.log_format, settings.log_level)
    from lorentzrec.serving.http.app import create_app

    app = create_app(settings, keys)
    # Everything loaded so far stays, so the collector need not scan it: that would delay requests by 50 ms.
    gc.collect()
    gc.freeze()
    return app


def _choose_start_method() -> None:
    """On Linux, fork workers in every release of Python: `end_with_parent` needs workers that are children of this
    process, and those of a fork server are not."""
    if sys.platform == "linux":
        multiprocessing.set_start_method("fork", force=True)


def _import_application() -> None:
    """Import what the workers need before they are forked, once for all of them. The environment must be set."""
    if multiprocessing.get_start_method() == "fork":
        from litestar import Litestar

        from lorentzrec.serving.http import app  # noqa: F401

        Litestar(logging_config=None)  # it imports its plugins when it is made
        gc.freeze()  # or the collector would write to all of it in each worker, and so copy it


def _allow_files(count: int) -> None:
    """Raise the limit on open files as far as this process may: the usual 1,024 is less than its connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _bind(host: str, port: int, option: str) -> socket.socket:
    """A socket at an address. A worker could report an address that is taken only as a traceback."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen()  # or another service could bind to it as well
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise InputError(
            f"cannot listen at {host}:{port} ({error.strerror}): choose another --host or {option}"
        ) from None
    return bound


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def set_up_logging(form: Literal["text", "json"], level: Literal["info", "warning"] = "info") -> None:
    """Send the log of this process to standard error, from this level on."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    for name in ("lorentzrec", "_granian"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
