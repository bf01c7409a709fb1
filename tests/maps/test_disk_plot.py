"""The disk for print: what it shows, and that it is written atomically."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from lorentzrec.errors import InputError
from lorentzrec.maps import disk_plot as disk
from lorentzrec.maps.disk_plot import choose_labels, plot_disk

PLACES = np.array([[0.0, 0.0], [0.5, 0.1], [-0.5, 0.2], [0.1, 0.8]])


def words(path: Path) -> set[str]:
    """The texts of an SVG, which matplotlib writes as a comment before the shapes of their letters."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    return {(element.text or "").strip() for element in ElementTree.parse(path, parser).iter()} - {""}


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")])
def test_the_ending_decides_the_kind(tmp_path: Path, name: str, start: bytes) -> None:
    plot_disk(PLACES, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_largest_categories_have_colours_and_the_rest_is_grey(tmp_path: Path) -> None:
    """Nine categories and eight colours: the smallest one, last by name, is among the others."""
    positions = np.random.default_rng(0).uniform(-0.6, 0.6, (19, 2))
    categories = [*(f"kind {number}" for number in range(8) for _ in range(2)), "kind 8", None, None]
    plot_disk(positions, tmp_path / "a.svg", categories=categories, customers=positions[:3])
    assert words(tmp_path / "a.svg") >= {"kind 0", "kind 7", "other", "customers"}
    assert "kind 8" not in words(tmp_path / "a.svg")
    colours = (tmp_path / "a.svg").read_text().lower()
    assert all(colour.lower() in colours for colour in (*disk.CATEGORY_COLOURS, disk.OTHERS))


def test_a_picture_without_categories_has_no_legend(tmp_path: Path) -> None:
    plot_disk(PLACES, tmp_path / "a.svg", counts=np.array([100, 1, 1, 1]))
    assert not words(tmp_path / "a.svg") & {"other", "customers"}


def test_labels_are_written(tmp_path: Path) -> None:
    """Their white edge makes them shapes without a comment, so they are counted."""
    plot_disk(PLACES, tmp_path / "a.svg", labels={1: "Green tea", 2: "Cup"})
    ids = [element.get("id", "") for element in ElementTree.parse(tmp_path / "a.svg").iter()]
    assert sum(identifier.startswith("text_") for identifier in ids) == 2


def test_many_points_are_one_picture_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plot_disk(PLACES, tmp_path / "few.svg")
    monkeypatch.setattr(disk, "MANY_POINTS", 3)
    plot_disk(PLACES, tmp_path / "many.svg")
    assert "<image" not in (tmp_path / "few.svg").read_text()
    assert "<image" in (tmp_path / "many.svg").read_text()


def test_popular_items_are_larger_by_the_root() -> None:
    """Counts of 3 and 15 weigh 2 and 4, among 99,996 items that weigh 1."""
    sizes = disk._sizes(100_000, np.array([3, 15, *[0] * 99_998]))
    assert sizes.min() == 0.15
    sizes = disk._sizes(2_000, np.array([3, 15, *[0] * 1_998]))
    assert sizes[:3] / sizes[2] == pytest.approx([2, 4, 1])


def test_words_do_not_overlap() -> None:
    """The second overlaps the first, the third is far away, the fourth would be one too many."""
    positions = np.array([[0.0, 0.0], [0.01, 0.01], [0.0, 0.5], [0.0, -0.5]])
    long = "A title that is much too long for it"
    chosen = choose_labels(positions, [(0, "Tea"), (1, "Cup"), (2, long), (3, "Pot")], 2)
    assert list(chosen) == [0, 2]
    assert chosen[2] == "A title that is much too lo…"


def test_no_label_crosses_the_circle() -> None:
    """A label on the right of an item is to the left of its point, so only the one at the top has no room."""
    places = np.array([[0.0, 0.98], [0.9, 0.0], [-0.9, 0.0]])
    assert list(choose_labels(places, [(0, "Tea"), (1, "Cup"), (2, "Pot")], 3)) == [1, 2]


def test_bad_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"end the name in \.png, \.svg or \.pdf"):
        plot_disk(PLACES, tmp_path / "a.bmp")
    with pytest.raises(InputError, match="row 1 of the coordinates is not inside the unit disk"):
        plot_disk(np.array([[0.0, 0.0], [0.6, 0.8]]), tmp_path / "a.png")
    with pytest.raises(InputError, match=r"the customers have the shape \(4, 3\)"):
        plot_disk(PLACES, tmp_path / "a.png", customers=np.zeros((4, 3)))
    with pytest.raises(InputError, match="there are 4 items and 1 categories"):
        plot_disk(PLACES, tmp_path / "a.png", categories=["x"])
    assert list(tmp_path.iterdir()) == []
