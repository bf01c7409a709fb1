"""Data frames and columns of other libraries: pandas, Polars, pyarrow and NumPy. pyarrow need not be installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.base.library_faults import first_line
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import polars as pl


def open_frame(frame: Any, refusal: str) -> nw.DataFrame[Any]:
    """A data frame of any library; an `InputError` with the text `refusal` if it is something else."""
    import narwhals.stable.v2 as nw

    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(refusal) from None


def polars_frame(frame: Any, refusal: str) -> pl.DataFrame:
    """The same as a Polars frame."""
    import polars as pl

    columns = open_frame(frame, refusal).iter_columns()
    remedy = "give values of one type"
    return pl.DataFrame(
        {str(one.name): polars_series(one.to_native(), f"the values of {one.name!r}", remedy) for one in columns}
    )


def polars_series(values: Any, what: str, remedy: str) -> pl.Series:
    """A list, an array or a column of a frame as a Polars series; `what` and `remedy` are for the `InputError`."""
    import polars as pl

    if isinstance(values, pl.Series):
        return values
    if type(getattr(values, "dtype", None)).__name__ == "DatetimeTZDtype":
        values = values.to_numpy(dtype="datetime64[us]")  # pandas with a time zone: the same moments in UTC
    elif isinstance(values, np.ndarray) and values.dtype.kind == "M":
        values = values.astype("datetime64[us]")
    try:
        if isinstance(values, str | bytes):
            raise TypeError("a single text")
        try:
            return pl.Series("", values, strict=False)
        except ImportError:  # pandas columns that Polars reads through pyarrow only
            return pl.Series("", values.to_numpy(dtype=object, na_value=None).tolist(), strict=False)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{what} cannot be read as one column ({first_line(error)}): {remedy}") from None
