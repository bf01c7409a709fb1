"""The three graphs, their measurements, and that training separates the groups."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.studies.parts import PartStore
from lorentzrec_paper import simulations
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Context


def test_the_graphs_are_the_papers() -> None:
    two = [("A", "1"), ("A", "2"), ("B", "1"), ("B", "2"), ("C", "3"), ("C", "4"), ("D", "3"), ("D", "4")]
    assert simulations.links_of("two groups") == two
    third = [("E", "5"), ("E", "6"), ("F", "5"), ("F", "6")]
    assert simulations.links_of("three groups") == two + third
    hub = [(user, "7") for user in "ABCDEF"]
    assert simulations.links_of("three groups and item 7") == two + third + hub


def test_distances_by_hand() -> None:
    # on a line: A at 1, item 1 at 1.5, C at -2, item 7 at 0.25
    points = lift(np.stack([np.sinh([1.0, 1.5, -2.0, 0.25]), np.zeros(4)], axis=1))
    result = simulations.measure(["A", "1", "C", "7"], points)
    assert result.hub is not None
    assert astuple(replace(result, hub=None))[:4] == pytest.approx((0.5, 0.5, 3.25, 3.0))
    assert astuple(result.hub) == pytest.approx((0.25, 1.0, 0.75, 2.25))


def test_the_quick_form_finds_the_groups(tmp_path: Path) -> None:
    context = Context(DataFolder(), PartStore(tmp_path), quick=True, say=lambda line: None)
    outcome = simulations.run(context)
    statuses = {verdict.claim: verdict.status for verdict in outcome.verdicts}
    assert (
        statuses["two groups: the points of a group are close together and far from other groups [0.02 as penalty]"]
        == "holds"
    )
    assert statuses["item 7 is embedded near the origin [0.02 as rate decay]"] == "holds"
    assert len(outcome.tables[0].rows) == 6
    outcome.figures["simulations"].draw(tmp_path / "simulations.svg")
    assert "<svg" in (tmp_path / "simulations.svg").read_text()
