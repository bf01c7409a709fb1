"""Version folders: what goes in comes out, mapped into memory, and nothing damaged comes in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from lorentzrec.base import array_files
from lorentzrec.base.array_files import open_arrays, read_arrays, write_arrays
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.maps.disk_map import DiskMap
from lorentzrec.serving.stores.version_files import read_manifest
from lorentzrec.serving.versions.version import VERSION, drop_copies, open_version, write_version
from tests.serving.small_shop import CATEGORIES, ITEMS, shop_model, shop_table, shop_version

DISK = np.linspace(-0.5, 0.5, 2 * ITEMS, dtype=np.float32).reshape(ITEMS, 2)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versions") / "version"
    shop_version(
        folder,
        shop_model(targets="separate"),
        disk_map=DiskMap(DISK, "by hand", {"centre": 0.5}),
    ).items.close()
    return folder


@pytest.fixture
def copied(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "version"))


def test_everything_comes_back(written: Path) -> None:
    version, model = open_version(written), shop_model(targets="separate")
    assert version.name == json.loads((written / "manifest.json").read_text())["name"]
    assert np.array_equal(version.points.item_points, model.item_points)
    assert np.array_equal(version.points.history_points, model.history_points)
    assert (version.points.space.hyperbolic, version.points.space.by_distance, version.points.space.recency) == (
        True,
        True,
        0.5,
    )
    assert np.array_equal(version.points.item_counts, model.item_counts)
    assert version.categories == list(CATEGORIES)
    assert version.category_codes[:8].tolist() == [0, 1, 2, -1, 0, 1, 2, -1]
    assert version.map is not None
    assert np.array_equal(version.map, DISK)
    assert version.manifest["map"] == {"method": "by hand", "kept": {"centre": 0.5}}
    assert (version.manifest["points"]["items"], version.manifest["described_items"]) == (ITEMS, ITEMS)
    assert (version.index, version.manifest["index"]) == (None, None)


def test_a_version_has_the_files_of_points_of_its_model(written: Path, tmp_path: Path) -> None:
    shop_model(targets="separate").save(tmp_path / "model")
    assert (written / "points.safetensors").read_bytes() == (tmp_path / "model" / "points.safetensors").read_bytes()
    version, model = (json.loads((folder / "manifest.json").read_text()) for folder in (written, tmp_path / "model"))
    assert version["points"] == model["points"]
    same = ("config", "data_digest", "fingerprint", "parent_fingerprint", "oldest_time", "newest_time", "metrics")
    assert {name: version[name] for name in same} == {name: model[name] for name in same}


@pytest.mark.parametrize("mapped", [False, True])
def test_points_are_read_or_mapped_and_read_only(written: Path, monkeypatch: pytest.MonkeyPatch, mapped: bool) -> None:
    if mapped:
        monkeypatch.setattr(array_files, "READ_BYTES", 0)
    points = open_arrays(written / "points.safetensors", VERSION)["item_points"]
    owner = points
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    assert (type(owner.base).__name__ == "mmap") == mapped
    with pytest.raises(ValueError, match="read-only"):
        points[0, 0] = 1
    assert open_version(written).points.item_points.base is not None, "a view of the file's content"


@pytest.mark.parametrize("name", ["item_points", "history_points"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 7.0])
def test_points_that_are_none_are_refused_when_a_version_is_opened(copied: Path, name: str, value: float) -> None:
    """The checksums of a forged version may be right."""
    arrays = dict(read_arrays(copied / "points.safetensors", VERSION))
    arrays[name][3, 1] = value
    write_arrays(copied / "points.safetensors", arrays)
    with pytest.raises(ArtifactError, match=f"damaged .row 3 of {name} is not on the hyperboloid"):
        open_version(copied)


def test_arrays_that_are_not_aligned_are_refused(copied: Path) -> None:
    """Compiled code reads numbers where their size permits; a forged header may be of any length."""
    path = copied / "points.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    path.write_bytes((length + 1).to_bytes(8, "little") + content[8 : 8 + length] + b" " + content[8 + length :])
    with pytest.raises(ArtifactError, match=r"its header does not fit its content: .* is not aligned"):
        open_arrays(path, VERSION)


def test_a_copy_belongs_to_one_state_of_a_file(written: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    before = open_version(written, copies=copies)
    assert len(list(copies.iterdir())) == 3  # of the points, of categories and map, and of other columns
    points = written / "points.safetensors"
    content = points.read_bytes()
    points.unlink()
    points.write_bytes(content)
    open_version(written, copies=copies)
    assert len(list(copies.iterdir())) == 4
    drop_copies(before, copies)
    assert not list(copies.iterdir())
    assert np.array_equal(before.points.item_points, open_version(written).points.item_points)


def test_without_space_for_copies_files_are_read(written: Path, caplog: pytest.LogCaptureFixture) -> None:
    version = open_version(written, copies=written / "manifest.json")
    assert np.array_equal(version.points.item_points, open_version(written).points.item_points)
    assert "each worker reads its own points.safetensors, since there can be no common copy" in caplog.text


def test_nothing_about_customers(written: Path) -> None:
    assert {path.name for path in written.iterdir()} == {
        "manifest.json",
        "points.safetensors",
        "items.safetensors",
        "columns.safetensors",
        "items.sqlite",
    }
    assert all(b"u17" not in path.read_bytes() for path in written.iterdir())


def test_integers_become_text(tmp_path: Path) -> None:
    version = shop_version(tmp_path / "version", shop_model(strings=False), items=None)
    assert version.items.rows(["3", "39", "40"]).tolist() == [3, 39, -1]


def test_a_damaged_byte_of_the_manifest_is_found(copied: Path) -> None:
    content = bytearray((copied / "manifest.json").read_bytes())
    content[len(content) // 2] ^= 1
    (copied / "manifest.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"manifest.json is damaged .* publish the model again"):
        open_version(copied)


@pytest.mark.parametrize("name", ["points.safetensors", "items.safetensors", "items.sqlite"])
def test_damaged_short_and_missing_files_are_found(copied: Path, name: str) -> None:
    whole = (copied / name).read_bytes()
    manifest, _ = read_manifest(copied)
    assert manifest.find_damage(copied) is None
    for damaged in (whole[:-1], whole + b"0", whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        (copied / name).write_bytes(damaged)
        assert manifest.find_damage(copied) == name
    (copied / name).unlink()
    assert manifest.find_damage(copied) == name
    with pytest.raises(ArtifactError, match=f"{name} ?.*publish the model again|cannot read .*{name}"):
        open_version(copied)


@pytest.mark.parametrize("name", ["points.safetensors", "items.safetensors", "items.sqlite"])
def test_files_that_make_no_sense_are_refused(copied: Path, name: str) -> None:
    (copied / name).write_bytes((copied / name).read_bytes()[:100])
    with pytest.raises(ArtifactError, match=f"{name} is damaged .* publish the model again"):
        open_version(copied)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"manifest.json is missing: give the folder of a version"):
        open_version(tmp_path)
    shop_model().save(tmp_path / "model")
    with pytest.raises(ArtifactError, match="is not the manifest of a version"):
        open_version(tmp_path / "model")


@pytest.mark.parametrize(
    ("disk_map", "message"),
    [
        (DISK[:3], r"the map is float32 \(3, 2\): give float32 \(40, 2\)"),
        (DISK.astype(np.float64), "the map is float64"),
        (np.where(np.arange(ITEMS)[:, None] == 7, np.float32(1), DISK), "row 7 of the map is not inside the unit disk"),
        (np.full((ITEMS, 2), np.nan, np.float32), "row 0 of the map is not inside"),
    ],
)
def test_maps_that_are_none(tmp_path: Path, disk_map: NDArray[np.float32], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_version(tmp_path / "version", shop_model(), disk_map=DiskMap(disk_map, "by hand", {}))
    assert list(tmp_path.iterdir()) == []


def test_names_sort_by_time(tmp_path: Path) -> None:
    names = [write_version(tmp_path / str(number), shop_model(), items=shop_table())["name"] for number in range(4)]
    assert names == sorted(names)
    assert len(set(names)) == 4
