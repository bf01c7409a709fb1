"""`lorentzrec demo`, on a small shop."""

from __future__ import annotations

import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorentzrec import Interactions, Model, TrainingConfig, TrainingInterrupted, evaluate, load
from lorentzrec.cli import demo
from lorentzrec.learning import trainer
from lorentzrec.serving.stores.address import open_store
from tests.cli.command_line import run, run_json

SMALL = {"CUSTOMERS": 200, "ITEMS": 200, "EVENTS": 2_000}


@pytest.fixture(autouse=True)
def small_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SMALL.items():
        monkeypatch.setattr(demo, name, value)


def test_it_ends_with_commands_that_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my demo"
    text = run("demo", "--no-serve", "--out", folder).stdout
    assert re.search(r"hr@10 +hyperboloid .*\n +euclidean .*\n +popularity .*\n +item-knn ", text)
    assert text.count("Recommendations") == 2
    assert "Running Top" in text
    (outfit,) = re.findall(r"Completing this basket to an outfit:\n  (.*)\n", text)
    assert 1 <= len(outfit.split(", ")) <= 4
    assert "Running Top" not in outfit
    change_folder, *commands = [shlex.split(line) for line in text.partition("Next steps:")[2].splitlines() if line]
    monkeypatch.chdir(change_folder[1])
    *commands, serve = commands
    assert len(commands) == 7
    for program, *arguments in commands:
        assert program == "lorentzrec"
        run(*arguments)
    assert serve == ["lorentzrec", "serve", "file:store"]


@contextmanager
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """The demo of a small shop in its own process: the process, its address, and the lines it printed before."""
    program = f"from lorentzrec.cli import demo, main\nvars(demo).update({SMALL})\nmain()"
    command = [sys.executable, "-c", program, "demo", "--out", str(folder)]
    printed: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                printed.append(line.strip())
                if line.startswith("http://"):
                    break
            yield process, printed[-1], printed
            printed += process.stderr
        finally:
            process.kill()


def wait_until_ready(http: httpx.Client) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        with suppress(httpx.TransportError):
            if http.get("/readyz").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the service does not come up")


def test_it_ends_in_a_page_and_ctrl_c_ends_that(tmp_path: Path) -> None:
    with socket.socket() as taken:
        try:
            taken.bind((demo.HOST, demo.PORT))
            taken.listen()
        except OSError:
            pass  # another process uses it, which has the same effect
        with served(tmp_path) as (process, address, printed), httpx.Client(base_url=address, timeout=60) as http:
            wait_until_ready(http)
            page = http.get("/")
            query: dict[str, Any] = {"user": "c017", "k": 5, "reasons": True}
            response = http.post("/v1/recommend", json=query).json()
            information = http.get("/v1/model").json()
            rules = http.get("/v1/rules").json()["rules"]
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    assert f"note: port 8000 is in use, so the page is on port {address.rpartition(':')[2]}" in printed
    assert page.headers["content-type"].startswith("text/html")
    assert len(response["items"]) == 5
    assert response["degraded"] is response["fallback"] is None
    assert all(item["title"] and item["category"] for item in response["items"])
    assert [(item["id"], item["new"]) for item in response["items"]][demo.RULE_POSITION - 1] == (demo.NEW_ITEM, True)
    assert response["rules"] == [rule["name"] for rule in rules] == [demo.RULE]
    assert information["map"] is not None
    assert [(one["arm"], one["geometry"]) for one in information["arms"]] == [
        ("main", "hyperboloid"),
        ("flat", "euclidean"),
    ]
    assert printed[-1] == address, "no line per request, so that the address stays visible"


def test_without_the_parts_of_a_service_it_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "granian", None)
    result = run("demo", "--out", tmp_path)
    assert result.stderr.splitlines()[-1].startswith("note: to see it on a page: pip install 'lorentzrec[serve]'")
    with closing(open_store(f"file:{tmp_path / 'store'}")) as store:
        assert store.state().version is not None


def test_it_names_a_script_that_is_not_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["env/bin/lorentzrec"])
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert (
        f"  {tmp_path}/env/bin/lorentzrec stats shop" in run("demo", "--no-serve", "--out", "here").stdout.splitlines()
    )


def test_its_numbers_are_those_of_its_folder(tmp_path: Path) -> None:
    result = run_json("demo", "--out", tmp_path)
    test = Interactions.from_dataset(tmp_path / "shop", "test")
    assert test.times is not None
    assert 0 <= time.time() - test.times.max() < 7 * 86_400, "the shop is of the last days"
    for geometry in ("hyperboloid", "euclidean"):
        model = load(tmp_path / geometry)
        assert model.config.geometry == geometry
        assert result["systems"][geometry]["full"] == evaluate(model, test).to_dict()
    with closing(open_store(result["store"])) as store:
        arms = store.state().arms
        assert {name: arm.share for name, arm in arms.items()} == {"main": 1.0, "flat": 0.0}
        assert {arm.version for arm in arms.values()} == {*store.versions()}
        history = Interactions.from_dataset(tmp_path / "shop", "train").history_ids("c017")
        assert sorted(touch.item for touch in store.history("c017")) == sorted(history)
    assert len(result["recommendations"]["known customer"]) == len(result["recommendations"]["new basket"]) == 5


def test_ctrl_c_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo has no use for the model so far."""

    def interrupted(data: Interactions, config: TrainingConfig, **_: object) -> object:
        raise TrainingInterrupted("training was interrupted in epoch 2 of 20", Model.__new__(Model))

    monkeypatch.setattr(trainer, "train", interrupted)
    assert run("demo", "--out", tmp_path, code=130).stderr.endswith("stopped by Ctrl-C\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw", "shop"]
