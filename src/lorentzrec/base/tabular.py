"""Results as data frames of other libraries, as files, and as tables for a paper or a page."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lorentzrec.base.atomic import atomic_file, write_text
from lorentzrec.base.library_faults import require_package

if TYPE_CHECKING:
    import polars as pl

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


class TableText(NamedTuple):
    """A table for a reader."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The first cell of a row is text, the others are numbers."""

    def to_markdown(self) -> str:
        """A table of GitHub's Markdown."""
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        return "".join(f"| {' | '.join(_escape_markdown(cell) for cell in line)} |\n" for line in lines)

    def to_latex(self) -> str:
        r"""A `tabular` with the lines of the package booktabs: put `\usepackage{booktabs}` into the preamble."""
        head, *body = [" & ".join(map(_escape_latex, line)) + r" \\" for line in (self.header, *self.rows)]
        begin = rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}"
        return "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


class Tabular(ABC):
    """What has a data frame: `to_frame` is Polars, and the other methods give or write the same table."""

    @abstractmethod
    def to_frame(self) -> pl.DataFrame:
        """The table as a Polars frame."""

    def to_pandas(self) -> Any:
        """`to_frame` as a pandas frame."""
        return to_pandas(self.to_frame())

    def to_csv(self, path: str | Path | None = None) -> str:
        """`to_frame` as CSV, also written to `path` if given."""
        return _write(self.to_frame().write_csv(), path)

    def write_parquet(self, path: str | Path) -> None:
        """Write `to_frame` to a Parquet file."""
        with atomic_file(path) as partial:
            self.to_frame().write_parquet(partial)


class TabularReport(Tabular):
    """A result with a table for a reader as well, in `to_text`."""

    @abstractmethod
    def to_text(self) -> TableText:
        """The table for a reader."""

    def to_markdown(self, path: str | Path | None = None) -> str:
        """A table in Markdown, also written to `path` if given."""
        return _write(self.to_text().to_markdown(), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """A LaTeX `tabular` for a paper, which needs the package booktabs; also written to `path` if given."""
        return _write(self.to_text().to_latex(), path)


def to_pandas(frame: pl.DataFrame) -> Any:
    """A Polars frame as a pandas frame, without pyarrow."""
    with require_package("to_pandas needs {name}", "pip install pandas"):
        import pandas
    return pandas.DataFrame({column.name: _column(column) for column in frame})


def _column(column: pl.Series) -> Any:
    """Numbers as an array, everything else as a list."""
    return column.to_numpy() if column.dtype.is_numeric() and not column.null_count() else column.to_list()


def _write(text: str, path: str | Path | None) -> str:
    if path is not None:
        write_text(path, text)
    return text


def _escape_markdown(cell: str) -> str:
    return " ".join(re.sub(r"([\\|*_`<\[])", r"\\\1", cell).split())


def _escape_latex(cell: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(cell.split())).replace("±", r"$\pm$")
