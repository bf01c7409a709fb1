"""A small shop in which three groups of customers buy from ten items each, and a model of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cli.command_line import SETTINGS, make


@pytest.fixture(scope="session")
def events_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 customers u0, u1, ... with 12 events each; u0, u3, ... buy i0 to i9, u1, u4, ... i10 to i19, and so on."""
    draw = random.Random(1)
    path = tmp_path_factory.mktemp("events") / "events.csv"
    rows = [(f"u{user}", f"i{user % 3 * 10 + draw.randrange(10)}") for user in range(60) for _ in range(12)]
    lines = [f"{user},{item},{time}" for time, (user, item) in enumerate(rows)]
    path.write_text("\n".join(["user,item,time", *lines]) + "\n")
    return path


@pytest.fixture(scope="session")
def shop(events_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events as a dataset with parts train (600 events), validation and test (60 each)."""
    return make(tmp_path_factory.mktemp("datasets") / "shop", "prepare", events_file, "--split", "leave_last_two")


@pytest.fixture(scope="session")
def model(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the training part."""
    return make(tmp_path_factory.mktemp("models") / "model", "train", shop, *SETTINGS)


@pytest.fixture(scope="session")
def titles_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("titles") / "items.csv"
    path.write_text("item,title\n" + "".join(f"i{number},Item [{number}]\n" for number in range(30)))
    return path
