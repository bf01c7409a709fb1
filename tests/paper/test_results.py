"""What is written: pages, JSON and figures, ours and the paper's numbers apart; and the command around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lorentzrec.tuning.parts import Part, PartStore
from lorentzrec_paper import results
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Column, Context, Experiment, Outcome, Table, Verdict


def run(context: Context) -> Outcome:
    (value,) = context.run([Part("half", {}, lambda: 0.5)])

    def draw(path: Path) -> None:
        path.write_text("a picture")

    columns = (Column("data", "key"), Column("HR@10", "ours", ".3f"), Column("HR@10", "paper", ".2f"))
    return Outcome(
        tables=(Table("Quality", columns, (("Toys | Games", value, 0.6), ("Other", None, None))),),
        verdicts=(Verdict("better by 14 %", "Table 2", "0.500", "fails", "too little data"),),
        figures={"curve": draw},
        captions={"curve": "A curve."},
    )


def made(tmp_path: Path) -> dict[str, object]:
    context = Context(DataFolder(), PartStore(tmp_path / "toy" / "parts"), say=lambda line: None)
    return results.reproduce(Experiment("toy", "A toy", run), context, tmp_path, ["lorentzrec", "reproduce", "toy"])


def test_the_page_keeps_the_two_kinds_of_numbers_apart(tmp_path: Path) -> None:
    made(tmp_path)
    lines = (tmp_path / "toy" / "table.md").read_text().splitlines()
    assert "| data | HR@10 (ours) | HR@10 (paper) |" in lines
    assert "| Toys \\| Games | 0.500 | 0.60 |" in lines
    assert "| Other | - | - |" in lines
    assert "| better by 14 % (Table 2) | 0.500 | **fails**: too little data |" in lines
    assert "![A curve.](curve.svg)" in lines


def test_json_and_figures_are_beside_it(tmp_path: Path) -> None:
    answer = made(tmp_path)
    assert json.loads((tmp_path / "toy" / "results.json").read_text()) == json.loads(json.dumps(answer))
    assert answer["parts"] != made(tmp_path)["parts"]  # made, then kept
    names = {path.name for path in (tmp_path / "toy").iterdir()}
    assert names == {"table.md", "results.json", "curve.png", "curve.svg", "parts"}


def test_the_summary_takes_what_is_there(tmp_path: Path) -> None:
    assert results.write_summary(tmp_path, ["toy"]) is None
    made(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.json").write_text("{")
    assert results.write_summary(tmp_path, ["broken", "toy", "absent"]) == tmp_path / "summary.md"
    text = (tmp_path / "summary.md").read_text()
    assert "## [A toy](toy/table.md)" in text
    assert "![A curve.](toy/curve.png)" in text


def test_without_matplotlib_there_are_tables_and_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "find_spec", lambda name: None)
    answer = made(tmp_path)
    assert (answer["figures"], answer["notes"]) == ([], [results.NO_FIGURES])


def test_tables_refuse_what_could_be_misread() -> None:
    with pytest.raises(ValueError, match="one heading"):
        Table("x", (Column("a"), Column("a")), ())
    with pytest.raises(ValueError, match="2 cells"):
        Table("x", (Column("a"), Column("b")), ((1,),))
