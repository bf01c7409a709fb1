"""The service as processes: workers that answer, and a parent that keeps them going."""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

from granian import Granian
from granian.constants import Interfaces

from lorentzrec.atomic import scratch_directory
from lorentzrec.errors import InputError
from lorentzrec.serving.logs import set_up_logging
from lorentzrec.serving.settings import ServiceSettings

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Named here again, since `metrics.py` may be imported only once this is set."""


def run(settings: ServiceSettings, listening: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT; requests under way are finished first. `listening` is called with the port bound.

    Workers are processes of their own. One that dies is replaced; all end with their parent, even if that is killed.
    """
    _check_address(settings.host, settings.port)
    set_up_logging(settings.log_format, settings.log_level)
    with scratch_directory("metrics") as folder:
        os.environ[METRICS_FOLDER] = str(folder)
        try:
            server = Granian(
                "lorentzrec",
                address=settings.host,
                port=settings.port,
                interface=Interfaces.ASGI,
                workers=settings.workers,
                websockets=False,
                respawn_failed_workers=True,
                workers_kill_timeout=settings.shutdown_seconds,
                log_enabled=False,
            )
            server.on_startup(listening)
            server.serve(target_loader=partial(_load, settings), wrap_loader=False)
        finally:
            del os.environ[METRICS_FOLDER]


def _load(settings: ServiceSettings) -> Any:
    """The application, in the process of a worker."""
    from lorentzrec.serving.app import create_app

    set_up_logging(settings.log_format, settings.log_level)
    Thread(target=_end_with, args=(os.getppid(),), name="parent", daemon=True).start()
    app = create_app(settings)
    # What is loaded by now stays: the collector need not look through it again, which holds up answers for 50 ms.
    gc.collect()
    gc.freeze()
    return app


def _end_with(parent: int) -> None:
    """Stop this worker once its parent is gone: orphans would keep the port, and nobody could stop them together."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _check_address(host: str, port: int) -> None:
    """Say in one line what a worker could only say in a traceback."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as attempt:
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
    except OSError as error:
        raise InputError(
            f"cannot listen at {host}:{port} ({error.strerror}): choose another --host or --port"
        ) from None
