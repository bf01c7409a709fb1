"""The paper's small graphs: every node is drawn with its name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lorentzrec.figures.canvas import canvas
from lorentzrec_paper.figures.small_graphs import plot_small_disk, plot_small_graph

PLACES = np.array([[0.0, 0.0], [0.5, 0.1], [-0.5, 0.2], [0.1, 0.8]])


def test_a_small_disk_and_its_graph_name_everybody(tmp_path: Path) -> None:
    with canvas(tmp_path / "a.svg", 3, 3) as figure:
        above, below = figure.subplots(2, 1)
        plot_small_graph(above, [(0, 0), (0, 1), (1, 1)], ["A", "B"], ["1", "2"])
        plot_small_disk(below, PLACES[:2], PLACES[2:], ["C", "D"], ["3", "4"])
        assert len(above.lines) == 3
        assert above.lines[1].get_xydata().tolist() == [[0.25, 1.0], [0.75, 0.0]]
        assert {text.get_text() for axes in (above, below) for text in axes.texts} == set("ABCD1234")
