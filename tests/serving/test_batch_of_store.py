"""`recommend-all --store` recommends what the service would, to the customers whom the service knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lorentzrec.batch import recommending, store_customers
from lorentzrec.batch.part_files import unfinished_parts
from lorentzrec.batch.recommending import BatchOptions, BatchSource, recommend_to_all
from lorentzrec.data.interactions import Interactions
from lorentzrec.serving.stores.address import VARIABLE, open_store
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.store import Store
from tests.cli.command_line import error_of, run, run_json
from tests.serving.running_service import published, service_here
from tests.serving.small_shop import shop_model

CUSTOMERS = [f"c{number}" for number in range(30)]


def events() -> list[Event]:
    """Histories with repeated items, weights, equal times, and an event per customer that arrived late."""
    random, found = np.random.default_rng(3), []
    for customer in CUSTOMERS:
        for number, item in enumerate(random.integers(0, 40, random.integers(1, 9))):
            found.append(Event(customer, f"i{item}", float(number // 2), f"{number}", weight=float(1 + number % 2)))
    return sorted(found, key=lambda event: event.id)


@pytest.fixture
def store(any_url: str, tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(any_url, create=True)) as opened:
        published(opened, tmp_path)
        opened.add_events(events())
        yield opened


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The same model with customers of its own: c0, c1 and c2, who are in the store, and m0 to m9, who are not."""
    users = [f"c{number}" for number in range(3)] + [f"m{number}" for number in range(10)]
    base = shop_model()
    pairs = Interactions.from_pairs(np.repeat(users, 2), [f"i{number}" for number in range(26)])
    rows = base.items.rows(pairs.items.series)[pairs.item_rows].astype(np.int32)
    histories = Interactions(pairs.users, base.items, pairs.offsets, rows)
    made = replace(base, users=pairs.users, histories=histories)
    made.save(tmp_path / "model")
    return tmp_path / "model"


