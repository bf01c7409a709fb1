"""Conversion of times in every notation to microseconds or seconds since 1970."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from lorentzrec.errors import ConfigError, InputError, RowFault

if TYPE_CHECKING:
    import polars as pl

TimeUnit = Literal["auto", "seconds", "milliseconds", "microseconds", "nanoseconds", "iso"]

MICROSECONDS = 1_000_000
"""In one second."""
SECONDS_PER_DAY = 86_400
NEWEST_TIME = 4_102_444_800 * MICROSECONDS
"""The first moment of the year 2100. Times from here on, in microseconds, are taken for mistakes."""
OLDEST_TIME = -62_135_596_800 * MICROSECONDS
"""The first moment of the year 1. Times before it are taken for mistakes."""

SAMPLE = 100
"""How many first values of a column decide its notation."""

_UNITS = {"seconds": MICROSECONDS, "milliseconds": 1_000, "microseconds": 1, "nanoseconds": 1e-3}
"""Microseconds in one unit."""
_LIKELY = (946_684_800, 2_051_222_400)
"""Unix seconds of the years 2000 and 2035: numbers between them, in any unit, are probably times."""

_ISO = (
    r"^\s*(?P<date>\d{4}-\d\d-\d\d|\d{8})"
    r"(?:[Tt ](?P<minute>\d\d:?\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?"
    r" ?(?P<zone>[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?\s*$"
)
"""ISO 8601 with and without seconds, separators and zone; times without a zone are in UTC."""

_DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y", "%d %b %Y", "%b %d, %Y")
_CLOCKS = (" %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", ", %H:%M:%S", ", %H:%M", "")
_STAMPS = ("%d/%b/%Y:%H:%M:%S %z", "%a %b %d %H:%M:%S %z %Y", "%a, %d %b %Y %H:%M:%S %z")
_SUGGESTED_FORMATS = (*(date + clock for date in _DATES for clock in _CLOCKS), *_STAMPS)
"""Formats to suggest for values that are not ISO 8601."""


def convert_to_microseconds(
    field: pl.Expr, kind: pl.DataType, sample: pl.Series, what: str, *, unit: TimeUnit, time_format: str | None
) -> tuple[pl.Expr, RowFault]:
    """The times of a column in microseconds, null where a value cannot be read, and the fault of such values.

    `sample`: some of the first values. `what`: the name of the column in errors.
    """
    import polars as pl

    if kind in (pl.Date, pl.Datetime):
        return field.cast(pl.Datetime("us", getattr(kind, "time_zone", None))).dt.epoch("us"), RowFault("not a time")
    if kind != pl.String and not kind.is_numeric():
        raise InputError(f"{what} are {kind}: give numbers, ISO 8601 text or datetimes")
    sample = sample.cast(pl.String).str.strip_chars()
    if time_format is not None:
        return _parse_format(field.cast(pl.String), time_format), RowFault(f"not a time of the form {time_format}")
    numbers = sample.cast(pl.Float64, strict=False)
    if unit == "iso" or (unit == "auto" and 2 * numbers.null_count() > len(sample)):
        if kind != pl.String:
            raise InputError(f"{what} are {kind}, not ISO 8601 text: give another `time_unit`")
        return _parse_iso(field), RowFault("not an ISO date or time", _suggest_formats(sample))
    if unit == "auto" and len(sample) and bool(_looks_like_a_date(sample).all()):
        raise InputError(
            f"{what} are numbers such as {sample[0]}, which look like dates: give `time_format='%Y%m%d'`, "
            "or `time_unit='seconds'` if they are unix seconds"
        )
    factor = _UNITS["seconds" if unit == "auto" else unit]
    if unit == "nanoseconds":
        whole, beyond = field.cast(pl.Int64, strict=False) // 1_000, float(2**63)
    else:
        # Earlier and later times are faults anyway; clipping them keeps the product within 64 bits.
        beyond = -2 * OLDEST_TIME // factor
        whole = field.cast(pl.Int64, strict=False).clip(int(-beyond), int(beyond)) * int(factor)
    if kind.is_integer():
        return whole, RowFault("does not fit 64 bits with sign")
    number = field.cast(pl.Float64, strict=False)
    fraction = pl.when(number.is_finite()).then((number.clip(-beyond, beyond) * factor).round()).cast(pl.Int64)
    return (pl.coalesce(whole, fraction) if kind == pl.String else fraction), RowFault("not a number")


def fault_of_late_times(sample: pl.Series) -> RowFault:
    """The fault of times after 2099, with the unit that would explain them; no unit explains two of them in one
    column."""
    import polars as pl

    numbers = sample.cast(pl.Float64, strict=False).drop_nulls()
    low, high = _LIKELY
    if numbers.is_between(low, high).any() and (numbers >= NEWEST_TIME / MICROSECONDS).any():
        return RowFault("after the year 2099, where other times are in seconds: the column mixes units")
    middle = float(numbers.median() or 0)  # type: ignore[arg-type]
    likely = "nanoseconds" if middle > 1e17 else "microseconds" if middle > 1e14 else "milliseconds"
    return RowFault("after the year 2099", f"`time_unit='{likely}'`" if len(numbers) else "")


def to_seconds(microseconds: pl.Series) -> pl.Series:
    """Whole seconds if all times are, else seconds with a fraction."""
    whole = bool((microseconds % MICROSECONDS == 0).all())
    return microseconds // MICROSECONDS if whole else microseconds / float(MICROSECONDS)


def convert_to_seconds(series: pl.Series, *, unit: TimeUnit = "auto", time_format: str | None = None) -> pl.Series:
    """A column without missing values as unix seconds, whole or with fractions; an `InputError` for the first value
    that is not a time."""
    import polars as pl

    check_unit(unit)
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    sample = series.head(SAMPLE)
    converted, reason = convert_to_microseconds(
        pl.col("time"), series.dtype, sample, "the times", unit=unit, time_format=time_format
    )
    instants = series.to_frame("time").select(converted).to_series()
    early, late = RowFault("before the year 1"), fault_of_late_times(sample)
    for wrong, fault in (
        (instants.is_null(), reason),
        (instants < OLDEST_TIME, early),
        (instants >= NEWEST_TIME, late),
    ):
        if wrong.any():
            row = int(wrong.arg_true()[0])
            action = f"give {fault.option}" if fault.option else "fix the row"
            raise InputError(f"the time in row {row + 1} is {series[row]!r}, {fault.reason}: {action}")
    if series.dtype.is_numeric() and unit in ("auto", "seconds") and time_format is None:
        return series.cast(pl.Int64) if series.dtype.is_integer() else series.cast(pl.Float64)
    return to_seconds(instants)


def are_times(sample: pl.Series) -> bool:
    """Whether the first values of a column are probably times: dates, text of a known notation, or unix times."""
    import polars as pl

    if sample.dtype in (pl.Date, pl.Datetime):
        return True
    values = sample.drop_nulls()
    if values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    if values.dtype == pl.String:
        values = values.str.strip_chars()
        values = values.filter(values != "")
    if len(values) == 0 or not (values.dtype == pl.String or values.dtype.is_numeric()):
        return False
    numbers = values.cast(pl.Float64, strict=False)
    if numbers.null_count() == 0:
        low, high = _LIKELY
        units = [low * MICROSECONDS <= numbers * factor for factor in _UNITS.values()]
        below = [numbers * factor < high * MICROSECONDS for factor in _UNITS.values()]
        plausible = any(bool((above & under).all()) for above, under in zip(units, below, strict=True))
        return plausible or bool(_looks_like_a_date(values.cast(pl.String)).all())
    if values.dtype != pl.String or not bool(values.str.contains(r"^[\p{L}\d][\p{L}\d .,:/+-]{5,39}$").all()):
        return False
    iso = values.to_frame("time").select(_parse_iso(pl.col("time"))).to_series()
    return iso.null_count() == 0 or _suggest_formats(values) != "`time_format`"


def suggest_time_format(sample: pl.Series) -> str:
    """The option that reads text that is not ISO 8601; empty if it is, or if the values are no text."""
    import polars as pl

    values = sample.drop_nulls()
    if values.dtype != pl.String or len(values) == 0:
        return ""
    numbers = values.cast(pl.Float64, strict=False)
    iso = values.to_frame("time").select(_parse_iso(pl.col("time"))).to_series()
    return _suggest_formats(values.str.strip_chars()) if iso.null_count() and numbers.null_count() else ""


def check_unit(unit: str) -> None:
    """Refuse the name of a unit that does not exist."""
    if unit not in get_args(TimeUnit):
        raise ConfigError(f"time_unit is {unit!r}: give one of {', '.join(get_args(TimeUnit))}")


def parse_moment(text: str | float, name: str) -> int:
    """One time given as an option: ISO 8601 text or unix seconds, in microseconds."""
    import polars as pl

    column = pl.Series("time", [str(text)])
    digits = str(text).strip().isdigit() and len(str(text).strip()) == 8
    seconds = None if digits else column.cast(pl.Float64, strict=False)[0]
    iso = column.to_frame().select(_parse_iso(pl.col("time"))).item()
    found: float | None = iso if seconds is None else seconds * MICROSECONDS
    if found is None or not abs(found) < 2**63:  # NaN and infinity are numbers, too
        raise ConfigError(
            f"the time {text!r} of `{name}` is neither ISO text nor unix seconds: give 2024-01-31, or a number"
        )
    return round(found)


def _parse_iso(field: pl.Expr) -> pl.Expr:
    import polars as pl

    parts = field.str.extract_groups(_ISO).struct
    clock = parts.field("minute").str.replace(":", "", literal=True).fill_null("0000")
    digits = parts.field("date").str.replace_all("-", "", literal=True) + clock + parts.field("second").fill_null("00")
    instant = digits.str.to_datetime("%Y%m%d%H%M%S", time_unit="us", strict=False).dt.epoch("us")
    fraction = (parts.field("fraction") + "000000").str.slice(0, 6).cast(pl.Int64, strict=False).fill_null(0)
    zone = parts.field("zone").str.replace(":", "", literal=True)
    hours, minutes = (zone.str.slice(start, 2).cast(pl.Int64, strict=False).fill_null(0) for start in (1, 3))
    sign = pl.when(zone.str.starts_with("-")).then(-1).otherwise(1)
    return instant + fraction - sign * (hours * 60 + minutes) * 60 * MICROSECONDS


def _parse_format(field: pl.Expr, time_format: str) -> pl.Expr:
    text = field.str.strip_chars()
    return text.str.to_datetime(time_format, time_unit="us", strict=False, time_zone="UTC").dt.epoch("us")


def _suggest_formats(sample: pl.Series) -> str:
    """The formats that read the whole sample, as options to choose from."""
    import polars as pl

    suited = []
    for time_format in _SUGGESTED_FORMATS:
        try:
            read = sample.to_frame("time").select(_parse_format(pl.col("time"), time_format)).to_series()
        except pl.exceptions.PolarsError:
            continue
        if len(read) and bool(((read >= 0) & (read < NEWEST_TIME)).fill_null(False).all()):
            suited.append(time_format)
    return " or ".join(f"`time_format={one!r}`" for one in suited[:2]) if suited else "`time_format`"


def _looks_like_a_date(sample: pl.Series) -> pl.Series:
    day = sample.str.to_date("%Y%m%d", strict=False)
    return (sample.str.contains(r"^(19|20)\d{6}$") & day.is_not_null()).fill_null(False)


def check_format(time_format: str) -> None:
    """Refuse a format that names no day."""
    if not any(code in time_format for code in ("%d", "%e", "%j", "%F", "%D", "%x", "%c", "%s", "%+", "%v")):
        raise ConfigError(f"time_format is {time_format!r}, which has no day: give a format such as '%d.%m.%Y %H:%M'")
