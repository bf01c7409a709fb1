"""Numbers of the midpoint experiment that can be computed by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lorentzrec.studies.parts import PartStore
from lorentzrec_paper import midpoints
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Context
from lorentzrec_paper.midpoints import frechet_mean


def test_pairs_agree_and_the_printed_gamma_does_not() -> None:
    scan = midpoints.scan_pairs()
    assert scan.pairs == 41 * 40 / 2
    assert scan.einstein < 1e-9
    assert scan.ten_steps == pytest.approx(1 / 1023)  # ten halvings leave 1/1024 of the way
    assert scan.printed > 0.4


def test_uneven_sets_by_hand() -> None:
    sets = {one.positions: one for one in midpoints.uneven_sets().sets}
    einstein, frechet = sets[0.0, 0.0, 2.0].einstein, sets[0.0, 0.0, 2.0].frechet
    assert einstein == pytest.approx(math.atanh(math.sinh(2) / (2 + math.cosh(2))))
    assert frechet == pytest.approx(2 / 3)
    assert float(midpoints.place_of(frechet_mean(midpoints.on_line(np.array([0.0, 0.0, 2.0]))))) == pytest.approx(2 / 3)
    assert sets[0.0, 0.0, 2.0].difference == pytest.approx((einstein - 2 / 3) / (2 / 3))
    symmetric = sets[-2.0, 0.0, 2.0]
    assert (symmetric.einstein, symmetric.frechet, symmetric.printed) == pytest.approx((0, 0, 0), abs=1e-12)


def test_histories_differ_less_the_tighter_they_are() -> None:
    tight, wide = (midpoints.measure_histories(20, radius, 20) for radius in (0.1, 1.0))
    assert 0 < tight.median < wide.median < 0.2
    assert tight.shared > wide.shared > 0.8


def test_the_experiment_gives_its_verdicts(tmp_path: Path) -> None:
    context = Context(DataFolder(), PartStore(tmp_path), quick=True, say=lambda line: None)
    outcome = midpoints.run(context)
    assert [verdict.status for verdict in outcome.verdicts][::3] == ["holds", "fails"]
    outcome.figures["midpoints"].draw(tmp_path / "midpoints.svg")
    assert "<svg" in (tmp_path / "midpoints.svg").read_text()
