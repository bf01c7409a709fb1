"""The address of a store comes from the command line, a file or a variable, and a password need not be visible."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.serving.stores.address import VARIABLE, open_store
from lorentzrec.serving.stores.histories import Event
from tests.cli.command_line import error_of, run, run_json
from tests.serving.running_service import service_process, shop_store


@pytest.fixture
def store(tmp_path: Path) -> str:
    made = shop_store(tmp_path)
    made.close()
    return made.url


@pytest.fixture
def file(store: str, tmp_path: Path) -> Path:
    path = tmp_path / "address"
    path.write_text(f"\n{store}\n")
    return path


def test_every_command_reads_the_address_from_a_file_or_the_variable(
    store: str, file: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_json("live", f"@{file}")["store"] == store
    assert run_json("publish", model, "--to", f"@{file}", "--no-map", "--force")["store"] == store
    for value in (store, f"{store}\n", f"@{file}"):
        monkeypatch.setenv(VARIABLE, value)
        assert run_json("live")["store"] == store
        assert run_json("publish", model, "--no-map", "--force")["store"] == store
    other = f"file:{tmp_path / 'other'}"
    assert f"{other} holds no store" in error_of("live", other), "the command line comes first"


def test_a_service_without_an_address_on_its_command_line(
    store: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, store)
    with service_process(None, tmp_path, "--workers", "1") as service:
        command = Path(f"/proc/{service.process.pid}/cmdline").read_bytes()
        assert store.encode() not in command
        assert service.http.get("/v1/model").status_code == 200
    monkeypatch.delenv(VARIABLE)
    with service_process(f"@{file}", tmp_path, "--workers", "1") as service:
        assert service.http.get("/v1/model").status_code == 200


def test_an_address_that_cannot_be_read(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    missing = tmp_path / "missing"
    line = error_of("live", f"@{missing}")
    assert line.startswith(
        f"{missing} cannot be read as the address of a store (No such file or directory): give @FILE"
    )
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff\xfe")
    assert "(not UTF-8): give @FILE" in error_of("live", f"@{bad}")
    bad.write_text("postgresql://shop:secretpw@db/a\npostgresql://shop:secretpw@db/b\n")
    line = error_of("serve", f"@{bad}")
    assert f"{bad} has 2 lines instead of the address of a store" in line
    assert "secretpw" not in line
    bad.write_text("postgre://shop:secretpw@db/a")
    assert "secretpw" not in error_of("publish", model, "--to", f"@{bad}")
    assert error_of("live") == "Missing argument 'STORE', and LORENTZREC_STORE is not set: see lorentzrec live --help"
    monkeypatch.setenv(VARIABLE, "")
    assert "Missing option '--to', and LORENTZREC_STORE is not set" in error_of("publish", model)


def test_the_variable_does_not_change_what_a_model_recommends(
    store: str, file: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, store)
    ended = run("recommend-all", model, "--out", tmp_path / "model.csv", "--json")
    assert json.loads(ended.stdout)["store"] is None
    assert f"{VARIABLE} is set but not used, since MODEL is given" in ended.stderr
    given = run_json("recommend-all", model, "--store", f"@{file}", "--out", tmp_path / "both.csv")
    assert given["store"]["store"] == store
    with closing(open_store(store)) as opened:
        opened.add_events([Event("ann", "i3", 1, "1")])
    alone = run_json("recommend-all", "--out", tmp_path / "store.csv")
    assert (alone["store"]["store"], alone["users"]) == (store, 1)


def test_the_help_names_both_ways() -> None:
    for command in ("serve", "publish", "live"):
        shown = run(command, "--help").stdout
        assert "@FILE" in shown
        assert VARIABLE in shown
