"""The comparison of symmetric and asymmetric in tiny form, and the arithmetic of equal quality."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lorentzrec.evaluation.report import Metric
from lorentzrec.studies.parts import PartStore
from lorentzrec_paper import movielens
from lorentzrec_paper.data_sets import DataFolder, MissingData
from lorentzrec_paper.experiment import Context
from lorentzrec_paper.movielens import Quality, Trained
from tests.paper.official_layouts import write_movielens_100k


def curve(values: list[float], seconds: list[float], parameters: int = 100) -> Trained:
    test = Quality(Metric(0.5), Metric(0.3), Metric(0.1), Metric(0.05), evaluated=1, held_out=1)
    return Trained(values, values, seconds, seconds, test, parameters)


def test_time_to_a_level_is_read_off_the_line() -> None:
    results = [curve([0.1, 0.2, 0.4], [1.0, 2.0, 3.0]), curve([0.3, 0.4, 0.4], [3.0, 4.0, 5.0])]
    # the means are 0.2, 0.3, 0.4 at 2, 3, 4 seconds
    assert movielens.seconds_to(results, "hr", 0.25, "seconds") == pytest.approx(2.5)
    assert movielens.seconds_to(results, "hr", 0.1, "seconds") == pytest.approx(2.0)
    assert movielens.seconds_to(results, "hr", 0.41, "seconds") is None


def test_verdicts_follow_the_curves() -> None:
    quick, slow = curve([0.4, 0.5], [1.0, 2.0]), curve([0.2, 0.5], [1.0, 4.0], 600)
    grouped = {movielens.MAIN: {"asymmetric": [quick], "symmetric": [slow]}}
    assert movielens.common_level(grouped[movielens.MAIN], "hr") == 0.5
    assert [one.status for one in movielens._verdicts(grouped, 0.4, "x")] == ["holds", "holds", "holds"]
    assert [one.status for one in movielens._verdicts(grouped, 0.6, "x")] == ["partly", "holds", "holds"]
    turned = {movielens.MAIN: {"asymmetric": [slow], "symmetric": [replace(quick, parameters=1200)]}}
    assert [one.status for one in movielens._verdicts(turned, 0.4, "x")] == ["holds", "fails", "partly"]
    worse = {movielens.MAIN: {"asymmetric": [curve([0.1], [1.0])], "symmetric": [curve([0.5], [1.0])]}}
    assert movielens._verdicts(worse, 0.4, "x")[0].status == "fails"


@pytest.mark.usefixtures("small_files")
def test_a_small_run_from_file_to_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_movielens_100k(tmp_path)
    monkeypatch.setattr(movielens, "PAPERS", movielens.PAPERS.replace(dimension=4, threads=1))
    context = Context(DataFolder(tmp_path), PartStore(tmp_path / "parts"), quick=True, say=lambda line: None)
    found = movielens.run(context)
    asymmetric, symmetric, popular = found.tables[0].rows
    assert popular[0] == "best sellers"
    assert (asymmetric[1], asymmetric[2]) == ("asymmetric", symmetric[2] - 80 * 4)  # a point of 4 for each customer
    assert any("MovieLens 100K" in note for note in found.notes)
    assert "the paper used MovieLens 20M, which is not in the data folder" in found.notes
    (tmp_path / "ml-20m").mkdir()
    (tmp_path / "ml-20m" / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,4.0,1\n")
    assert "the paper used MovieLens 20M, which is left out of a quick run" in movielens.run(context).notes
    found.figures["curves"].draw(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_without_any_movielens_the_file_is_named(tmp_path: Path) -> None:
    context = Context(DataFolder(tmp_path), PartStore(tmp_path / "parts"), say=lambda line: None)
    with pytest.raises(MissingData, match=r"ratings\.dat"):
        movielens.run(context)
