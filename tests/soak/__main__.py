"""`python -m tests.soak`: every check or some of them, a table, and exit code 1 if anything was lost or went wrong."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.emulators import CosmosEmulator, MissingServer
from tests.soak import daily_days, folders, key_rotation, kills, model_rounds, slow_bodies, starts
from tests.soak.outcome import Outcome, table

ROUNDS, MINUTES = 30, 60.0
CHECKS: dict[str, tuple[Callable[[Outcome, Iterable[int], Path], None], Callable[[int], int]]] = {
    "kills-file": (kills.file_kills, lambda rounds: rounds),
    "kills-postgres": (kills.postgres_kills, lambda rounds: rounds),
    "kills-cosmos": (kills.cosmos_kills, lambda rounds: rounds),
    "kills-at-start": (starts.start_kills, lambda rounds: rounds * 10 // 3),
    "model-file": (model_rounds.file_model, lambda rounds: rounds),
    "model-postgres": (model_rounds.postgres_model, lambda rounds: rounds),
    "model-cosmos": (model_rounds.cosmos_model, lambda rounds: rounds),
    "folder-moved": (folders.moved_rounds, lambda rounds: max(1, rounds // 3)),
    "folder-replaced": (folders.replaced_rounds, lambda rounds: max(1, rounds // 5)),
    "slow-bodies": (slow_bodies.slow_body_rounds, lambda rounds: 1),
    "daily": (daily_days.daily_days, lambda rounds: 1),
    "key-rotation": (key_rotation.rotation_rounds, lambda rounds: max(1, rounds // 3)),
}
"""Each check, and the number of its rounds by that of the kills."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Long rounds of faults against the real service.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of kill -9 for each store ({ROUNDS})")
    parser.add_argument("--only", action="append", choices=CHECKS, help="one check; may be given again")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"no round begins later than this ({MINUTES:g})")
    arguments = parser.parse_args()
    # Everything that was started is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["COSMOS_KEY"] = CosmosEmulator.KEY
    deadline = time.monotonic() + 60 * arguments.minutes
    outcomes = [_outcome(name, arguments.rounds, deadline) for name in arguments.only or CHECKS]
    print(table(outcomes))
    return 0 if all(one.holds for one in outcomes) else 1


def _outcome(name: str, rounds: int, deadline: float) -> Outcome:
    check, planned = CHECKS[name]
    outcome = Outcome(name, planned(rounds))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lorentzrec-soak-", ignore_cleanup_errors=True) as folder:
        try:
            check(outcome, _until(deadline, outcome), Path(folder))
        except MissingServer as missing:
            outcome.skipped = True
            outcome.notes.append(str(missing))
        except Exception as error:
            outcome.fault(f"broken off: {type(error).__name__}: {error}", broken_off=1)
    seconds = time.monotonic() - begun
    print(f"{name}: {outcome.done} of {outcome.planned} rounds in {seconds:.0f} s: {outcome.result}", flush=True)
    return outcome


def _until(deadline: float, outcome: Outcome) -> Iterator[int]:
    for number in range(outcome.planned):
        if time.monotonic() > deadline:
            outcome.notes.append("no time was left for more rounds")
            return
        yield number


if __name__ == "__main__":
    sys.exit(main())
