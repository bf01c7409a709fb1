"""Models as folders: what goes in comes out, and nothing damaged comes in."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from lorentzrec import __version__
from lorentzrec.base.manifest import describe_files
from lorentzrec.data.vocabulary import Id, Vocabulary
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.model.artifact import load, save_model
from lorentzrec.model.model import Model
from lorentzrec.model.notes import Note, NoteKind
from tests.damaged_folders import check_refusals
from tests.model.hand_made_models import RECORD, hand_made, interactions

Array: TypeAlias = NDArray[Any]
FILES = [
    "histories.safetensors",
    "items.parquet",
    "manifest.json",
    "points.safetensors",
    "user_points.safetensors",
    "users.parquet",
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with one of everything; tests that damage it do so in a copy."""
    folder = tmp_path_factory.mktemp("models") / "model"
    hand_made(interactions(weighted=True), model="symmetric").save(folder)
    return folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def seal(folder: Path, **changes: Any) -> None:
    """Write the manifest again, with right checksums and a few changes: damage that only the content shows."""
    manifest = json.loads((folder / "manifest.json").read_text()) | changes | {"checksum": ""}
    if "files" not in changes:
        manifest["files"] = describe_files(folder)
        del manifest["files"]["manifest.json"]
    text = json.dumps(manifest)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / "manifest.json").write_text(text.replace('"checksum": ""', f'"checksum": "{digest}"'))


def assert_same(left: Model, right: Model) -> None:
    assert left.config == right.config
    assert left.items == right.items
    assert left.users == right.users
    assert left.item_ids == right.item_ids
    assert [type(identifier) for identifier in left.item_ids] == [type(identifier) for identifier in right.item_ids]
    for name in ("item_points", "history_points", "user_points", "item_counts"):
        ours, theirs = getattr(left, name), getattr(right, name)
        assert (ours is None) == (theirs is None)
        assert ours is None or (ours.dtype == theirs.dtype and np.array_equal(ours, theirs))
    assert (left.history_points is left.item_points) == (right.history_points is right.item_points)
    assert left.histories is not None
    assert right.histories is not None
    assert np.array_equal(left.histories.offsets, right.histories.offsets)
    assert np.array_equal(left.histories.item_rows, right.histories.item_rows)
    assert np.array_equal(left.histories.weights, right.histories.weights)  # type: ignore[arg-type]
    assert (left.record, left.metrics, left.note_records) == (right.record, right.metrics, right.note_records)
    assert left.data_digest == right.data_digest


@pytest.mark.parametrize("geometry", ["hyperboloid", "euclidean"])
@pytest.mark.parametrize(
    ("kind", "targets"), [("asymmetric", "shared"), ("asymmetric", "separate"), ("symmetric", "shared")]
)
@pytest.mark.parametrize("strings", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_round_trip(tmp_path: Path, geometry: str, kind: str, targets: str, strings: bool, weighted: bool) -> None:
    data = interactions(strings=strings, weighted=weighted)
    model = hand_made(data, geometry=geometry, model=kind, targets=targets)
    model.save(str(tmp_path / "model"))
    back = load(str(tmp_path / "model"))
    assert_same(back, model)
    user = data.users.id(0)
    for one, other in (
        (model.recommend(user=user), back.recommend(user=user)),
        (model.recommend(data.history_ids(user)), back.recommend(data.history_ids(user))),
        (model.similar_items(data.items.id(3)), back.similar_items(data.items.id(3))),
    ):
        assert (one.ids, one.scores.tolist(), one.fallback) == (other.ids, other.scores.tolist(), other.fallback)
    with pytest.raises(ValueError, match="read-only"):
        back.item_points[0] = 0


ANY_IDS = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=30, max_size=30, unique=True),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=30, max_size=30, unique=True),
)