def table_of(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each customer, by rank."""
    frame = pl.read_parquet(out).sort("user", "rank")
    return {str(user): part.to_dicts() for (user,), part in frame.group_by("user", maintain_order=True)}


def of_service(url: str, customers: list[str], **options: Any) -> dict[str, list[dict[str, Any]]]:
    with service_here(url, new_items_from="none") as service:
        found = {}
        for customer in customers:
            response = service.post("/v1/recommend", json={"user": customer, **options})
            assert response.status_code == 200, response.text
            found[customer] = response.json()["items"]
        return found


def assert_equal(found: dict[str, list[dict[str, Any]]], expected: dict[str, list[dict[str, Any]]]) -> None:
    assert found.keys() == expected.keys()
    for customer, items in expected.items():
        ours = [(row["item"], row["title"], pytest.approx(row["score"], abs=1e-5)) for row in found[customer]]
        assert [(item["id"], item["title"], item["score"]) for item in items] == ours, customer


def test_everybody_gets_what_the_service_recommends(store: Store, any_url: str, tmp_path: Path) -> None:
    """Without a model: the current version recommends."""
    store.forget("c7")
    store.forget("c8")
    store.add_events([Event("c8", "i5", 100.0, "returned")])
    store.add_events([Event("c9", "nosuch", 100.0, "unknown"), Event("stranger", "nosuch", 1.0, "unknown")])
    store.change_live_items(remove=["i1", "i2", "nosuch"])
    out = tmp_path / "all.parquet"
    shown = run("recommend-all", "--store", any_url, "--out", out, "-k", "5")
    assert f"Wrote 145 recommendations for 29 customers to {out}" in shown.stdout
    assert re.search(r"note: histories: 30 from \S+ at \d{4}-\d\d-\d\d \d\d:\d\d, 0 from MODEL", shown.stderr)
    assert "note: 2 items of the model are not live" in shown.stderr
    assert "note: ignored 2 events with items that the model does not have" in shown.stderr
    assert "note: skipped 1 customer without events with items of the model" in shown.stderr
    found = table_of(out)
    assert "c7" not in found
    assert_equal(found, of_service(any_url, [one for one in CUSTOMERS if one != "c7"], k=5))
    assert not {"i1", "i2"} & set(pl.read_parquet(out)["item"])


def test_options_are_those_of_the_service(store: Store, any_url: str, tmp_path: Path) -> None:
    store.set_live_items([f"i{number}" for number in range(0, 40, 2)] + ["nosuch"])
    with service_here(any_url) as service:
        category = service.get("/v1/items/i4").json()["category"]
    out = tmp_path / "all.parquet"
    options = ("--categories", category, "--diversity", "0.4", "--reasons", "-k", "3", "--exclude", "i6")
    shown = run("recommend-all", "--store", any_url, "--out", out, *options)
    assert "note: 20 items of the model are live" in shown.stderr
    assert "note: 1 live item is not in the model, and not recommended" in shown.stderr
    asked = {"categories": [category], "diversity": 0.4, "reasons": True, "k": 3, "exclude": ["i6"]}
    expected, found = of_service(any_url, CUSTOMERS, **asked), table_of(out)
    assert_equal(found, expected)
    for customer, items in expected.items():
        for row, item in zip(found[customer], items, strict=True):
            because = [(reason["item"], reason["kind"], pytest.approx(reason["share"])) for reason in row["because"]]
            assert [(reason["item"], reason["kind"], reason["share"]) for reason in item["because"]] == because
    assert "no item is in the category 'nosuch': check the name" in error_of(
        "recommend-all", "--store", any_url, "--out", tmp_path / "x.parquet", "--categories", "nosuch"
    )
    store.set_live_items(["nosuch"])
    assert "none of the 1 live item is in the model" in error_of(
        "recommend-all", "--store", any_url, "--out", tmp_path / "x.parquet"
    )


def test_a_model_with_customers_of_its_own(store: Store, model: Path, any_url: str, tmp_path: Path) -> None:
    """Histories of the store come first; whoever was erased gets nothing, also if only the model knows them."""
    for customer in ("m3", "c1", "nobody"):
        store.forget(customer)
    out = tmp_path / "all.parquet"
    result = run_json("recommend-all", model, "--store", any_url, "--out", out, "-k", "4")
    counts = {name: result["store"][name] for name in ("customers_of_store", "customers_of_model", "erased_customers")}
    assert counts == {"customers_of_store": 29, "customers_of_model": 9, "erased_customers": 2}
    assert (result["users"], result["store"]["store"]) == (38, store.url)
    found = table_of(out)
    assert not {"m3", "c1", "nobody"} & found.keys()
    expected = of_service(any_url, [one for one in CUSTOMERS if one != "c1"], k=4)
    assert_equal({user: rows for user, rows in found.items() if user in expected}, expected)
    run("recommend-all", model, "--out", tmp_path / "alone.parquet", "-k", "4")
    alone = table_of(tmp_path / "alone.parquet")
    for customer in ("m0", "m9"):
        assert [row["item"] for row in found[customer]] == [row["item"] for row in alone[customer]]
    assert alone.keys() >= {"m3", "c1"}, "a model knows nothing of erasures"
    assert "title" not in alone["m0"][0]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as opened:
        published(opened, tmp_path)
        opened.add_events(events())
        yield opened


def source_of(store: Store) -> BatchSource:
    """The shop without customers of its own."""
    return BatchSource(replace(shop_model(), users=None, histories=None), "shop", store=store)


def test_customers_erased_meanwhile_are_left_out(here: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 10)
    here.forget("c2")
    here.add_events([Event("c2", "i9", 50.0, "returned")])
    source = source_of(here)

    def erase(share: float) -> None:
        if share == 1:
            here.forget("c5")

    report = recommend_to_all(source, tmp_path / "all", BatchOptions(k=2), erase)
    found = pl.read_parquet(tmp_path / "all")
    assert {"c2", "c4", "c6"} <= set(found["user"])
    assert "c5" not in found["user"]
    assert (report.users, report.rows, report.store and report.store.erased_customers) == (29, len(found), 1)


def test_customers_erased_while_histories_are_read(here: Store, tmp_path: Path) -> None:
    pages = here.all_events

    def erase_afterwards() -> Iterator[Any]:
        yield from pages()
        here.forget("c4")

    here.all_events = erase_afterwards  # type: ignore[method-assign]
    report = recommend_to_all(source_of(here), tmp_path / "all", BatchOptions(k=2))
    assert "c4" not in pl.read_parquet(tmp_path / "all")["user"]
    assert report.users == 29


def test_customers_erased_while_histories_are_read_who_return_at_once(here: Store, tmp_path: Path) -> None:
    """Their events from before the erasure are not used, although the store has an event of theirs again."""
    pages = here.all_events

    def erase_afterwards() -> Iterator[Any]:
        yield from pages()
        here.forget("c4")
        here.add_events([Event("c4", "i9", 50.0, "returned")])

    here.all_events = erase_afterwards  # type: ignore[method-assign]
    report = recommend_to_all(source_of(here), tmp_path / "all", BatchOptions(k=2))
    assert "c4" not in pl.read_parquet(tmp_path / "all")["user"]
    assert (report.users, report.store and report.store.erased_customers) == (29, 1)


def test_a_run_continues_with_the_same_histories(here: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 10)
    source, out, lines = source_of(here), tmp_path / "all", list[str]()

    class StopError(Exception):
        pass

    def stop(share: float) -> None:
        raise StopError

    def begin() -> None:
        with pytest.raises(StopError):
            recommend_to_all(source, out, BatchOptions(k=2), stop)

    begin()
    here.add_events([Event("later", "i1", 1.0, "a")])
    here.forget("c0")
    recommend_to_all(source, out, BatchOptions(k=2), announce=lines.append)
    assert len(lines) == 1
    assert re.fullmatch(r"continuing with the histories that an unfinished run read at [-\d]+ [:\d]+", lines[0])
    assert set(pl.read_parquet(out)["user"]) == set(CUSTOMERS) - {"c0"}, "erasures count, new customers come next time"
    begin()
    folder = tmp_path / ".all.unfinished"
    (folder / "model" / "histories.safetensors").write_bytes(b"damaged")
    recommend_to_all(source, out, BatchOptions(k=2), announce=lines.append)
    assert lines[1].startswith("histories of an unfinished run are not used, they are damaged")
    assert "later" in pl.read_parquet(out)["user"]
    begin()
    monkeypatch.setattr(store_customers, "OLDEST_HOURS", 0)
    here.add_events([Event("newest", "i1", 1.0, "a")])
    recommend_to_all(source, out, BatchOptions(k=2), announce=lines.append)
    assert re.match(r"histories of an unfinished run are not used, they are of \d+-", lines[2])
    assert "newest" in pl.read_parquet(out)["user"]


@pytest.mark.parametrize("reason", ["old", "damaged", "lost"])
def test_results_of_other_histories_are_not_used(
    reason: str, here: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every part is computed again if histories are: the customers of a part are not those of before."""
    monkeypatch.setattr(recommending, "CUSTOMERS_PER_PART", 10)
    source, out, folder = source_of(here), tmp_path / "all", tmp_path / ".all.unfinished"

    class StopError(Exception):
        pass

    def stop(share: float) -> None:
        if share > 0.5:
            raise StopError

    with pytest.raises(StopError):
        recommend_to_all(source, out, BatchOptions(k=2), stop)
    assert len(list(folder.glob("part-*"))) == 2
    here.add_events([Event("a first one", "i1", 1.0, "a"), Event("another one", "i2", 1.0, "a")])
    here.forget("c0")
    if reason == "old":
        monkeypatch.setattr(store_customers, "OLDEST_HOURS", 0)
    elif reason == "damaged":
        (folder / "model" / "histories.safetensors").write_bytes(b"damaged")
    else:
        (folder / "store.json").unlink()
    report = recommend_to_all(source, out, BatchOptions(k=2))
    expected = {*CUSTOMERS, "a first one", "another one"} - {"c0"}
    found = pl.read_parquet(out)
    assert set(found["user"]) == expected
    assert (report.users, report.rows, report.parts_again) == (31, 62, 0)
    assert found.select("user", "rank").is_unique().all()


def test_a_long_history_is_read_as_the_service_reads_it(here: Store, tmp_path: Path) -> None:
    """The newest thousand events, by time and then by item."""
    many = [Event("long", f"i{number % 40}", float(number % 1203 // 2), str(number)) for number in range(2500)]
    here.add_events(many)
    recommend_to_all(source_of(here), tmp_path / "all", BatchOptions(k=2))
    with unfinished_parts(tmp_path / "other", "key") as parts:
        customers = store_customers.list_customers(here, shop_model(), parts)
    histories, users = customers.model.histories, customers.model.users
    assert histories is not None
    assert users is not None
    expected = [event.item for event in here.history("long")]
    assert histories.history_ids("long") == expected
    assert len(expected) == 1000


def test_ids_that_are_numbers(tmp_path: Path) -> None:
    base = shop_model()
    numbered = Interactions.from_pairs(np.arange(len(base.items)), np.arange(len(base.items)))
    model = replace(base, items=numbered.items, users=numbered.users, histories=numbered)
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        store.add_events([Event("1", "3", 1.0, "a"), Event("new", "3", 1.0, "a")])
        store.forget("2")
        store.change_live_items(remove=["5"])
        model.save(tmp_path / "model")
        shown = run("recommend-all", tmp_path / "model", "--store", store.url, "--out", tmp_path / "all.parquet")
    assert "has no version, so there are no titles" in shown.stderr
    found = pl.read_parquet(tmp_path / "all.parquet")
    assert {"1", "new"} <= set(found["user"])
    assert "2" not in found["user"]
    assert found["item"].dtype == pl.Int64
    assert 5 not in found["item"]


def test_what_is_refused(here: Store, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    out = tmp_path / "all.csv"
    assert "give a MODEL, or --store STORE" in error_of("recommend-all", "--out", out)
    assert "cannot have reasons, since CSV has no lists" in error_of("recommend-all", model, "--out", out, "--reasons")
    assert "--categories needs a table" in error_of("recommend-all", model, "--out", out, "--categories", "x")
    assert "diversity is 2.0: give a number from 0 to 1" in error_of(
        "recommend-all", model, "--out", out, "--diversity", "2"
    )
    with closing(open_store(f"file:{tmp_path / 'empty'}", create=True)) as empty:
        assert "has no version: publish a model to it" in error_of("recommend-all", "--store", empty.url, "--out", out)
    assert not out.exists()
    assert [path.name for path in tmp_path.glob(".*")] == []
