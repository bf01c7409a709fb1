"""Write a small dataset, model and store as this version does: `python -m tests.releases.write`.

They go to a folder with the name of the version, and stay in the repository: `test_releases.py` reads them with every
later version. `expected.json` has what was recommended when they were written.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import lorentzrec
from lorentzrec import Model, load
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.new_items import NewItem
from lorentzrec.synthetic.shop import SyntheticConfig, SyntheticShop
from tests.cli.command_line import run

HERE = Path(__file__).parent
ITEMS = "items.csv"
ARM, ERASED, NEW_ITEM, REMOVED = "other", "c03", "n0001", "p0005"
CUSTOMERS = ["c01", "c02", "c10"]
SETTINGS = ("--set", "dimension=4", "--set", "epochs=4", "--set", "threads=1", "--set", "memory=auto")
RULES = {
    "sets": {"north": ["p0001", "p0002", "p0003", "p0004"]},
    "rules": [
        {"name": "Front", "routes": ["recommend"], "select": {"ids": ["p0004"]}, "pin": 1},
        {"name": "North", "routes": ["similar"], "select": {"set": "north"}, "boost": 3},
    ],
}
LISTS: dict[str, Callable[[Model], Any]] = {
    "for a history": lambda model: model.recommend(["p0001", "p0002"], k=5, exclude_seen=True).ids,
    "for a customer": lambda model: model.recommend(user=CUSTOMERS[0], k=5).ids,
    "for orders": lambda model: model.recommend_orders([["p0001"], ["p0002", "p0003"]], k=5).ids,
    "similar": lambda model: model.similar_items("p0001", k=5).ids,
    "outfit": lambda model: model.complete(["p0001"], k=3).ids,
    "popular": lambda model: model.recommend([], k=5).ids,
}


def ask(service: Any) -> dict[str, Any]:
    """What a service of the store says about customers and items. It answers from the store alone."""
    answers = {
        user: service.post("/v1/recommend", json={"user": user, "k": 5, "arm": "main"}).json() for user in CUSTOMERS
    }
    return {
        "lists": {user: [item["id"] for item in answer["items"]] for user, answer in answers.items()},
        "events": {
            user: len(service.get(f"/v1/users/{user}/history").json()["history"]) for user in [*CUSTOMERS, ERASED]
        },
        "rules": service.get("/v1/rules").json()["rules"],
        "title": service.get(f"/v1/items/{NEW_ITEM}").json()["title"],
    }


def write(folder: Path) -> None:
    """The dataset with a delivery, a model of it with everything that a model can have, and a store with two arms."""
    from tests.serving.running_service import service_here

    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        raw = Path(name)
        shop = SyntheticShop(
            SyntheticConfig(customers=80, items=40, interactions=600, order_size=2.5, repeats=0.3, outfits=0.5)
        )
        events = shop.events.sort("time")
        events[:550].write_csv(raw / "events.csv")
        events[550:].write_csv(raw / "delivery.csv")
        shop.items.write_csv(folder / ITEMS)
        items = ("--items", folder / ITEMS, "--attributes", "category,price:number")
        run("prepare", raw / "events.csv", *items, "--out", folder / "dataset")
        run("prepare", "--append", raw / "delivery.csv", "--out", folder / "dataset")
        run("train", folder / "dataset", "--out", folder / "model", *SETTINGS)
        store = f"file:{folder / 'store'}"
        (raw / "rules.json").write_text(json.dumps(RULES))
        run("publish", folder / "model", "--to", store, "--items", folder / "dataset", "--histories")
        run("publish", folder / "model", "--to", store, "--items", folder / "dataset", "--arm", f"{ARM}=0.25")
        run("rules", "set", store, raw / "rules.json", "--reason", "a test")
    with closing(open_store(store)) as opened:
        opened.change_live_items([], [REMOVED])
        opened.add_events([Event(CUSTOMERS[0], "p0002", float(events["time"][-1]) + 60, "an event")])
        opened.describe_item(NewItem(NEW_ITEM, title="A new coat"), limit=10)
        opened.forget(ERASED)
    model = load(folder / "model")
    expected: dict[str, Any] = {"lists": {name: make(model) for name, make in LISTS.items()}}
    with tempfile.TemporaryDirectory() as name, service_here(copy_store(folder, Path(name))) as service:
        expected["service"] = ask(service)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def copy_store(folder: Path, to: Path) -> str:
    """The address of a copy of the store, since a service writes to what it opens."""
    shutil.copytree(folder / "store", to / "store")
    return f"file:{to / 'store'}"


if __name__ == "__main__":
    made = HERE / lorentzrec.__version__
    shutil.rmtree(made, ignore_errors=True)
    # A dataset names its input files: those of a temporary folder say nothing about the machine.
    with tempfile.TemporaryDirectory() as temporary:
        write(Path(temporary) / made.name)
        shutil.copytree(Path(temporary) / made.name, made)
    print(f"{made}: {sum(path.stat().st_size for path in made.rglob('*')):,} bytes")
