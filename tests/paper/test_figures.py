"""Figures are drawn as specified: curves, and small graphs with the name of every node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lorentzrec.base.canvas import canvas
from lorentzrec.errors import InputError
from lorentzrec_paper.figures import Curve, Panel, plot_curves, plot_small_disk, plot_small_graph

PLACES = np.array([[0.0, 0.0], [0.5, 0.1], [-0.5, 0.2], [0.1, 0.8]])


def test_each_kind_of_file(tmp_path: Path) -> None:
    curve = Curve("asymmetric", [1, 2, 3], [0.1, 0.2, 0.3], [0.01, 0.01, 0.02])
    panels = [
        Panel("epochs", "epochs", "HR@10", [curve, Curve("other", [1, 2], [0.2, 0.1])], level=0.15),
        Panel("rates", "rate", "HR@10", [Curve("euclidean", [0.01, 0.1], [0.2, 0.1])], logarithmic=True),
    ]
    for ending, first in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        plot_curves(panels, tmp_path / f"curves{ending}", columns=1)
        assert (tmp_path / f"curves{ending}").read_bytes().startswith(first)


def test_equal_curves_give_equal_files(tmp_path: Path) -> None:
    panels = [Panel("a", "x", "y", [Curve("symmetric", [1.5, 2.5], [0.1, 0.2])])]
    for name in ("one.svg", "two.svg"):
        plot_curves(panels, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_every_curve_is_drawn(tmp_path: Path) -> None:
    curves = [Curve(f"system {number}", [1, 2], [0.1 * number, 0.2]) for number in range(7)]
    for count in (6, 7):
        plot_curves([Panel("a", "x", "y", curves[-count:])], tmp_path / f"{count}.svg")
    assert (tmp_path / "6.svg").read_bytes().count(b"clip-path") < (tmp_path / "7.svg").read_bytes().count(b"clip-path")


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png, \.svg or \.pdf"):
        plot_curves([Panel("a", "x", "y", [])], tmp_path / "curves.txt")


def test_a_small_disk_and_its_graph_name_every_node(tmp_path: Path) -> None:
    with canvas(tmp_path / "a.svg", 3, 3) as figure:
        above, below = figure.subplots(2, 1)
        plot_small_graph(above, [(0, 0), (0, 1), (1, 1)], ["A", "B"], ["1", "2"])
        plot_small_disk(below, PLACES[:2], PLACES[2:], ["C", "D"], ["3", "4"])
        assert len(above.lines) == 3
        assert above.lines[1].get_xydata().tolist() == [[0.25, 1.0], [0.75, 0.0]]
        assert {text.get_text() for axes in (above, below) for text in axes.texts} == set("ABCD1234")
