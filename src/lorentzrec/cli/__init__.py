"""The command line: `lorentzrec COMMAND`, or `python -m lorentzrec`."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_received: list[signal.Signals] = []
"""Signals that interrupted the command."""


def main() -> None:
    """Run the `lorentzrec` script.

    SIGINT and SIGTERM raise `KeyboardInterrupt`. The commands are imported here and not at the top, so that a signal
    during the imports is handled, too: one line and the exit code 130 or 143, even if an import turns it into another
    exception, or Python drops it: callbacks, of which every import has one, cannot raise anything.
    """
    report_dropped = sys.unraisablehook

    def interrupt_main_thread() -> None:
        number = _received[-1] if _received else signal.SIGINT  # Spark has a handler of its own
        if hasattr(signal, "pthread_kill"):  # also ends a call that blocks
            signal.pthread_kill(threading.main_thread().ident or 0, number)
        else:
            _thread.interrupt_main(number)

    def raise_again(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            threading.Timer(0.01, interrupt_main_thread).start()  # the callback has ended by then
        else:
            report_dropped(dropped)

    sys.unraisablehook = raise_again
    for wanted, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(wanted) is usual:  # a background job ignores SIGINT
            signal.signal(wanted, _interrupt)
    try:
        from lorentzrec.cli.application import app

        app(prog_name="lorentzrec")
    except (Exception, KeyboardInterrupt):
        if not _received:
            raise
        code, line = end_by_signal()
        print(line, file=sys.stderr)
        sys.exit(code)
    finally:
        sys.unraisablehook = report_dropped


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(signal.Signals(number))
    raise KeyboardInterrupt


def end_by_signal() -> tuple[int, str]:
    """The exit code of a command that was interrupted, and what to print: by the first signal if there were several."""
    number = _received[0] if _received else signal.SIGINT
    return 128 + number, f"stopped by {'Ctrl-C' if number == signal.SIGINT else number.name}"
