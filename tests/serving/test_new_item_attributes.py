"""New items that are placed by attributes, if the model was trained with them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from safetensors.numpy import load

from lorentzrec.base.array_files import write_arrays
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ArtifactError
from lorentzrec.model.model import Model
from lorentzrec.points.attribute_points import AttributePoints
from lorentzrec.points.placement import find_surroundings
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import StoredEvent
from lorentzrec.serving.stores.new_items import NewItem, Origin
from lorentzrec.serving.stores.version_files import read_manifest
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.serving.worker.new_items import place_in_version
from tests.serving.running_service import service_here, shop_store, wait_until
from tests.serving.small_shop import ITEMS, shop_model, shop_points, shop_version

FRAME = pl.DataFrame(
    {
        "item": [f"i{number}" for number in range(ITEMS)],
        "kind": [("Shoes > Boots", "Shoes", "Hats > Caps")[number % 3] for number in range(ITEMS)],
        "colour": [("red", "red|blue")[number % 2] for number in range(ITEMS)],
        "price": [float(number) for number in range(ITEMS)],
    }
)
SENT = {"kind": "Shoes > Boots", "colour": "blue", "price": "3"}
EVENTS = {
    "ann": [("i3", 2.0), ("i7", 1.0), ("boot", 4.0), ("hat", 1.0), ("i2", 3.0), ("boot", 1.0), ("i4", 1.0)],
    "bob": [("boot", 1.0), ("i5", 2.0)],
    "cyd": [("boot", 1.0), ("hat", 2.0)],
    "dan": [("i8", 1.0), ("hat", 1.0)],
}
"""Items and weights, oldest first."""


def described_model(**options: Any) -> Model:
    """The small shop with random points of attributes."""
    model = shop_model(**options)
    of_items = ItemAttributes.from_frame(FRAME).align(model.items)
    vectors = [shop_points(len(of_items.values), model.config.geometry, seed) for seed in (5, 6)]
    separate = model.history_points is not model.item_points
    return model.with_points(attributes=AttributePoints.of_items(of_items, vectors[0], vectors[separate], 4.0))


@pytest.mark.parametrize("options", [{}, {"targets": "separate"}, {"geometry": "euclidean"}])
def test_an_item_without_events_is_where_the_model_would_add_it(tmp_path: Path, options: dict[str, str]) -> None:
    model = described_model(**options)
    version = shop_version(tmp_path / "v", model)
    row = {"item": ["boot"], **{name: [text] for name, text in SENT.items()}}
    larger = model.add_items(attributes=pl.DataFrame(row).with_columns(pl.col("price").cast(pl.Float64)))
    item = NewItem("boot", Origin.PUT, category="hats", attributes=SENT)
    (point,) = place_in_version(version, find_surroundings(version.points), [item], {})
    assert point is not None
    assert (point.item_points[0] == larger.item_points[-1]).all()
    assert (point.history_points[0] == larger.history_points[-1]).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"targets": "separate"},
        {"geometry": "euclidean", "targets": "separate"},
        {"history": "folds", "recency": 1.0},
    ],
)
@pytest.mark.parametrize("attributes", [{}, SENT])
def test_an_item_with_events_is_where_the_model_would_add_it(
    tmp_path: Path, options: dict[str, Any], attributes: dict[str, str]
) -> None:
    model = described_model(**options)
    rows = [(user, item, time, weight) for user, own in EVENTS.items() for time, (item, weight) in enumerate(own)]
    users, items, times, weights = zip(*rows, strict=True)
    events = Interactions.from_pairs(users, items, times, weights)
    row = {"item": ["boot"], **{name: [text] for name, text in SENT.items()}}
    frame = pl.DataFrame(row).with_columns(pl.col("price").cast(pl.Float64))
    larger = model.add_items(events=events, attributes=frame if attributes else None)
    histories = {
        user: [StoredEvent(item, time, weight) for time, (item, weight) in enumerate(own)]
        for user, own in EVENTS.items()
    }
    boot = NewItem("boot", Origin.PUT, attributes=attributes, customers=("ann", "bob", "cyd"))
    hat = NewItem("hat", customers=("ann", "cyd", "dan"))
    version = shop_version(tmp_path / "v", model)
    found = place_in_version(version, find_surroundings(version.points), [boot, hat], histories)
    for id, point in zip(("boot", "hat"), found, strict=True):
        assert point is not None
        expected = larger.points.take([larger.items.row(id)])
        assert point.item_points == pytest.approx(expected.item_points, rel=1e-4, abs=1e-5)
        assert point.history_points == pytest.approx(expected.history_points, rel=1e-4, abs=1e-5)


def test_a_version_whose_attributes_do_not_fit_is_damaged(tmp_path: Path) -> None:
    write_version(tmp_path / "v", described_model())
    path = tmp_path / "v" / "attributes.safetensors"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"colour=blue", b"colour=blum"))
    assert read_manifest(tmp_path / "v")[0].find_damage(tmp_path / "v") == path.name
    path.write_bytes(content.replace(b"colour=blue", b"colour=\xff\xfflue"))
    with pytest.raises(ArtifactError, match=r"attributes\.safetensors is damaged .* publish the model again"):
        open_version(tmp_path / "v")
    arrays = load(content)
    for change in ({"points": arrays["points"][1:]}, {"text_offsets": arrays["text_offsets"][1:]}, {"rows": None}):
        write_arrays(path, {name: array for name, array in (arrays | change).items() if array is not None})
        with pytest.raises(ArtifactError, match=r"is damaged .* publish the model again"):
            open_version(tmp_path / "v")
    path.write_bytes(content)
    assert open_version(tmp_path / "v").points.attributes is not None


def test_attributes_over_http(tmp_path: Path) -> None:
    with closing(shop_store(tmp_path)) as store, service_here(store.url) as service:
        refused = service.put("/v1/items/boot", json={"attributes": {"kind": "Shoes"}})
        assert refused.status_code == 400
        assert "was trained without attributes: send `like`" in refused.json()["detail"]
        name = str(write_version(tmp_path / "described", described_model())["name"])
        store.upload(tmp_path / "described")
        store.activate(name)
        wait_until(lambda: service.get("/v1/model").json()["model"] == name)
        sent = {"kind": "Shoes > Boots", "colour": ["blue", "pink"], "price": 3}
        created = service.put("/v1/items/boot", json={"title": "Boot", "attributes": sent}).json()
        assert (created["placed"], created["unknown_attributes"]) == (True, 1)
        wait_until(lambda: service.get("/v1/model").json()["new_items"] == 1)
        shown = service.post("/v1/recommend", json={"history": ["i3"], "k": ITEMS + 1}).json()["items"]
        assert [item["id"] for item in shown if item["new"]] == ["boot"]
        for wrong, detail in (
            ({"size": "9"}, "'size' is not an attribute of the model: send kind, colour, price"),
            ({"price": "cheap"}, "'cheap' is not a number"),
            ({"kind": "A > A"}, "has a category twice"),
            ({"kind": None}, "attributes[...]"),
        ):
            refused = service.put("/v1/items/hat", json={"attributes": wrong})
            assert refused.status_code == 400
            assert detail in refused.json()["detail"]
        assert service.put("/v1/items/odd", json={"attributes": {"kind": "Sofas"}}).json()["placed"] is False
        service.put("/v1/items/ring", json={"attributes": {"price": 1234567.25, "colour": 1234567}})
    with closing(open_store(f"file:{tmp_path / 'store'}")) as store:
        found = {item.id: item for item in store.new_items()}
        assert found["boot"] == NewItem(
            "boot", Origin.PUT, "Boot", attributes={"kind": "Shoes > Boots", "colour": "blue|pink", "price": "3"}
        )
        assert found["ring"].attributes == {"price": "1234567.25", "colour": "1234567"}
