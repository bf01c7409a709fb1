"""`lorentzrec publish --require`: what a refusal prints and leaves behind, and the events that quality needs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from lorentzrec.serving.stores.address import open_store
from tests.cli.command_line import SETTINGS, error_of, run, run_json

QUALITY = ("--require", "ndcg@10>=0.95*current")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'store'}"


def test_the_gate_of_a_publish(model: Path, store: str) -> None:
    publish: list[str | Path] = ["publish", model, "--to", store, "--no-map"]
    first = run(*publish)
    assert "note: items>=0.9*current and overlap@10>=0.27: not checked, since a first version" in first.stderr
    assert "requirement" not in first.stdout
    result = run_json(*publish, "--require", "items>=30")
    assert [(one["requirement"], one["status"]) for one in result["gate"]] == [
        ("overlap@10>=0.27", "met"),
        ("items>=30", "met"),
    ]
    line = error_of(*publish, "--require", "items>=31")
    assert line.endswith(
        f"nothing is published to {store}, since items>=31 is missed: 30 items: train again on the right data, "
        "give another requirement, or publish with --force"
    )
    with closing(open_store(store)) as opened:
        assert len(opened.versions()) == len(opened.activations()) == 2
    forced = run(*publish, "--require", "items>=31", "--force", "--reason", "a small shop")
    (row,) = (line for line in forced.stdout.splitlines() if line.startswith("items>=31"))
    assert row.split() == ["items>=31", "missed", "30", "items"]
    with closing(open_store(store)) as opened:
        reason = "a small shop; forced, although these are not met: items>=31 (30 items)"
        assert opened.activations()[-1].reason == reason


def test_requirements_of_quality(model: Path, shop: Path, events_file: Path, store: str, tmp_path: Path) -> None:
    publish: list[str | Path] = ["publish", model, "--to", store, "--no-map"]
    for wrong, message in (
        ((*QUALITY, "--test", events_file), "is not a dataset, which --test needs"),
        (("--test", shop), "--test is for requirements such as --require ndcg@10>=0.95*current"),
        (("--require", "ndcg>=0.5"), "give a length of the lists, such as ndcg@10"),
    ):
        assert message in error_of(*publish, *wrong)
    for option in (("--test", shop), ("--force",), ("--require", "items>=1")):
        assert f"takes no {option[0]}" in error_of("publish", "--to", store, "--rollback", *option)
    run("prepare", events_file, "--out", tmp_path / "whole", "--split", "leave_last_out")
    assert f"{model} was not trained on the training part of {tmp_path / 'whole'}" in error_of(
        *publish, *QUALITY, "--test", tmp_path / "whole"
    )
    assert not (tmp_path / "store").exists(), "nothing was made by commands that cannot be"
    run(*publish, *QUALITY)
    line = error_of(*publish, *QUALITY)
    assert "ndcg@10>=0.95*current is not checked: there are no held-out events: give --test" in line
    # The last event of all is the only one that is newer than the training events of all customers.
    result = run_json(*publish, *QUALITY, "--test", shop)
    quality = result["gate"][-1]
    assert (quality["status"], quality["refuses"]) == ("met", False)
    assert quality["measured"].endswith("for 1 customer")
    run("train", events_file, "--out", tmp_path / "later", *SETTINGS)
    run("publish", tmp_path / "later", "--to", store, "--no-map", "--force")
    assert "no held-out event is newer than the data of version" in error_of(*publish, *QUALITY, "--test", shop)
