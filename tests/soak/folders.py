"""The folder of a file store is moved away and back, or replaced by an older copy, under event load."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from lorentzrec.serving.stores.address import open_store
from serving.running_service import published
from soak.event_load import ENOUGH, EventLoad
from soak.outcome import Outcome
from soak.service import Service, running


def moved_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    """Whatever was acknowledged, before, meanwhile or afterwards, is in the folder that came back."""
    place, away = folder / "store", folder / "away"
    url = _new_store(place, folder)
    with running(Service(url, folder)) as service:
        loads = []
        for number in rounds:
            load = EventLoad(service.url, f"round {number}")
            loads.append(load)
            with load.sending():
                load.wait_for_more()
                place.rename(away)
                time.sleep(random.uniform(0.1, 3))
                _put(away, place)
                load.wait_for_more()
            outcome.done += 1
        for load in loads:
            load.compare(url, outcome)


def replaced_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    """An older copy takes the place of the folder: what is acknowledged from then on is in the copy."""
    place, older = folder / "store", folder / "older"
    url = _new_store(place, folder)
    shutil.copytree(place, older)
    with running(Service(url, folder)) as service:
        for number in rounds:
            copy = folder / f"copy-{number}"
            shutil.copytree(older, copy)
            load = EventLoad(service.url, f"round {number}")
            with load.sending():
                load.wait_for_more()
                place.rename(folder / f"replaced-{number}")
                if number % 2:
                    time.sleep(random.uniform(0.1, 2))
                _put(copy, place)
                replaced = time.monotonic()
                load.wait_for_more(4 * ENOUGH)
            load.compare(url, outcome, since=replaced)
            outcome.done += 1


def _new_store(place: Path, folder: Path) -> str:
    store = open_store(f"file:{place}", create=True)
    published(store, folder)
    store.close()
    return f"file:{place}"


def _put(folder: Path, place: Path) -> None:
    """A service that made an empty folder in its place would be at fault: the renaming then fails, and so the check."""
    folder.rename(place)