@settings(max_examples=25)
@given(ids=ANY_IDS, notes=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3))
def test_any_ids_and_notes_round_trip(
    tmp_path_factory: pytest.TempPathFactory, ids: list[Id], notes: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    items = Vocabulary(ids, name="item")
    records = (*map(Note.of_text, notes), Note(NoteKind.SHORTENED_STEPS, {"steps": 1200}))
    model = replace(hand_made(), items=items, histories=replace(interactions(), items=items), note_records=records)
    model.save(folder)
    assert_same(load(folder), model)


def test_folder_holds_what_the_contract_says(saved: Path) -> None:
    assert sorted(file.name for file in saved.iterdir()) == FILES
    manifest = json.loads((saved / "manifest.json").read_text())
    assert manifest["format_version"] == 1
    assert manifest["versions"]["lorentzrec"] == __version__
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["config"]["geometry"] == "hyperboloid"
    assert (manifest["points"]["items"], manifest["users"], manifest["history_events"]) == (30, 12, 90)
    assert manifest["record"] == [epoch.to_dict() for epoch in RECORD]
    assert manifest["metrics"] == {"ndcg@10": 0.125}
    assert manifest["data_digest"] == interactions(weighted=True).digest
    for name, listed in manifest["files"].items():
        content = (saved / name).read_bytes()
        assert listed == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert sorted(load_file(saved / "points.safetensors")) == ["item_counts", "item_points"]
    assert sorted(load_file(saved / "user_points.safetensors")) == ["user_points"]
    assert sorted(load_file(saved / "histories.safetensors")) == ["item_rows", "offsets", "times", "weights"]
    assert pl.read_parquet(saved / "items.parquet").columns == ["row", "id"]
    assert pl.read_parquet(saved / "users.parquet").columns == ["row", "id"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_files_about_customers_are_for_their_owner_and_all_others_alike(saved: Path) -> None:
    modes = {name: (saved / name).stat().st_mode & 0o777 for name in FILES}
    assert {modes.pop(name) for name in ("users.parquet", "user_points.safetensors", "histories.safetensors")} == {
        0o600
    }
    assert len(set(modes.values())) == 1


def test_saved_without_histories(tmp_path: Path) -> None:
    hand_made().save(tmp_path / "model", histories=False)
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "items.parquet",
        "manifest.json",
        "points.safetensors",
    ]
    model = load(tmp_path / "model")
    assert model.recommend(["i3"]).ids == hand_made().recommend(["i3"]).ids
    with pytest.raises(
        InputError, match="supports histories only: give a history, or save the model with histories=True"
    ):
        model.recommend(user="u4")
    hand_made(model="symmetric").save(tmp_path / "model", histories=False)
    symmetric = load(tmp_path / "model")
    assert symmetric.histories is None
    expected = hand_made(model="symmetric").recommend(user="u4", exclude_seen=False).ids
    assert symmetric.recommend(user="u4", exclude_seen=False).ids == expected


def test_saving_replaces_an_older_model(tmp_path: Path) -> None:
    hand_made(geometry="euclidean").save(tmp_path / "model")
    hand_made().save(tmp_path / "model", histories=False)
    assert load(tmp_path / "model").config.geometry == "hyperboloid"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_saving_fails_whole(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    hand_made(geometry="euclidean").save(tmp_path / "model")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))  # as good as a full disk, for the super-user as well
    try:
        with pytest.raises(InputError, match="File too large; make room"):
            hand_made().save(tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load(tmp_path / "model").config.geometry == "euclidean"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is not a folder; create it first"):
        save_model(hand_made(), tmp_path / "file" / "model")


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=60)
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_one_damaged_byte_is_found(
    tmp_path_factory: pytest.TempPathFactory, saved: Path, name: str, place: float, change: int
) -> None:
    folder = Path(shutil.copytree(saved, tmp_path_factory.mktemp("damaged") / "model"))
    content = bytearray((folder / name).read_bytes())
    content[int(place * len(content))] ^= change
    (folder / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=name):
        load(folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", FILES)
def test_missing_and_cut_files_are_named(copied: Path, name: str) -> None:
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[:-1])
    with pytest.raises(ArtifactError, match=f"{name} is damaged .*: copy the model again, or save it again"):
        load(copied)
    (copied / name).unlink()
    with pytest.raises(ArtifactError, match=f"{name} is missing: .*copy the whole"):
        load(copied)


def test_any_damage_ends_in_one_line(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "model"))
    check_refusals(folder, FILES, lambda: load(folder).recommend(["i3"]), rounds=200 // len(FILES))


def test_a_model_is_loaded_while_it_is_saved_again_and_again(tmp_path: Path) -> None:
    models = [hand_made(), hand_made(geometry="euclidean")]
    models[0].save(tmp_path / "model")

    def save() -> None:
        for number in range(30):
            models[number % 2].save(tmp_path / "model")

    saver = Thread(target=save)
    saver.start()
    while saver.is_alive():
        assert load(tmp_path / "model").config in [model.config for model in models]
    saver.join()
    (tmp_path / "model").rename(tmp_path / ".model.old")
    assert load(tmp_path / "model").config == models[1].config, "a save that was killed between two renames"


def test_line_ends_count_as_content(copied: Path) -> None:
    text = (copied / "manifest.json").read_bytes()
    (copied / "manifest.json").write_bytes(text.replace(b"\n", b"\r", 1))
    with pytest.raises(ArtifactError, match="changed after it was written"):
        load(copied)


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"there is no model folder .*nowhere: check the path"):
        load(tmp_path / "nowhere")
    with pytest.raises(ArtifactError, match=r"manifest.json is missing: give the folder of a model"):
        load(tmp_path)
    for text in ("[1]", '{"format": "something else"}'):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(ArtifactError, match="not the manifest of a model"):
            load(tmp_path)


