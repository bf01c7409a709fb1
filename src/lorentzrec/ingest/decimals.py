"""Numbers as text: decimal points or commas, and separators of thousands. What could be either is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorentzrec.errors import RowFault
from lorentzrec.ingest.sources import Source

if TYPE_CHECKING:
    import polars as pl

NOT_FINITE = "not a finite number"


def parse_numbers(
    field: pl.Expr, sample: pl.Series, source: Source, separator: str
) -> tuple[pl.Expr, list[tuple[pl.Expr, RowFault]]]:
    """Text as numbers, null where it is none, and the conditions that are faults.

    `sample`: some of the first values. `separator`: between the fields of the file, which tells how its author writes
    numbers.
    """
    import polars as pl

    text, decimal, thousands = field.str.strip_chars(), source.decimal, source.thousands
    if decimal is None and thousands is None:
        decimal, thousands = _detect(sample.str.strip_chars())
    faults: list[tuple[pl.Expr, RowFault]] = []
    point = decimal or ("," if thousands == "." else ".")
    if thousands is not None:
        grouped = rf"^[+-]?\d{{1,3}}({re.escape(thousands)}\d{{3}})*({re.escape(point)}\d*)?$"
        plain = rf"^[+-]?\d*({re.escape(point)}\d*)?(e[+-]?\d+)?$"
        wrong = ~text.str.contains(grouped) & ~text.str.contains(plain)
        faults.append((wrong, RowFault(f"{_name(thousands)} that do not separate thousands")))
        text = text.str.replace_all(thousands, "", literal=True)
    elif point == "." and decimal is None:
        either = RowFault("a comma of decimals or of thousands", "`decimal=','` or `thousands=','`")
        faults.append((text.str.contains(r"^[+-]?[1-9]\d{0,2},\d{3}$"), either))
        faults.append((text.str.contains(",", literal=True), RowFault(NOT_FINITE, "`decimal=','`")))
        if separator == ";" and _all_in_thousands(sample):
            either = RowFault("a point of decimals or of thousands", "`decimal='.'` or `thousands='.'`")
            faults.append((text.str.contains(r"^[+-]?[1-9]\d{0,2}\.\d{3}$"), either))
    if point == ",":
        text = text.str.replace(",", ".", literal=True)
    return text.cast(pl.Float64, strict=False), faults


def _name(sign: str) -> str:
    return {",": "commas", ".": "points", "'": "quotes", " ": "spaces"}[sign]


def _detect(values: pl.Series) -> tuple[str | None, str | None]:
    """The decimal sign and the separator of thousands, where the values leave no doubt; None otherwise."""
    given = values.drop_nulls()
    for decimal, thousands in ((".", ","), (",", ".")):
        first, second = re.escape(thousands), re.escape(decimal)
        both = rf"^[+-]?\d{{1,3}}({first}\d{{3}})+{second}\d+$|^[+-]?\d{{1,3}}({first}\d{{3}}){{2,}}$"
        allowed = rf"^[+-]?(\d+|\d{{1,3}}({first}\d{{3}})+)({second}\d*)?$"
        if bool(given.str.contains(both).any()) and bool(given.str.contains(allowed).all()):
            return decimal, thousands
    commas = given.str.extract(r"^[+-]?\d+,(\d+)$").drop_nulls()
    points = given.str.contains(".", literal=True).any()
    # A comma with other than three digits after it, or after a zero, cannot separate thousands.
    sure = (commas.str.len_chars() != 3).any() or given.str.contains(r"^[+-]?0,\d+$").any()
    return (",", None) if len(commas) and not points and sure else (None, None)


def _all_in_thousands(sample: pl.Series) -> bool:
    """Whether every value with a point is like 1.250: at least two of them, so that it is no accident."""
    pointed = sample.str.strip_chars().drop_nulls()
    pointed = pointed.filter(pointed.str.contains(".", literal=True))
    return len(pointed) > 1 and bool(pointed.str.contains(r"^[+-]?[1-9]\d{0,2}\.\d{3}$").all())
