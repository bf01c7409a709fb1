"""`python -m tests.soak.kill_points COMMAND ...`: the command line, whose processes die at random right before or after
a commit to the store. SOAK_KILL_SHARE is the share of commits at which that happens."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from typing import Any

from lorentzrec.serving.stores import address
from lorentzrec.serving.stores.store import Store

SHARE = "SOAK_KILL_SHARE"
COMMITS = (
    "_activate",
    "_add_events",
    "_forget",
    "_set_live_items",
    "_change_live_items",
    "_change_new_items",
)
"""The methods of a store that end with a commit."""


def add_kill_points(open_store: Callable[..., Store], share: float) -> Callable[..., Store]:
    """A function that opens stores whose commits may end the process, without any clean-up."""

    def open_with_kill_points(*arguments: Any, **options: Any) -> Store:
        store = open_store(*arguments, **options)
        for name in COMMITS:
            setattr(store, name, _may_die(getattr(store, name), share))
        return store

    return open_with_kill_points


def _may_die(commit: Callable[..., Any], share: float) -> Callable[..., Any]:
    def commit_or_die(*arguments: Any, **options: Any) -> Any:
        # Not the generator that forked workers share: they would all die at the same commit.
        fate = random.SystemRandom().random()
        if fate < share / 2:
            os.kill(os.getpid(), signal.SIGKILL)
        result = commit(*arguments, **options)
        if fate > 1 - share / 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return commit_or_die


def main() -> None:
    from lorentzrec.cli import main as run_command_line

    address.open_store = add_kill_points(address.open_store, float(os.environ[SHARE]))
    run_command_line()


if __name__ == "__main__":
    main()
