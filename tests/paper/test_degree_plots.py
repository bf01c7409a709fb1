"""The degree plot: what it shows, and that it is written atomically."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from lorentzrec import Interactions
from lorentzrec.errors import InputError
from lorentzrec.synthetic.shop import synthetic_shop
from lorentzrec_paper.degree_plots import cumulative_shares, plot_degrees
from lorentzrec_paper.network_statistics import NetworkStatistics, network_statistics


@pytest.fixture(scope="module")
def shop() -> NetworkStatistics:
    return network_statistics(synthetic_shop(400, 200, 3_000).interactions(), name="small shop", trials=0)


def test_shares_count_items_at_or_above() -> None:
    """Of five items one has no neighbour: it counts in the share, and has no place on a logarithmic axis."""
    degrees, shares = cumulative_shares(np.array([7, 3, 3, 1, 0]))
    assert degrees.tolist() == [1, 3, 7]
    assert shares.tolist() == [float(Fraction(4, 5)), float(Fraction(3, 5)), float(Fraction(1, 5))]


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")])
def test_the_ending_decides_the_kind(shop: NetworkStatistics, tmp_path: Path, name: str, start: bytes) -> None:
    plot_degrees([shop], tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_an_svg_holds_a_panel_and_an_inset_for_each_and_is_the_same_each_time(
    shop: NetworkStatistics, tmp_path: Path
) -> None:
    for name in ("a.svg", "b.svg"):
        plot_degrees([shop, shop, shop], tmp_path / name, columns=2)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    ids = [element.get("id", "") for element in ElementTree.parse(tmp_path / "a.svg").iter()]
    assert sum(identifier.startswith("axes_") for identifier in ids) == 6


def test_data_without_a_fit_are_drawn_without_a_line(tmp_path: Path) -> None:
    flat = network_statistics(Interactions.from_pairs([1, 1], [1, 2]), trials=0)
    plot_degrees([flat], tmp_path / "flat.svg")
    assert "#d55e00" not in (tmp_path / "flat.svg").read_text().lower()


def test_bad_requests_are_refused(shop: NetworkStatistics, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"end the name in \.png, \.svg or \.pdf"):
        plot_degrees([shop], tmp_path / "a.bmp")
    with pytest.raises(InputError, match="nothing to plot"):
        plot_degrees([], tmp_path / "a.png")
    with pytest.raises(InputError, match="create it first"):
        plot_degrees([shop], tmp_path / "gone" / "a.png")
    assert list(tmp_path.iterdir()) == []
