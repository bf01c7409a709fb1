"""How event files are to be read, and ready readers for well-known data sets."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from lorentzrec.base.field_checks import Range, check_fields, check_names
from lorentzrec.data.times import check_format
from lorentzrec.errors import ConfigError

ROLES = ("user", "item", "time", "weight", "rating", "event", "order", "quantity")
"""What a column can be for. `rating` is for a threshold, `event` (view, purchase, ...) for weights by kind, `order` for
what was bought together, `quantity` for returns and cancellations, whose quantities are negative."""

_SPELLINGS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
"""Names of separators, for shells."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """How to read event files. Whatever is None is recognised from the file, with a note if it is a guess."""

    format: Literal["auto", "csv", "json", "parquet", "arrow", "excel", "adjacency", "csr"] = "auto"
    """File format; `auto`: by the first bytes and the suffix, csv, tsv, inter (RecBole), json, jsonl, ndjson, parquet,
    arrow, feather, xlsx, npz; text also as .gz, .zst, .bz2, .xz, .zip.

    `adjacency`: one line per user, `user item item ...`. `csr`: a SciPy sparse matrix, users in rows.

    Change it if the name of the file does not say what it contains.
    """
    user_column: str | None = None
    """Column of the customer; by default user, or a common name such as user_id.

    Change it if the name is not recognised, or the wrong column is.
    """
    item_column: str | None = None
    """Column of the item; by default item, or a common name such as product_id.

    Change it if the name is not recognised, or the wrong column is.
    """
    time_column: str | None = None
    """Column of the time; by default time, or a common name such as timestamp, if it exists. An empty string: times are
    not used.

    Change it if the name is not recognised; to an empty string if the times are meaningless.
    """
    order_column: str | None = None
    """Column of the order, basket or invoice that an event belongs to; by default order, or a common name such as
    order_id, if it exists. An empty string: orders are not used.

    Change it if the name is not recognised; to an empty string if the numbers do not mean orders.
    """
    quantity_column: str | None = None
    """Column of the quantity; by default quantity, or a common name such as qty, if it exists. A negative quantity is a
    cancellation or a return: it takes back the customer's latest earlier event with the item. An empty string:
    quantities are not used.

    Change it if the name is not recognised; to an empty string if negative numbers mean something else.
    """
    weight_column: str | None = None
    """Column of the weight; by default weight, if it exists.

    Change it if some events are to count more than others.
    """
    rating_column: str | None = None
    """Column of the rating.

    Change it together with `minimum_rating`, to keep good ratings only.
    """
    event_column: str | None = None
    """Column of the kind of event: view, purchase, ...

    Change it together with `event_weights` or `label_events`.
    """
    separator: str | None = None
    """Between the fields of a CSV line: one or more characters, tab or space; by default recognised from the file.

    Change it if a note or an error reports that the wrong one was recognised.
    """
    quote: str | None = '"'
    """Around fields that contain a separator; none if there are no quotes.

    Change it to none if quotes are part of the text, or to another character.
    """
    escape: str | None = None
    """The character before a quote inside a field, if quotes are not doubled: usually a backslash.

    Change it if a quote inside a field is written with a backslash.
    """
    decimal: str | None = None
    """Decimal point of weights and ratings, . or , ; by default recognised from the first values.

    Change it if numbers are rejected as not finite.
    """
    thousands: str | None = None
    """Between groups of three digits of weights and ratings: . , a comma, a quote or a space.

    Change it if an error asks whether `1,250` is 1250: then give a comma.
    """
    header: bool | None = None
    """Whether the first line names the columns. Default: yes, unless `columns` are given.

    Change it to false if the first line is an event although it looks like names.
    """
    columns: tuple[str, ...] = ()
    """Columns of files without a header, in order. Default: user, item, time, weight.

    Change it if there is no header; it also names columns that are not to be used.
    """
    encoding: str = "utf-8"
    """Text encoding; UTF-16 and UTF-32 are recognised by their byte order mark.

    Change it if an error names another one, usually latin-1 or cp1252 for files from Excel.
    """
    time_unit: Literal["auto", "seconds", "milliseconds", "microseconds", "nanoseconds", "iso"] = "auto"
    """seconds, milliseconds, microseconds, nanoseconds or iso; `auto`: numbers are unix seconds, text is ISO 8601.

    Change it for times in smaller units than seconds, which are refused otherwise.
    """
    time_format: str | None = None
    """The format of times that are not ISO 8601: `%d.%m.%Y %H:%M`.

    Change it for dates such as 13.05.2024 or 20240513.
    """
    ordered: bool = False
    """Events have no times but are in order, oldest first: their positions become times.

    Change it for sequences without times, such as the files of SASRec.
    """
    ties: Literal["shuffle", "file"] = "shuffle"
    """Order of a customer's events with equal times: shuffled, or as in the file.

    Change it to `file` if the order of the file is meaningful where times are equal, as on the public boards.
    """
    tie_seed: Annotated[int, Range(0, 2**31 - 1)] = 0
    """Seed of the shuffle of equal times.

    Change it to see how much depends on the order of equal times.
    """
    file_name: str | None = None
    """The file to read if a folder is given, for data sets that come as a folder of several files.

    Change it if a folder contains other files, too.
    """

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            object.__setattr__(self, "columns", tuple(self.columns.split(",")))
        check_fields(self, as_options=True)
        for name in ("separator", "quote", "escape"):
            value = getattr(self, name)
            if value == "":
                raise ConfigError(f"`{name}` is empty: give a character, or leave it out")
            if name != "separator" and value not in (None, "none") and len(value) != 1:
                raise ConfigError(f"`{name}` is {value!r}: give one character, or none")
            spellings: dict[str, str | None] = {**_SPELLINGS} if name == "separator" else {"none": None}
            object.__setattr__(self, name, spellings.get(value, value))
        if self.decimal not in (None, ".", ","):
            raise ConfigError(f"`decimal` is {self.decimal!r}: use a point or a comma")
        spelled = {"space": " ", "comma": ","}.get(self.thousands or "", self.thousands)
        object.__setattr__(self, "thousands", spelled)
        if self.thousands not in (None, ".", ",", "'", " "):
            raise ConfigError(f"`thousands` is {self.thousands!r}: use a point, a comma, a quote or space")
        if self.thousands is not None and self.thousands == self.decimal:
            raise ConfigError(f"`thousands` and `decimal` are both {self.thousands!r}: give another `decimal`")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ConfigError(f"there is no text `encoding` {self.encoding!r}: use utf-8, latin-1, ...") from None
        if self.time_format is not None:
            check_format(self.time_format)
        if self.ordered and self.time_column:
            raise ConfigError(
                "`ordered` is for events without times, but `time_column` is given: leave one out, or use `ties='file'`"
            )

    @property
    def has_header(self) -> bool:
        return not self.columns if self.header is None else self.header

    def column_of(self, role: str) -> str | None:
        """The name the user gave for a role, or None."""
        return getattr(self, f"{role}_column")  # type: ignore[no-any-return]


_RATING_TIMES = Source(format="csv", rating_column="rating", time_column="time", time_unit="seconds")
_RATING_LINES = replace(_RATING_TIMES, header=False, quote=None, columns=("user", "item", "rating", "time"))
_MOVIELENS_CSV = replace(
    _RATING_TIMES, user_column="userId", item_column="movieId", time_column="timestamp", file_name="ratings.csv"
)
READERS: dict[str, Source] = {
    "movielens-100k": replace(_RATING_LINES, separator="\t", file_name="u.data"),
    "movielens-1m": replace(_RATING_LINES, separator="::", file_name="ratings.dat"),
    "movielens-10m": replace(_RATING_LINES, separator="::", file_name="ratings.dat"),
    "movielens-20m": _MOVIELENS_CSV,
    "movielens-25m": _MOVIELENS_CSV,
    "movielens-32m": _MOVIELENS_CSV,
    "amazon-ratings": _RATING_LINES,
    "amazon-reviews": Source(
        format="json",
        user_column="reviewerID",
        item_column="asin",
        rating_column="overall",
        time_column="unixReviewTime",
        time_unit="seconds",
    ),
    "adjacency": Source(format="adjacency"),
    "adjacency-ordered": Source(format="adjacency", ordered=True),
    "sasrec": Source(format="csv", separator=" ", quote=None, columns=("user", "item"), ordered=True),
    "recbole": Source(
        format="csv", separator="\t", user_column="user_id", item_column="item_id", quote=None, time_unit="seconds"
    ),
    "csr": Source(format="csr"),
}
"""Ready readers by name. Give the file itself, or the folder it comes in."""


_KNOWN_FILES = {
    r"u\.data|u[1-5ab]\.(base|test)": "movielens-100k",
    r"ratings\.dat": "movielens-1m",
    r"ratings_[A-Z]\w*\.csv": "amazon-ratings",
    r"reviews_[A-Z]\w*\.json": "amazon-reviews",
}
"""Names of files as they are downloaded -> their reader."""


DATA_FILES = ("u.data", "ratings.dat", "ratings.csv")
"""The events of known data sets that come as a folder or an archive of several files."""


def reader_of_file(name: str) -> str | None:
    """The reader of a known data set that has a file of this name."""
    return next((reader for pattern, reader in _KNOWN_FILES.items() if re.fullmatch(pattern, name)), None)


def source_named(reader: str | None = None, **options: Any) -> Source:
    """The reader with this name, or the default one, with some of its settings changed."""
    if reader is not None and reader not in READERS:
        raise ConfigError(f"there is no reader {reader!r}: use one of {', '.join(READERS)}")
    check_names(Source, options, "source option")
    return replace(READERS[reader] if reader else Source(), **options)
