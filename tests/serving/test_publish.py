"""Publishing: atomic, invisible before it is complete, and reversible in one step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.maps.disk_map import disk_map
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.file_store import FileStore
from lorentzrec.serving.stores.histories import Added, Event, StoredEvent, derive_event_id
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions import publish as publishing
from lorentzrec.serving.versions.publish import add_histories, publish, rollback
from lorentzrec.serving.versions.version import open_version
from lorentzrec.serving.worker.recommender import Recommender
from tests.serving.running_service import service_here, shop_store
from tests.serving.small_shop import shop_model, shop_table


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"file:{tmp_path / 'store'}", create=True)
    yield opened
    opened.close()


def test_a_published_model_is_the_one_in_use(store: Store, tmp_path: Path) -> None:
    model = shop_model()
    drawn = disk_map(model.item_points, geometry="hyperboloid")
    steps: list[tuple[str, float]] = []
    published = publish(
        model,
        store,
        items=shop_table(),
        disk_map=drawn,
        progress=lambda what, share: steps.append((what, share)),
    )
    assert store.state().version == published.name
    assert (published.manifest["name"], published.events) == (published.name, None)
    version = open_version(store.fetch(published.name, tmp_path / "cache"))
    assert version.map is not None
    assert version.map.tolist() == drawn.coordinates.tolist()
    assert version.manifest["map"] == {"method": drawn.method, "kept": drawn.kept}
    history = ("i3", "i8")
    ranked = Recommender(version).recommend(history)
    assert [item.id for item in ranked.items] == model.recommend(history).ids
    assert steps[-2:] == [("uploading", 1.0), ("checking what was uploaded", 0.0)]


def test_old_versions_go_but_never_the_current_one(store: Store) -> None:
    names = [publish(shop_model(), store, keep=2).name for _ in range(4)]
    assert store.versions() == [names[3], names[2]]
    assert rollback(store) == names[2]
    assert store.state().version == names[2]
    newest = publish(shop_model(), store, keep=1).name
    assert store.versions() == [newest]


def test_fewer_than_one_version_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="0 versions cannot be kept: keep 1 or more"):
        publish(shop_model(), store, keep=0)
    assert store.versions() == []


class Interrupted(Exception):  # noqa: N818, it simulates a machine that stops
    pass


class StoppingStore(FileStore):
    """A file store whose machine stops while a version is uploaded, or damages it on the way."""

    damaging = False

    def upload(self, folder: Path, progress: Callable[[int], None] = lambda _: None) -> None:
        def stop(_: int) -> None:
            raise Interrupted

        if not self.damaging:
            super().upload(folder, stop)
        super().upload(folder, progress)
        (newest, *_) = self.versions()
        place = self._versions / newest / "points.safetensors"
        content = bytearray(place.read_bytes())
        content[-1] ^= 1
        place.write_bytes(content)


@pytest.mark.parametrize(("damaging", "error"), [(False, Interrupted), (True, ArtifactError)])
def test_a_publish_that_fails_changes_nothing(
    store: Store, tmp_path: Path, damaging: bool, error: type[Exception]
) -> None:
    before = publish(shop_model(), store).name
    stopping = StoppingStore(tmp_path / "store")
    stopping.damaging = damaging
    with pytest.raises(error):
        publish(shop_model(), stopping)
    stopping.close()
    assert store.state().version == before
    after = publish(shop_model(), store, keep=1).name
    assert store.versions() == [after]
    assert [path.name for path in (tmp_path / "store" / "versions").iterdir()] == [after]  # leftovers are gone, too


def test_histories_come_in_order_and_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "EVENTS_A_BATCH", 100)
    model = shop_model()
    assert model.histories is not None
    published = publish(model, store, histories=model.histories)
    assert published.events == Added(len(model.histories), 0)
    for user in ("u0", "u17"):
        assert [event.item for event in store.history(user)] == model.histories.history_ids(user)
    again = publish(model, store, histories=model.histories)
    assert again.events == Added(0, len(model.histories))


class ForgetfulStore(FileStore):
    """A file store whose machine stops after some batches of events."""

    batches = 2

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        if self.batches == 0:
            raise Interrupted
        self.batches -= 1
        return super().add_events(events, respect_erasures=respect_erasures)


def test_histories_go_on_where_they_were_stopped(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "EVENTS_A_BATCH", 100)
    histories = shop_model().histories
    assert histories is not None
    forgetful = ForgetfulStore(tmp_path / "store")
    with pytest.raises(Interrupted):
        publish(shop_model(), forgetful, histories=histories)
    forgetful.close()
    assert store.state().version is None
    assert add_histories(store, histories) == Added(len(histories) - 200, 200)


def test_newer_events_are_added_to_those_that_are_there(store: Store) -> None:
    times = [10, 20, 30, 15]
    older = Interactions.from_pairs(["a", "a", "a", "b"], ["x", "y", "x", "y"], times=times)
    newer = Interactions.from_pairs(["a", "a", "a", "b", "b"], ["x", "y", "x", "y", "z"], times=[*times, 40])
    assert add_histories(store, older) == Added(4, 0)
    assert add_histories(store, newer) == Added(1, 4)
    assert [(event.item, event.time) for event in store.history("a")] == [("x", 10), ("y", 20), ("x", 30)]
    assert [(event.item, event.time) for event in store.history("b")] == [("y", 15), ("z", 40)]


def test_events_sent_to_the_service_count_once(tmp_path: Path) -> None:
    """The day of a shop: events over HTTP, with an id, without one, and without a time; then the data of that day."""
    store = shop_store(tmp_path)
    events = [
        {"user": "ann", "item": "i1", "time": 1735689600, "id": "visit-1"},
        {"user": "ann", "item": "i2", "time": 1735689601.25},
        {"user": 7, "item": "i1", "time": 1735689600},
    ]
    with service_here(store.url) as service:
        assert service.post("/v1/events", json={"events": events}).json()["accepted"] == 3
    # Without an id, it is the one that a dataset gives it.
    assert store.add_events([Event("ann", "x", 1, derive_event_id("i2", 1735689601.25))]) == Added(0, 1)
    users, items = ["ann", "ann", "7", "ann"], ["i1", "i2", "i1", "i1"]
    times = [1735689600, 1735689601.25, 1735689600, 1735689700]
    assert add_histories(store, Interactions.from_pairs(users, items, times)) == Added(1, 3)
    assert store.history("ann") == [
        StoredEvent("i1", times[0]),
        StoredEvent("i2", times[1]),
        StoredEvent("i1", times[3]),
    ]
    store.close()


def test_an_erased_customer_does_not_come_back(store: Store) -> None:
    day = Interactions.from_pairs(["ann", "ann", "bob"], ["x", "y", "x"], times=[10, 20, 10])
    add_histories(store, day)
    store.forget("ann")
    assert add_histories(store, day) == Added(0, 1, frozenset({"ann"}))
    assert store.history("ann") == []
    now = int(time.time()) + 10
    next_day = Interactions.from_pairs(["ann", "ann", "ann", "bob"], ["x", "y", "z", "x"], times=[10, 20, now, 10])
    assert add_histories(store, next_day) == Added(1, 1, frozenset({"ann"}))
    assert store.history("ann") == [StoredEvent("z", now)]


def test_events_without_times_that_move_count_once(store: Store) -> None:
    """Without times events are numbered by item, so a new one shifts the others."""
    assert add_histories(store, Interactions.from_pairs(["a", "a", "a"], ["c", "d", "c"])) == Added(3, 0)
    assert add_histories(store, Interactions.from_pairs(["a"] * 4, ["c", "d", "c", "b"])) == Added(1, 3)


def test_events_without_times_keep_their_order(store: Store) -> None:
    model = shop_model(strings=False)
    assert model.histories is not None
    without = Interactions(
        model.histories.users, model.histories.items, model.histories.offsets, model.histories.item_rows[::-1].copy()
    )
    add_histories(store, without)
    user = str(without.users.id(3))
    events = store.history(user)
    assert [event.time for event in events] == list(range(len(events)))
    assert [int(event.item) for event in events] == without.items.ids(without.history(3))
