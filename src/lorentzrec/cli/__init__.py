"""The command line: `lorentzrec COMMAND`, or `python -m lorentzrec.cli`. Commands are thin covers over the library."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from lorentzrec.cli.application import app as app


def main() -> None:
    """What the `lorentzrec` script runs.

    The commands are imported here and not above, so that Ctrl-C during the imports is handled, too: one line and the
    exit code 130, whatever exception an import made of it.
    """
    pressed = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it: so be it
        signal.signal(signal.SIGINT, interrupt)
    try:
        from lorentzrec.cli.application import app

        app(prog_name="lorentzrec")
    except (Exception, KeyboardInterrupt):
        if not pressed:
            raise
        print("stopped by Ctrl-C", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lorentzrec.cli.application import app

    return app
