"""Curves are drawn as they are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorentzrec.errors import InputError
from lorentzrec_paper.figures.curves import Curve, Panel, plot_curves


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


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png, \.svg or \.pdf"):
        plot_curves([Panel("a", "x", "y", [])], tmp_path / "curves.txt")
