"""Damage of every part of every kind of store is found and named; a sound store is found sound."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.new_items import NewItem
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.upkeep.status import describe_store
from lorentzrec.serving.upkeep.verification import verify
from tests.serving.running_service import published
from tests.serving.servers import PostgresServer
from tests.serving.stores.raises_fault import raises_fault


def fill(store: Store, folder: Path) -> list[str]:
    """Two versions and something of everything; the names of the versions."""
    names = [published(store, folder, label) for label in ("first", "second")]
    store.add_events([Event(f"u{n % 9}", f"i{n}", n, str(n)) for n in range(500)])
    store.set_live_items(["i1", "i2"])
    store.describe_item(NewItem("new", title="New"), limit=10)
    store.forget("u3")
    return names


@pytest.fixture
def store(any_url: str, tmp_path: Path) -> Iterator[Any]:
    with closing(open_store(any_url, create=True)) as opened:
        yield opened


def damage(store: Store) -> dict[str, list[str]]:
    return {part.name: part.damage for part in verify(store) if part.damage}


def test_a_sound_store(store: Any, tmp_path: Path) -> None:
    assert damage(store) == {}, "also without content"
    first, second = fill(store, tmp_path)
    parts = {part.name: part for part in verify(store)}
    assert [part for part in parts.values() if part.damage] == []
    assert [*parts][:3] == [f"version {second}", f"version {first}", "log of activations"]
    assert parts["events"].content == "444", "500, without the 56 of an erased customer"
    assert parts["live items, new items, erasures"].content == "2, 1, 1"


def test_damaged_files_of_versions(store: Any, any_url: str, tmp_path: Path) -> None:
    first, second = fill(store, tmp_path)
    if any_url.startswith("file:"):
        folder = tmp_path / "store" / "versions"
        content = bytearray((folder / first / "points.safetensors").read_bytes())
        content[-1] ^= 1
        (folder / first / "points.safetensors").write_bytes(content)
        (folder / second / "items.sqlite").unlink()
    elif any_url.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(any_url) as connection:
            chosen = "version = (SELECT id FROM lorentzrec.versions WHERE name = %s) AND file = %s"
            change = f"UPDATE lorentzrec.version_chunks SET data = set_byte(data, 0, 255) WHERE {chosen}"
            connection.execute(change.encode(), (first, "points.safetensors"))
            connection.execute(
                f"DELETE FROM lorentzrec.version_chunks WHERE {chosen}".encode(), (second, "items.sqlite")
            )
    else:
        tokens = {one["id"]: one["token"] for one in store._catalogue.all("versions")}
        chunk = store._catalogue.read(f"files-{tokens[first]}", "points.safetensors-00000000")
        store._catalogue.put({**chunk, "data": "PzPz" + chunk["data"][4:]})
        store._catalogue.delete({"id": "items.sqlite-00000000", "place": f"files-{tokens[second]}"})
    found = damage(store)
    assert found[f"version {first}"] == ["points.safetensors"]
    assert [text.split(" (0 of")[0] for text in found[f"version {second}"]] == ["items.sqlite"]
    assert len(found) == 2


def test_versions_that_are_removed_meanwhile_are_not_damaged(store: Any, tmp_path: Path) -> None:
    first, second = fill(store, tmp_path)
    parts = verify(store)
    names = [next(parts).name]
    third = published(store, tmp_path, "third")
    store.discard(first)
    found = list(parts)
    assert [part for part in found if part.damage] == []
    names += [part.name for part in found]
    assert names[:2] == [f"version {second}", "log of activations"]
    read = store.activations

    def replace_afterwards() -> Any:
        log = read()
        if log[-1].version == third:
            published(store, tmp_path, "fourth")
            store.discard(third)
        return log

    store.activations = replace_afterwards
    assert damage(store) == {}


def test_a_file_that_cannot_be_read_is_damaged(tmp_path: Path) -> None:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        first, _ = fill(store, tmp_path)
        path = tmp_path / "store" / "versions" / first / "points.safetensors"
        path.unlink()
        path.mkdir()
        ((name, (line,)),) = damage(store).items()
        assert name == f"version {first}"
        assert "Is a directory" in line


def test_an_outage_of_a_file_is_not_damage(tmp_path: Path) -> None:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        fill(store, tmp_path)
        parts = verify(store)
        next(parts)
        (tmp_path / "store" / "store.sqlite").rename(tmp_path / "elsewhere.sqlite")
        with raises_fault(StoreFault.FILE_GONE):
            list(parts)


@pytest.mark.postgres
def test_an_outage_of_postgresql_is_not_damage(tmp_path: Path) -> None:
    server = PostgresServer()
    try:
        server.start()
        with closing(open_store(server.address("postgres"), create=True)) as store:
            fill(store, tmp_path)
            parts = verify(store)
            next(parts)
            server.kill()
            with raises_fault(StoreFault.NOT_RESPONDING):
                list(parts)
            server.start()
            parts = verify(store)
            while next(parts).name != "log of activations":
                pass
            server.kill()
            with raises_fault(StoreFault.NOT_RESPONDING):
                list(parts)
    finally:
        server.remove()


def test_a_missing_current_version(store: Any, any_url: str, tmp_path: Path) -> None:
    _, second = fill(store, tmp_path)
    if any_url.startswith("file:"):
        (tmp_path / "store" / "versions" / second / "manifest.json").unlink()
    elif any_url.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(any_url) as connection:
            connection.execute("DELETE FROM lorentzrec.versions WHERE name = %s", (second,))
    else:
        store._catalogue.delete({"id": second, "place": "versions"})
    assert damage(store) == {"log of activations": [f"the current version {second} of arm main is missing"]}


def test_damaged_records(store: Any, any_url: str, tmp_path: Path) -> None:
    """Content that no checksum protects, but that cannot be right."""
    fill(store, tmp_path)
    if any_url.startswith("cosmos"):
        (segment,) = [one for one in store._histories.everywhere("*") if one.get("user") == "u1"]
        store._histories.put({**segment, "events": [*segment["events"], ["x", "tea"]]})
        found = damage(store)
        assert found["documents of histories"] == [f"document {segment['id']} of {segment['customer']}"]
        store._histories.put(segment)
        (item,) = store._histories.all("new-items")
        store._histories.put({**item, "content": "{"})
        assert "live items, new items, erasures" in damage(store)
        assert describe_store(store)["new_items"] == {"put": 1, "events": 0}, "they are only counted"
        return
    table = "" if any_url.startswith("file:") else "lorentzrec."
    statements = [
        f"UPDATE {table}events SET weight = 0 WHERE time = 7",
        f"UPDATE {table}new_items SET content = '{{'",
    ]
    for statement in statements:
        if any_url.startswith("file:"):
            with closing(sqlite3.connect(tmp_path / "store" / "store.sqlite")) as connection:
                connection.execute(statement)
                connection.commit()
        else:
            import psycopg

            with psycopg.connect(any_url) as connection:
                connection.execute(statement.encode())
        if "weight" in statement:
            wrong = "event '7' of user 'u7' has weight 0.0: give a positive number, or a negative one for a dislike"
            assert damage(store) == {"events": [wrong]}
    assert "live items, new items, erasures" in damage(store)
    assert describe_store(store)["new_items"] == {"put": 1, "events": 0}, "they are only counted"


def test_damaged_pages_of_a_file(tmp_path: Path) -> None:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        fill(store, tmp_path)
    path = tmp_path / "store" / "store.sqlite"
    with path.open("r+b") as file:  # the log was emptied when the store was closed
        file.seek(2 * 4096 + 8)
        file.write(b"\xff" * 600)
    with closing(open_store(f"file:{tmp_path / 'store'}")) as store:
        found = damage(store)
    assert "store.sqlite" in found


@pytest.mark.postgres
def test_damaged_tables_of_postgresql(postgres_server: PostgresServer, postgres_url: str, tmp_path: Path) -> None:
    with closing(open_store(postgres_url, create=True)) as store:
        fill(store, tmp_path)
        parts = {part.name: part.content for part in verify(store)}
        assert parts["keys of events"] == "444 events"
        assert parts["indexes"].startswith("not checked: the database has no amcheck")
        postgres_server.run("CREATE EXTENSION amcheck", "test")
        try:
            checked = {part.name: part for part in verify(store)}["indexes"]
            assert "by amcheck" in checked.content
            assert int(checked.content.split()[0]) >= 8
            assert checked.damage == []
        finally:
            postgres_server.run("DROP EXTENSION amcheck", "test")
        postgres_server.run("UPDATE lorentzrec.events SET user_id = 'x' WHERE event_id = '7'", "test")
        assert damage(store) == {"keys of events": ["event '7' of user 'x' has a wrong key"]}
        postgres_server.run("ALTER TABLE lorentzrec.erasures DROP COLUMN time", "test")
        (found,) = damage(store)["tables"]
        assert found.startswith('table erasures: column "time" does not exist')


@pytest.mark.postgres
def test_missing_rights_are_not_damage(postgres_server: PostgresServer, postgres_url: str, tmp_path: Path) -> None:
    with closing(open_store(postgres_url, create=True)) as store:
        fill(store, tmp_path)
    for statement in (
        "CREATE SCHEMA tools",
        "CREATE EXTENSION amcheck SCHEMA tools",
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA lorentzrec, tools TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA lorentzrec TO reader",
    ):
        postgres_server.run(statement, "test")
    try:
        with closing(open_store(postgres_url.replace("tester@", "reader@"))) as store:
            found = {part.name: part for part in verify(store)}
            assert [part for part in found.values() if part.damage] == []
            assert found["indexes"].content.startswith("not checked: permission denied for function bt_index_check")
            postgres_server.run("GRANT EXECUTE ON FUNCTION tools.bt_index_check(regclass) TO reader", "test")
            assert "by amcheck" in {part.name: part for part in verify(store)}["indexes"].content
            postgres_server.run("REVOKE SELECT ON lorentzrec.erasures FROM reader", "test")
            with raises_fault(StoreFault.REFUSED, "permission denied for table erasures"):
                list(verify(store))
    finally:
        postgres_server.run("DROP SCHEMA tools CASCADE", "test")
        postgres_server.run("DROP OWNED BY reader", "test")
        postgres_server.run("DROP ROLE reader", "test")


def test_the_status_of_a_store(store: Any, any_url: str, tmp_path: Path) -> None:
    first, second = fill(store, tmp_path)
    store.roll_back(first, "worse", instead_of=second)
    third = published(store, tmp_path, "third")
    found = describe_store(store)
    states = {one["name"]: one["state"] for one in found["versions"]}
    assert states == {third: "current", second: "rejected", first: "earlier"}
    for one in found["versions"]:
        assert one["items"] > 0
        assert one["bytes"] > 1000
        assert one["created"].startswith("20")
    assert [(entry["version"], entry["rejected"]) for entry in found["activations"]] == [
        (first, None),
        (second, None),
        (first, second),
        (third, None),
    ]
    assert (found["version"], found["live_items"], found["removed_items"]) == (third, 2, 0)
    assert (found["events"], found["customers"], found["new_items"]) == (444, 8, {"put": 1, "events": 0})
    assert found["warnings"] == []
    if any_url.startswith("file:"):
        (tmp_path / "store" / "versions" / third / "manifest.json").unlink()
        (warning,) = describe_store(store)["warnings"]
        assert f"the current version {third} is missing" in warning
