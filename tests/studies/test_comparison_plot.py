"""The plot of a comparison."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from lorentzrec.errors import InputError
from lorentzrec.studies.plots import plot_comparison

SYSTEMS = [
    {"name": "popularity", "value": 0.1, "low": 0.09, "high": 0.11, "runs": [0.1]},
    {"name": "hyperboloid", "value": 0.3, "low": 0.28, "high": 0.32, "runs": [0.29, 0.31]},
    {"name": "euclidean", "value": 0.2, "low": 0.18, "high": 0.22, "runs": [0.19, 0.21]},
]


def test_an_svg_holds_each_system_best_last_and_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plot_comparison(SYSTEMS, "ndcg@20", tmp_path / name, title="shop")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert text.index("popularity") < text.index("<!-- euclidean") < text.index("<!-- hyperboloid")
    assert "<!-- 0.3000 -->" in text


def test_the_ending_decides_the_kind(tmp_path: Path) -> None:
    plot_comparison(SYSTEMS, "ndcg@20", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match=r"a\.txt has no known image format: end the name in \.png"):
        plot_comparison(SYSTEMS, "ndcg@20", tmp_path / "a.txt")
