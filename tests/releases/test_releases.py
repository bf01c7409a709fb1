"""What released versions wrote is read, gives the same lists, and can be worked with. `write.py` writes it."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lorentzrec
from lorentzrec import Interactions, load, update
from lorentzrec.serving.stores.activations import find_arms
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.upkeep.verification import verify
from tests.cli.command_line import run, run_json
from tests.releases.write import ARM, CUSTOMERS, ERASED, HERE, ITEMS, LISTS, REMOVED, SETTINGS, ask, copy_store, write
from tests.serving.running_service import service_here

RELEASES = sorted(path for path in HERE.iterdir() if (path / "expected.json").is_file())


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def expected_of(release: Path) -> Any:
    return json.loads((release / "expected.json").read_text())


def live_version(address: str) -> str:
    """The version of the arm main."""
    return str(run_json("arms", address)["arms"]["main"]["version"])


def test_every_release_is_kept() -> None:
    """The first release and the version of the package have their folders."""
    assert {"1.0.0", lorentzrec.__version__} <= {release.name for release in RELEASES}


def test_a_model_gives_the_same_lists(release: Path) -> None:
    model = load(release / "model")
    assert {name: make(model) for name, make in LISTS.items()} == expected_of(release)["lists"]


def test_a_model_is_saved_and_updated(release: Path, tmp_path: Path) -> None:
    model = load(release / "model")
    model.save(tmp_path / "again")
    assert np.array_equal(load(tmp_path / "again").item_points, model.item_points)
    assert model.newest_time is not None
    times = [model.newest_time + 60, model.newest_time + 120]
    newer = Interactions.from_pairs(["c01", "c01"], ["p0001", "p0002"], times=times)
    assert update(model, newer).item_ids == model.item_ids


def test_a_dataset_is_read_appended_to_and_trained_on(release: Path, tmp_path: Path) -> None:
    shutil.copytree(release / "dataset", tmp_path / "dataset")
    before = Interactions.from_dataset(tmp_path / "dataset")
    assert len(before) == 600
    newest = float(before.times.max()) if before.times is not None else 0.0
    (tmp_path / "more.csv").write_text(f"user,item,time,order\nc01,p0003,{int(newest) + 60},new\n")
    run("prepare", "--append", tmp_path / "more.csv", "--items", release / ITEMS, "--out", tmp_path / "dataset")
    assert len(Interactions.from_dataset(tmp_path / "dataset")) == 601
    run("train", tmp_path / "dataset", "--out", tmp_path / "model", *SETTINGS)


def test_a_store_is_sound_and_served(release: Path, tmp_path: Path) -> None:
    address = copy_store(release, tmp_path)
    run("store", "migrate", address)
    with closing(open_store(address)) as store:
        assert [part for part in verify(store) if part.damage] == []
        assert set(find_arms(store.activations())) == {"main", ARM}
        assert store.live_items().removed == [REMOVED]
        assert set(store.erasures([ERASED, CUSTOMERS[0]])) == {ERASED}
    with service_here(address) as service:
        assert ask(service) == expected_of(release)["service"]


def test_a_store_takes_a_new_version_and_goes_back(release: Path, tmp_path: Path) -> None:
    address = copy_store(release, tmp_path)
    before = live_version(address)
    run("publish", release / "model", "--to", address)
    assert live_version(address) != before
    run("publish", "--to", address, "--rollback")
    assert live_version(address) == before


def test_this_version_writes_what_the_tests_read(tmp_path: Path) -> None:
    write(tmp_path / "now")
    model = load(tmp_path / "now" / "model")
    assert {name: make(model) for name, make in LISTS.items()} == expected_of(tmp_path / "now")["lists"]
    assert expected_of(tmp_path / "now")["service"]["events"][ERASED] == 0
