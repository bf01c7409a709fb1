"""Publishes and rollbacks by processes that may die at the commit, and the log of activations they can leave."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import closing

import httpx

from lorentzrec.serving.stores.address import open_store
from tests.soak.possible_states import PossibleStates, ViolationError
from tests.soak.publisher import NOTHING_LEFT
from tests.soak.service import PATIENCE, wait_for

Log = tuple[tuple[str, str | None], ...]
"""The activated versions, oldest first, each with the version that it rejected."""


def roll_back(log: Log) -> Log:
    """The log after a rollback: the newest version that no rollback left, and that is not the current one."""
    current = log[-1][0]
    rejected = {version for _, version in log} | {current}
    standing = [version for version, _ in log if version not in rejected]
    return (*log, (standing[-1], current)) if standing else log


class Publishers:
    """One publisher after the other."""

    def __init__(self, url: str, seed: int) -> None:
        self._url, self._random = url, random.Random(seed)
        with closing(open_store(url)) as store:
            start: Log = tuple((one.version, one.rejected) for one in store.activations())
        self.log = PossibleStates[Log]("activations", start)

    def step(self) -> None:
        action = self._random.choice(("publish", "publish", "rollback"))
        command = [sys.executable, "-m", "tests.soak.publisher", self._url, action]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE, check=False)
        if done.returncode not in (0, NOTHING_LEFT, -9):
            raise ViolationError(f"{action} ended with {done.returncode}: {done.stderr[-500:]}")
        acknowledged = done.returncode != -9
        if action == "publish":
            if name := done.stdout.strip():
                self.log.change(lambda log: (*log, (name, None)), acknowledged=acknowledged)
        else:
            if acknowledged:
                possible = done.returncode == 0
                self.log.observe(lambda log: (roll_back(log) != log) == possible, f"{action}: {done.stdout.strip()}")
            self.log.change(roll_back, acknowledged=acknowledged)
        self.log.settle()  # the process has ended

    def check_store(self) -> None:
        with closing(open_store(self._url)) as store:
            seen: Log = tuple((one.version, one.rejected) for one in store.activations())
        self.log.observe(lambda log: log == seen, f"the store holds {seen}")

    def check_service(self, url: str) -> None:
        """Within a while, the service uses the current version."""
        (log,) = self.log.states

        def followed() -> bool:
            try:
                response = httpx.get(f"{url}/v1/model", timeout=PATIENCE)
            except httpx.TransportError:
                return False
            return response.status_code == 200 and response.json()["model"] == log[-1][0]

        wait_for(followed, f"version {log[-1][0]} in the service")
