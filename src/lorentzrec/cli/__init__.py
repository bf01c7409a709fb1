"""The command line: `lorentzrec COMMAND`, or `python -m lorentzrec`."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from lorentzrec.cli.application import app as app


def main() -> None:
    """Run the `lorentzrec` script.

    The commands are imported here and not at the top, so that Ctrl-C during the imports is handled, too: one line and
    the exit code 130, even if an import turns it into another exception, or Python drops it: callbacks, of which every
    import has one, cannot raise anything.
    """
    pressed = False
    report_dropped = sys.unraisablehook

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    def raise_again(dropped: sys.UnraisableHookArgs) -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            threading.Timer(0.01, _thread.interrupt_main).start()  # the callback has ended by then
        else:
            report_dropped(dropped)

    sys.unraisablehook = raise_again
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a background job ignores the signal
        signal.signal(signal.SIGINT, interrupt)
    try:
        from lorentzrec.cli.application import app

        app(prog_name="lorentzrec")
    except (Exception, KeyboardInterrupt):
        if not pressed:
            raise
        print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    finally:
        sys.unraisablehook = report_dropped


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lorentzrec.cli.application import app

    return app
