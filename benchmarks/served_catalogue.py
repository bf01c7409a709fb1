"""A catalogue to serve: points trained on a synthetic shop, published to a store that also holds customers' histories.

Made once and stored in .build/bench-serve; remove the folder to make it again. Points have to be trained: an index has
far worse, or far better, recall on random points than on those of a real model.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lorentzrec import Interactions, TrainingConfig, train
from lorentzrec.model.artifact import load
from lorentzrec.model.model import Model
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.versions.publish import publish
from lorentzrec.synthetic.shop import synthetic_shop

FOLDER = Path(__file__).parents[1] / ".build" / "bench-serve"
DIMENSION = 50
SHORTEST, LONGEST = 5, 50
"""Items in the history of a query."""
CATEGORIES = 300
"""Of items, made up."""
CUSTOMERS = 4_000
"""Number of such histories: half of them are in the store, half are sent with the query."""


@dataclass(frozen=True)
class Catalogue:
    """A store, and queries for its service."""

    items: int
    store: str
    users: dict[str, list[str]]
    """Customers whose histories the store holds."""
    histories: list[list[str]]
    """Histories of others."""
    model: Path

    def bodies(self) -> list[str]:
        """Queries, alternately for a customer and for a history."""
        about_users = [json.dumps({"user": user}) for user in self.users]
        about_histories = [json.dumps({"history": history}) for history in self.histories]
        return [body for pair in zip(about_users, about_histories, strict=False) for body in pair]


def catalogue(items: int, *, memory: bool = True, events_per_item: int = 8) -> Catalogue:
    """The catalogue with this many items, with a memory or points alone, from the cache or made now."""
    folder = _folder(items, memory)
    if not is_made(items, memory=memory):
        shutil.rmtree(folder, ignore_errors=True)
        print(f"training points for {items:,} items, once; stored in {folder} ...", flush=True)
        _make(folder, _trained(items, memory, events_per_item))
    queries = json.loads((folder / "queries.json").read_text())
    return Catalogue(items, f"file:{folder / 'store'}", queries["users"], queries["histories"], folder / "model")


def is_made(items: int, *, memory: bool = True) -> bool:
    """Whether the catalogue is in the cache."""
    return (_folder(items, memory) / "queries.json").is_file()


def _folder(items: int, memory: bool) -> Path:
    return FOLDER / (str(items) if memory else f"{items}-points")


def _trained(items: int, memory: bool, events_per_item: int) -> Model:
    # Some items get no events, so there have to be some more to choose from.
    events = items * events_per_item
    drawn = synthetic_shop(customers=events // 20, items=items * 11 // 10, interactions=events).events
    popular = drawn.join(drawn["item"].value_counts(sort=True).head(items), on="item", how="semi")
    data = Interactions.from_pairs(popular["user"], popular["item"], popular["time"])
    if len(data.items) != items:
        raise SystemExit(f"only {len(data.items):,} of {items:,} items have events: raise events_per_item")
    return train(data, TrainingConfig(dimension=DIMENSION, epochs=1, seed=1, memory="auto" if memory else "none"))


def _make(folder: Path, model: Model) -> None:
    data = model.histories
    assert data is not None
    fitting = np.flatnonzero((data.lengths >= SHORTEST) & (data.lengths <= LONGEST))
    chosen = np.random.default_rng(0).permutation(fitting)[:CUSTOMERS].tolist()
    histories = {str(data.users.id(row)): [str(item) for item in data.items.ids(data.history(row))] for row in chosen}
    names = sorted(histories)
    stored, sent = names[: len(names) // 2], names[len(names) // 2 :]
    store = open_store(f"file:{folder / 'store'}", create=True)
    publish(model, store, items=item_table(model))
    store.add_events(
        [Event(user, item, place, str(place)) for user in stored for place, item in enumerate(histories[user])]
    )
    store.close()
    model.save(folder / "model")
    queries = {"users": {user: histories[user] for user in stored}, "histories": [histories[user] for user in sent]}
    (folder / "queries.json").write_text(json.dumps(queries))  # last: now the catalogue is complete


def item_table(model: Model) -> pl.DataFrame:
    """A title and a category for each item."""
    ids = model.items.series.cast(pl.String).rename("id")
    category = np.random.default_rng(0).integers(0, CATEGORIES, len(ids))
    return pl.DataFrame({"id": ids, "title": "Item " + ids, "category": pl.Series(category).cast(pl.String)})


def live_subset(items: int, live: int) -> NDArray[np.int64]:
    """The rows of the items that are live, of a shop with few of them."""
    return np.sort(np.random.default_rng(5).choice(items, live, replace=False))


def model_of(catalogue: Catalogue) -> Model:
    """The model behind a catalogue."""
    return load(catalogue.model)
