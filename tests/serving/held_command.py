"""A backup or a restore in a process of its own that stops at one of its stages, to be killed there.

    python held_command.py backup STORE FOLDER STAGE
    python held_command.py restore FOLDER STORE STAGE

It prints `now` when the stage begins, and waits until its input ends.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.upkeep.backup import restore_backup, write_backup

command, source, target, wanted = sys.argv[1:]


def hold(stage: str, share: float) -> None:
    if stage.startswith(wanted):
        print("now", flush=True)
        sys.stdin.read()


if command == "backup":
    with closing(open_store(source)) as store:
        write_backup(store, Path(target), hold)
else:
    restore_backup(Path(source), target, hold)
