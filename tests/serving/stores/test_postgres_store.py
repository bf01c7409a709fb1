"""What only a server can do: stop, freeze, come back, and refuse."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier

import pytest

from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores import postgres_connections, postgres_schema
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Event, StoredEvent
from lorentzrec.serving.stores.postgres_connections import has_input
from lorentzrec.serving.stores.postgres_schema import MIGRATIONS
from lorentzrec.serving.stores.postgres_store import PostgresStore
from lorentzrec.serving.stores.store import Store
from lorentzrec_paper.servers import free_port
from tests.serving.running_service import PATIENCE, wait_until
from tests.serving.servers import PostgresServer
from tests.serving.stores.raises_fault import raises_fault
from tests.serving.stores.version_folder import write_version

pytestmark = pytest.mark.postgres


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with closing(open_store(postgres_url, create=True)) as opened:
        yield opened


def end_sessions(server: PostgresServer) -> None:
    server.run(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'lorentzrec'", "test"
    )


def value_of(setting: str, server: PostgresServer) -> str:
    import psycopg

    with psycopg.connect(server.address("postgres")) as connection:
        return str(connection.execute(f"SHOW {setting}".encode()).fetchall()[0][0])


def test_the_password_is_in_a_variable_or_a_file_of_libpq(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres_url.replace("tester@", "guarded@")
    open_store(postgres_url, create=True).close()
    postgres_server.run("CREATE ROLE guarded SUPERUSER LOGIN PASSWORD 'secretpw'")
    rules = Path(value_of("hba_file", postgres_server))
    rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    postgres_server.run("SELECT pg_reload_conf()")

    def refused() -> bool:
        try:
            open_store(address).close()
        except LorentzrecError as error:
            return "password" in str(error)
        return False

    wait_until(refused)
    monkeypatch.setenv("PGPASSWORD", "secretpw")
    open_store(address).close()
    monkeypatch.delenv("PGPASSWORD")
    file = tmp_path / "pgpass"
    file.write_text("127.0.0.1:*:*:guarded:secretpw\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    open_store(address).close()


def test_vacuum_full_leaves_nothing_of_an_erased_customer(postgres_server: PostgresServer, store: Store) -> None:
    """As docs/security.md says. VACUUM alone leaves bytes in the free space of pages."""
    for number in range(200):
        users = (("unforgettable", f"item-{number}"), ("ann", f"other-{number}"))
        store.add_events([Event(user, item, float(number), item) for user, item in users])

    def occurrences() -> int:
        postgres_server.run("CHECKPOINT")
        tables = Path(value_of("data_directory", postgres_server), "base").rglob("*")
        return sum(path.read_bytes().count(b"unforgettable") for path in tables if path.is_file())

    assert occurrences() > 100
    assert store.forget("unforgettable") == 200
    postgres_server.run("VACUUM FULL", "test")
    assert occurrences() == 0


def test_a_server_that_is_stopped_or_killed_and_comes_back(postgres_server: PostgresServer, store: Store) -> None:
    for number, end in enumerate((postgres_server.stop, postgres_server.kill)):
        store.add_events([Event("ann", "tea", number, str(number))])
        end()
        for call in (store.state, lambda: store.history("ann"), lambda: store.add_events([Event("a", "b", 1, "c")])):
            with raises_fault(StoreFault.NOT_RESPONDING):
                call()
        postgres_server.start()
        # The same store object, at once: it finds by itself that the server is back.
        assert len(store.history("ann")) == number + 1


def test_a_frozen_server(postgres_server: PostgresServer, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.state()
    monkeypatch.setattr("lorentzrec.serving.stores.postgres_connections.RESPONSE_SECONDS", 0.5)
    postgres_server.freeze()
    try:
        with raises_fault(StoreFault.NOT_RESPONDING, "no response in 0.5 seconds"):
            store.state()
    finally:
        postgres_server.thaw()
    monkeypatch.undo()
    store.state()


def test_a_silent_server() -> None:
    """It accepts connections and never responds, as a port that something else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as silent, raises_fault(StoreFault.NOT_RESPONDING):
        open_store(f"postgresql://127.0.0.1:{silent.getsockname()[1]}/shop?connect_timeout=1")


def test_connections_of_many_threads_are_renewed_once(
    postgres_server: PostgresServer, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(store, PostgresStore)
    taken = Barrier(8)

    def read_in_turn(_: int) -> None:
        with store._connections.statement() as cursor:
            taken.wait(PATIENCE)
            cursor.execute("SELECT")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(read_in_turn, range(8)))
        postgres_server.kill()
        postgres_server.start()
        list(threads.map(read_in_turn, range(8)))
    assert caplog.text.count("was lost: connecting again") == 1
    assert "error connecting" not in caplog.text


def test_there_are_as_many_connections_as_asked_for(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_store(postgres_url, create=True, connections=30)) as store, ExitStack() as in_use:
        assert isinstance(store, PostgresStore)
        for _ in range(30):
            in_use.enter_context(store._connections.statement(PATIENCE))
        monkeypatch.setattr("lorentzrec.serving.stores.postgres_connections.RESPONSE_SECONDS", 0.5)
        with raises_fault(StoreFault.BUSY, "all 30 connections are in use"):
            store.state()


def test_a_connection_that_the_server_closed(postgres_server: PostgresServer, store: Store) -> None:
    store.state()
    end_sessions(postgres_server)
    store.state()


