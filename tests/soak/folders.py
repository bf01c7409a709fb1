"""The folder of a file store is moved away and back, or replaced by an older copy, under event load."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from tests.serving.event_load import EventLoad
from tests.serving.running_service import shop_store
from tests.soak.outcome import Outcome
from tests.soak.service import ENOUGH, Service, running


def moved_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    """Everything that was acknowledged, before, during and after, is in the folder that came back."""
    place, away = folder / "store", folder / "away"
    url = _new_store(folder)
    with running(Service(url, folder)) as service:
        loads = []
        for number in rounds:
            load = EventLoad(service.url, label=f"round {number}")
            loads.append(load)
            with load:
                load.wait_for(ENOUGH)
                place.rename(away)
                time.sleep(random.uniform(0.1, 3))
                _put(away, place)
                load.wait_for(ENOUGH)
            outcome.done += 1
        for load in loads:
            outcome.compare(load, url)


def replaced_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    """An older copy takes the place of the folder: what is acknowledged from then on is in the copy."""
    place, older = folder / "store", folder / "older"
    url = _new_store(folder)
    shutil.copytree(place, older)
    with running(Service(url, folder)) as service:
        for number in rounds:
            copy = folder / f"copy-{number}"
            shutil.copytree(older, copy)
            with EventLoad(service.url, label=f"round {number}") as load:
                load.wait_for(ENOUGH)
                place.rename(folder / f"replaced-{number}")
                if number % 2:
                    time.sleep(random.uniform(0.1, 2))
                _put(copy, place)
                replaced = time.monotonic()
                load.wait_for(4 * ENOUGH)
            outcome.compare(load, url, since=replaced)
            outcome.done += 1


def _new_store(folder: Path) -> str:
    store = shop_store(folder)
    store.close()
    return store.url


def _put(folder: Path, place: Path) -> None:
    """A service that made an empty folder in its place would be at fault: the renaming then fails, and so the check."""
    folder.rename(place)