@pytest.mark.parametrize("version", [2, None])
def test_other_formats_are_refused(copied: Path, version: int | None) -> None:
    seal(copied, format_version=version)
    with pytest.raises(ArtifactError, match=f"has format {version} and this lorentzrec reads 1: upgrade lorentzrec"):
        load(copied)


def change_array(name: str, change: Callable[[Array], Array]) -> Callable[[Path], None]:
    """Change one array of whichever safetensors file holds it."""

    def apply(folder: Path) -> None:
        for path in folder.glob("*.safetensors"):
            arrays = load_file(path)
            if name in arrays:
                save_file(arrays | {name: change(arrays[name].copy())}, path)

    return apply


def with_value(index: Any, value: float) -> Callable[[Array], Array]:
    def change(array: Array) -> Array:
        array[index] = value
        return array

    return change


def change_frame(name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        change(pl.read_parquet(folder / name)).write_parquet(folder / name)

    return apply


IN_HISTORIES = r"histories\.safetensors is damaged \(it does not fit the users and items: "


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (change_array("item_points", with_value((7, 2), np.nan)), "row 7 of item_points is not on the hyperboloid"),
        (change_array("item_points", with_value((7, 0), np.inf)), "row 7 of item_points is not on the hyperboloid"),
        (change_array("user_points", with_value((3, 0), 1.0)), "row 3 of user_points is not on the hyperboloid"),
        (change_array("item_points", lambda array: -array), "row 0 of item_points is not on the hyperboloid"),
        (change_array("item_points", lambda array: array[:-1]), r"item_points is not float32 \(30, 5\)"),
        (change_array("item_points", lambda array: array.astype(np.float64)), r"item_points is not float32 \(30, 5\)"),
        (change_array("user_points", lambda array: array[:, :-1]), "user_points of a model are"),
        (change_array("item_rows", with_value(5, 30)), f"{IN_HISTORIES}the item row of event 6 is 30"),
        (change_array("item_rows", with_value(5, -1)), f"{IN_HISTORIES}the item row of event 6 is -1"),
        (change_array("item_rows", lambda array: array[:-1]), f"{IN_HISTORIES}offsets do not divide"),
        (
            change_array("item_rows", lambda array: array.astype(np.int64)),
            r"histories\.safetensors .*its item_rows are int64",
        ),
        (change_array("offsets", with_value(0, 1)), f"{IN_HISTORIES}offsets do not divide"),
        (change_array("offsets", with_value(3, 80)), f"{IN_HISTORIES}offsets do not divide"),
        (change_array("offsets", lambda array: array[1:]), f"{IN_HISTORIES}offsets are int64"),
        (change_array("weights", with_value(0, 0.0)), f"{IN_HISTORIES}the weight of event 1 is 0.0"),
        (change_array("weights", lambda array: array[1:]), f"{IN_HISTORIES}weights have the shape"),
        (
            change_array("weights", lambda array: array.astype(np.float64)),
            r"histories\.safetensors .*its weights are float64",
        ),
        (change_frame("items.parquet", lambda frame: frame.reverse()), "rows are not numbered"),
        (change_frame("items.parquet", lambda frame: frame.drop("id")), "do not make a model"),
        (change_frame("items.parquet", lambda frame: frame.head(29)), f"{IN_HISTORIES}the item row of event 77 is 29"),
        (change_frame("users.parquet", lambda frame: frame.with_columns(id=pl.lit("u"))), "occurs twice"),
        (lambda folder: (folder / "items.parquet").write_text("no parquet"), r"items\.parquet cannot be read"),
        (lambda folder: (folder / "points.safetensors").write_text("no tensors"), "header does not fit its content"),
    ],
)
def test_content_that_does_not_fit(copied: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(copied)
    seal(copied)
    with pytest.raises(ArtifactError, match=message):
        load(copied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"flavour": "sweet"}}, "no hyper-parameter 'flavour'"),
        ({"config": hand_made().config.replace(dimension=9).to_dict()}, "user points|are float32"),
        ({"config": {"score": "inner", "recency": 1.0}}, "loss is None: give one of bpr, wmrb, softmax"),
        ({"record": [{"epoch": 1}]}, "do not make a model"),
        ({"files": {}}, "does not list points.safetensors and items.parquet"),
    ],
)
def test_manifest_that_does_not_fit(copied: Path, changes: dict[str, Any], message: str) -> None:
    seal(copied, **changes)
    with pytest.raises(ArtifactError, match=message):
        load(copied)


def test_flat_points_must_be_finite(tmp_path: Path) -> None:
    hand_made(geometry="euclidean").save(tmp_path / "model")
    change_array("item_points", with_value((29, 1), -np.inf))(tmp_path / "model")
    seal(tmp_path / "model")
    with pytest.raises(ArtifactError, match=r"points.safetensors is damaged \(row 29 of item_points is not finite\)"):
        load(tmp_path / "model")