def test_a_lost_connection_is_reported_and_one_that_was_idle_is_not(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with closing(open_store(postgres_url, create=True)) as store:
        postgres_server.run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = 'test'")
        store.state()
        assert len(store.notices) == 1
        assert "was lost at" in store.notices[0]
    with closing(open_store(f"{postgres_url}?options=-c%20idle_session_timeout%3D50")) as store:
        store.state()
        wait_until(lambda: not postgres_server.sessions("test"))
        store.state()
        assert store.notices == []


def test_a_connection_that_is_lost_in_a_statement_is_reported(postgres_server: PostgresServer, store: Store) -> None:
    assert isinstance(store, PostgresStore)
    with raises_fault(StoreFault.NOT_RESPONDING), store._connections.statement() as cursor:
        cursor.execute("SELECT")
        end_sessions(postgres_server)
        cursor.execute("SELECT")
    assert ["was lost at" in notice for notice in store.notices] == [True]
    store.state()


def test_descriptors_above_1023_are_checked() -> None:
    """A service with many clients has such descriptors; select would refuse them."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), max(limits[1], 2048)))
    ours, theirs = socket.socketpair()
    high = fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD_CLOEXEC, 1500)
    try:
        assert not has_input(high)
        theirs.send(b"bye")
        assert has_input(high)
    finally:
        os.close(high)
        ours.close()
        theirs.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_connection_whose_check_fails_goes_back_to_the_pool(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(postgres_connections, "has_input", lambda descriptor: 1 / 0)
        for _ in range(50):
            with pytest.raises(ZeroDivisionError):
                store.versions()
    assert store.versions() == []


def test_a_port_without_a_server() -> None:
    with raises_fault(StoreFault.NOT_RESPONDING, "Connection refused"):
        open_store(f"postgresql://127.0.0.1:{free_port()}/shop")


def test_secrets_stay_secret(postgres_server: PostgresServer, postgres_url: str) -> None:
    url = postgres_url.replace("tester@", "tester:hidden@") + "?sslkey=hidden"
    with closing(open_store(url, create=True)) as store:
        assert store.url == f"postgresql://127.0.0.1:{postgres_server.port}/test"
    with raises_fault(StoreFault.REFUSED, 'database "none" does not exist') as failure:
        open_store(url.replace("/test?", "/none?"))
    assert "hidden" not in str(failure.value)


def test_a_refused_login_is_recognised_in_every_language() -> None:
    """libpq has no SQLSTATE for it, and the server's messages are in the language of its `lc_messages`."""
    server = PostgresServer(language="de")
    try:
        server.start()
        for address in (server.address("none"), server.address("postgres").replace("tester@", "stranger@")):
            with raises_fault(StoreFault.REFUSED):
                open_store(address)
        server.stop()
        with raises_fault(StoreFault.NOT_RESPONDING):
            open_store(server.address("none"))
    finally:
        server.remove()


def test_addresses_and_databases_that_cannot_be_used(postgres_server: PostgresServer) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        open_store("postgresql://host/shop?unknown=1")
    url = postgres_server.create_database("latin", "LATIN1")
    with pytest.raises(InputError, match="has encoding LATIN1: create one with UTF8"):
        open_store(url, create=True)


def test_a_migration_has_no_time_limit(store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_a_limit = """
        DO $$ BEGIN
            IF current_setting('statement_timeout') <> '0' THEN RAISE EXCEPTION 'there is a limit'; END IF;
        END $$
    """
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", (*MIGRATIONS, refuse_a_limit))
    with closing(open_store(postgres_url, migrate=lambda *_: None)) as migrated:
        assert isinstance(migrated, PostgresStore)
        assert migrated._rows("SHOW statement_timeout") == [("5min",)], "for what follows there is one"


def test_a_migration_that_fails_changes_nothing(
    store: Store, postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (*MIGRATIONS, "CREATE TABLE lorentzrec.later (number integer)", "SELECT 1 / 0")
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", steps)
    with pytest.raises(LorentzrecError, match="division by zero"):
        open_store(postgres_url, migrate=lambda *_: None)
    with raises_fault(StoreFault.OLDER, "schema 1 of 3"):
        open_store(postgres_url)
    postgres_server.run("CREATE TABLE lorentzrec.later (number integer)", "test")  # it is not there


def test_tables_that_were_dropped(postgres_server: PostgresServer, store: Store) -> None:
    store.add_events([Event("ann", "tea", 1, "1")])
    assert store.history("ann") == [StoredEvent("tea", 1.0)]
    postgres_server.run("DROP SCHEMA lorentzrec CASCADE", "test")
    with raises_fault(StoreFault.REFUSED):
        store.history("ann")


def test_a_killed_publisher_does_not_block_cleaning(store: Store, postgres_url: str, tmp_path: Path) -> None:
    store.upload(write_version(tmp_path, "a1"))
    script = (
        "import sys, time; from lorentzrec.serving.stores.address import open_store\n"
        "with open_store(sys.argv[1]).publishing():\n"
        "    print('publishing', flush=True); time.sleep(600)"
    )
    publisher = subprocess.Popen([sys.executable, "-c", script, postgres_url], stdout=subprocess.PIPE, text=True)
    assert publisher.stdout is not None
    assert publisher.stdout.readline() == "publishing\n"
    assert store.clean() == 0
    publisher.kill()
    publisher.communicate()
    wait_until(lambda: store.clean() == 1)  # once the server has noticed
