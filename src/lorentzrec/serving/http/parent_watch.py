"""A worker ends with its parent: an orphan would keep the port and go on with old settings and old keys."""

from __future__ import annotations

import os
import signal
import sys
import time
from threading import Thread

POLL_SECONDS = 1.0
PR_SET_PDEATHSIG = 1
"""Linux: send a signal to this process when its parent ends (`man 2 prctl`)."""


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, at once and by SIGKILL: a worker that starts or ends obeys nothing else.

    parent: the id of the parent, read by the parent itself. A worker that reads it may already be an orphan, whose
        parent is another process.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before Linux was asked
        os._exit(1)
    Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()


def _watch(parent: int) -> None:
    """For systems that send no signal."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
