"""The command line: `lorentzrec COMMAND`, or `python -m lorentzrec`."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def main() -> None:
    """Run the `lorentzrec` script.

    The commands are imported here and not at the top, so that Ctrl-C during the imports is handled, too: one line and
    the exit code 130, even if an import turns it into another exception, or Python drops it: callbacks, of which every
    import has one, cannot raise anything.
    """
    report_dropped = sys.unraisablehook

    def interrupt_main_thread() -> None:
        if hasattr(signal, "pthread_kill"):  # also ends a call that blocks
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            _thread.interrupt_main()

    def raise_again(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            threading.Timer(0.01, interrupt_main_thread).start()  # the callback has ended by then
        else:
            report_dropped(dropped)

    sys.unraisablehook = raise_again
    ignored = signal.getsignal(signal.SIGINT) is not signal.default_int_handler  # as in a background job
    received = [] if ignored else interrupt_on(signal.SIGINT)
    try:
        from lorentzrec.cli.application import app

        app(prog_name="lorentzrec")
    except (Exception, KeyboardInterrupt):
        if not received:
            raise
        print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    finally:
        sys.unraisablehook = report_dropped


def interrupt_on(wanted: signal.Signals) -> list[int]:
    """Raise `KeyboardInterrupt` on a signal from now on; it is then in the list."""
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    signal.signal(wanted, interrupt)
    return received
