"""`lorentzrec plot`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import error_of, run, run_json


def test_a_model_becomes_a_picture(model: Path, tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    table.write_text("item,title,group\n" + "".join(f"i{row},Item {row},kind {row // 10}|x\n" for row in range(30)))
    options = ("--items", table, "--category-column", "group", "--customers", "5", "--labels", "2")
    result = run("plot", "disk", model, "--out", tmp_path / "disk.svg", *options)
    assert "The map of 30 items is in" in result.stdout
    assert "the item table covers 30 of 30 items" in result.stderr
    assert "neighbours kept together, the radius by the distance to the model's centre; kept: " in result.stderr
    text = (tmp_path / "disk.svg").read_text()
    assert all(f"<!-- {word} -->" in text for word in ("kind 0", "kind 1", "kind 2", "customers"))
    unlabelled = run("plot", "disk", model, "--out", tmp_path / "plain.svg", *options[:-2])
    assert unlabelled.exit_code == 0
    assert text.count('id="text_') == (tmp_path / "plain.svg").read_text().count('id="text_') + 2


def test_titles_that_the_item_file_does_not_have(model: Path, tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    table.write_text("item,category\ni1,shoes\n")
    drawing = ("plot", "disk", model, "--out", tmp_path / "disk.png", "--items", table)
    assert error_of(*drawing, "--labels", "3") == (
        f"{table} has no column title: give an item file that has one, or leave --labels out"
    )
    assert run(*drawing).exit_code == 0


def test_a_program_learns_what_is_kept(model: Path, shop: Path, tmp_path: Path) -> None:
    arguments = ("plot", "disk", model, "--out", tmp_path / "disk.png", "--items", shop, "--method", "plane")
    result = run_json(*arguments)
    assert (result["items"], result["method"]) == (30, "plane")
    assert 0 < result["kept"]["spread"] < 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--out", "disk.doc"), "end the name in .png, .svg or .pdf"),
        (("--out", "disk.png", "--method", "globe"), "use one of auto, exact, levels, neighbours, plane"),
        (
            ("--out", "disk.png", "--customers", "61"),
            "60 customers with events, not 61: give a smaller number",
        ),
        (("--out", "disk.png", "--labels", "3"), "name a dataset or a file with --items"),
    ],
)
def test_what_cannot_be_drawn(
    model: Path, options: tuple[str, ...], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert error_of("plot", "disk", model, *options).endswith(line)
    assert list(tmp_path.iterdir()) == []
    assert error_of("plot", "globe", model, *options) == "there is no picture 'globe': use disk or attributes"
