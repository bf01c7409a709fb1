"""What is written: pages, JSON and figures, with our numbers and the paper's apart."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lorentzrec.errors import InputError
from lorentzrec.studies.parts import Part, PartStore
from lorentzrec_paper import results
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Column, Context, Experiment, Figure, Outcome, Table, Verdict


def run(context: Context) -> Outcome:
    (value,) = context.run(float, [Part("half", {}, lambda: 0.5)])

    def draw(path: Path) -> None:
        path.write_text("a picture")

    columns = (Column("data", "key"), Column("HR@10", "ours", ".3f"), Column("HR@10", "paper", ".2f"))
    return Outcome(
        tables=(Table("Quality", columns, (("Toys | Games", value, 0.6), ("Other", None, None))),),
        verdicts=(Verdict("better by 14 %", "Table 2", "0.500", "fails", "too little data"),),
        figures={"curve": Figure("A curve.", draw)},
    )


def reproduce(tmp_path: Path) -> results.Results:
    context = Context(DataFolder(), PartStore(tmp_path / "toy" / "parts"), say=lambda line: None)
    return results.reproduce(Experiment("toy", "A toy", run), context, tmp_path, ["lorentzrec", "reproduce", "toy"])


def test_the_page_keeps_the_two_kinds_of_numbers_apart(tmp_path: Path) -> None:
    reproduce(tmp_path)
    lines = (tmp_path / "toy" / "table.md").read_text().splitlines()
    assert "| data | HR@10 (ours) | HR@10 (paper) |" in lines
    assert "| Toys \\| Games | 0.500 | 0.60 |" in lines
    assert "| Other | - | - |" in lines
    assert "| better by 14 % (Table 2) | 0.500 | **fails**: too little data |" in lines
    assert "![A curve.](curve.svg)" in lines


def test_json_and_figures_are_next_to_it(tmp_path: Path) -> None:
    written = reproduce(tmp_path)
    assert msgspec.json.decode((tmp_path / "toy" / "results.json").read_bytes(), type=results.Results) == written
    assert (written.parts.made, reproduce(tmp_path).parts.kept) == (1, 1)
    names = {path.name for path in (tmp_path / "toy").iterdir()}
    assert names == {"table.md", "results.json", "curve.png", "curve.svg", "parts"}


def test_the_summary_takes_what_is_there(tmp_path: Path) -> None:
    assert results.write_summary(tmp_path, ["toy"]) is None
    reproduce(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.json").write_text("{")
    assert results.write_summary(tmp_path, ["broken", "toy", "absent"]) == tmp_path / "summary.md"
    text = (tmp_path / "summary.md").read_text()
    assert "## [A toy](toy/table.md)" in text
    assert "![A curve.](toy/curve.png)" in text
    assert "broken/results.json cannot be read: run `lorentzrec reproduce broken`" in text


def test_parts_of_an_earlier_version_are_refused(tmp_path: Path) -> None:
    reproduce(tmp_path)
    context = Context(DataFolder(), PartStore(tmp_path / "toy" / "parts"), say=lambda line: None)
    with pytest.raises(InputError, match=r"parts holds results of an earlier version .*: remove it and run again$"):
        context.run(Column, [Part("half", {}, lambda: 0.5)])


def test_without_matplotlib_there_are_tables_and_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "find_spec", lambda name: None)
    written = reproduce(tmp_path)
    assert (written.figures, written.notes) == ((), (results.NO_FIGURES,))


def test_tables_refuse_what_could_be_misread() -> None:
    with pytest.raises(ValueError, match="one heading"):
        Table("x", (Column("a"), Column("a")), ())
    with pytest.raises(ValueError, match="2 cells"):
        Table("x", (Column("a"), Column("b")), ((1,),))
