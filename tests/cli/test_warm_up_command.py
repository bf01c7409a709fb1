"""The command that compiles kernels ahead of time: what it reports as compiled."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

from lorentzrec.learning.kernels.compiling import WAITING
from tests.cli.command_line import run, run_json, start

SETTINGS = ("--set", "model=symmetric", "--set", "loss=bpr")


def test_what_another_process_has_compiled_is_not_reported_as_compiled() -> None:
    folder = Path(run_json("warm-up", *SETTINGS)["folder"])
    assert run_json("warm-up", *SETTINGS)["compiled"] is False
    assert run("warm-up", *SETTINGS).stdout == f"The training kernels are compiled already, in {folder}\n"
    with (folder / "lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = start("warm-up", *SETTINGS, "--json")
        assert waiting.stderr is not None
        assert waiting.stderr.readline().strip() == WAITING
    assert json.loads(waiting.communicate(timeout=300)[0])["compiled"] is False
