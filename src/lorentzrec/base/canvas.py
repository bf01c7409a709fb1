"""What all figures share: style, palette, and files that are written atomically."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lorentzrec.base.atomic import atomic_file
from lorentzrec.base.library_faults import require_extra
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
"""From Okabe and Ito's palette, which can be distinguished with any kind of colour vision."""
GREY = "#666666"

COLUMN_WIDTH, PAGE_WIDTH = 3.4, 7.0
"""In inches, on a two-column page: text is printed at the size it is set in."""


@contextmanager
def canvas(path: str | Path, width: float, height: float) -> Iterator[Figure]:
    """A figure of this size in inches, saved at the end of the block as PNG, SVG or PDF by the suffix of `path`."""
    ending = Path(path).suffix.lower()
    if ending not in (".png", ".svg", ".pdf"):
        raise InputError(f"{path} has no known image format: end the name in .png, .svg or .pdf")
    with require_extra("plots", "figures need matplotlib"):
        from matplotlib import rc_context
        from matplotlib.figure import Figure

    style: Any = {
        "font.size": 8,
        "axes.titlesize": 8,
        "legend.fontsize": 7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "lorentzrec",
    }
    with rc_context(style):
        # Figure itself, not pyplot: no window system, and nothing left open.
        figure = Figure(figsize=(width, height), dpi=200, layout="constrained")
        yield figure
        with atomic_file(path) as partial:
            # Without the date, equal data give equal files.
            figure.savefig(partial, metadata={"Date": None} if ending == ".svg" else None)
