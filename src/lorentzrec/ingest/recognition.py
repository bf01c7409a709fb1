"""Which column is for what: recognised by names and values, in the same way for files and for data frames."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lorentzrec.data.times import are_times, suggest_time_format
from lorentzrec.errors import RowFault
from lorentzrec.ingest.sources import ROLES, Source

if TYPE_CHECKING:
    import polars as pl

_NUMBER = "(id|key|no|nr|num|number|nummer|code|uuid)"
_DEED = (
    "(event|transaction|purchase|purchased|order|ordered|invoice|payment|sale|visit|click|view|action|interaction|"
    "review|rating|unixreview|created|creation|occurred|happened|placed|added|logged|server|unix|bestell|kauf|rechnungs|"
    "listened|played|watched|clicked|viewed|rated|bought|visited|reviewed)"
)
_MOMENT = "(time|timestamp|date|datetime|day|ts|at|datum|zeit)"
KNOWN_NAMES = {
    "user": rf"(user|visitor|customer|client|member|household|kunden?|cliente?){_NUMBER}?|uid|reviewerid|cust(id|no)",
    "item": rf"(item|movie|product|article|book|artikel|produkt|producto|produit){_NUMBER}?|(item|product)?sku|asin|"
    "isbn|stockcode",
    "time": "time|timestamp|ts|date|datetime|eventtime",
    "order": rf"(order|basket|cart|invoice|receipt|transaction|purchase|bestell|auftrags?|rechnungs?|bon|warenkorb)"
    rf"{_NUMBER}|order|basket|invoice|bestellung|auftrag|rechnung|warenkorb",
    "quantity": "(order|ordered|item|product|purchase|purchased|sale|sales|sold)?(quantity|quantities|qty)|"
    "menge|anzahl|st(ü|ue)ckzahl|cantidad|quantit(e|é)",
    "rating": "rating|bookrating|score|stars|overall",
    "event": "event(type|name|kind)?|kind|action(type)?|interaction(type)?|behaviou?r(type)?",
}
"""Role -> names of its column, in lower case and without other characters: `User-ID` is userid."""
_TIME_NAMES = rf"{_DEED}{_MOMENT}|datum|zeit|zeitstempel|fecha|day|when|t|moment"
"""Further names of times, if the values are times."""
_COUNTERS = rf"{KNOWN_NAMES['time']}|{_TIME_NAMES}|{_DEED}?(day|week|month|session|order|visit)(number|no|nr|num|index)"
"""Names of what may count the days or orders of a customer: an order of events without moments."""
_RECOGNISED = ("user", "item", "time", "order", "quantity")
"""Roles that are taken without an option; ratings and kinds of events matter only to some options."""
_PLURALS = {"time": "times", "order": "orders", "quantity": "quantities"}
"""Roles that events can be without."""


@dataclass(frozen=True)
class Column:
    """A column of a table, as far as its first rows show it."""

    name: str
    kind: str
    """What its values are: of an "integer" type, of a "float" type, "text" that stays text, "either", which is text
    that may spell integers, or "object", which has fields or elements."""
    values: pl.Series | None = None
    """Some of the first values; None if they are not known."""

    @property
    def spelled(self) -> str:
        """The name in lower case, without other characters than letters and digits."""
        return "".join(filter(str.isalnum, self.name.lower()))

    @property
    def holds_times(self) -> bool:
        return self.kind != "object" and self.values is not None and are_times(self.values)

    @property
    def holds_numbers(self) -> bool:
        """Whether the values are numbers, as far as they are known; a decimal sign may be a point or a comma."""
        import polars as pl

        if self.values is None or self.values.dtype.is_numeric():
            return self.kind != "object"
        if self.values.dtype != pl.String:
            return False
        spelled = self.values.drop_nulls().str.strip_chars()
        return bool(spelled.str.contains(r"^([+-]?\d[\d.,' ]*)?$").all())


@dataclass(frozen=True)
class Recognition:
    """The column of each role, what a reader of the result should know, and what is missing."""

    roles: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[RowFault] = field(default_factory=list)


def recognise(columns: Sequence[Column], source: Source, needed: Collection[str] = ()) -> Recognition:
    """The columns that are given by the source, and those recognised by their names and values.

    `needed`: roles that an option needs, such as the rating of a threshold.
    """
    found, named = Recognition(), {one.name: one for one in columns}
    roles = {role: column for role in ROLES if (column := source.column_of(role))}
    absent: list[str] = []
    for role, name in roles.items():
        if name not in named:
            missing = RowFault(f"no column {name!r} for the {role}, only {_list(named)}", f"`{role}_column`", role)
            found.faults.append(missing)
    for role in (*_RECOGNISED, *(one for one in ("rating", "event") if one in needed)):
        if source.column_of(role) is not None or (role == "time" and source.ordered):
            continue
        free = [one for one in columns if one.name not in roles.values()]
        known = _find_times(free) if role == "time" else _find_named(free, role)
        if role == "quantity":
            found.notes.extend(
                f"{one.name!r} has the name of a quantity and holds no numbers: it is not used"
                for one in known
                if not one.holds_numbers
            )
            free, known = ([one for one in some if one.holds_numbers] for some in (free, known))
        exact = named.get(role)
        if exact in free and (exact.kind != "object" or not known):
            roles[role] = role
            if role in ("order", "quantity"):  # `order` may also be a number that sorts something
                found.notes.append(f"the column {role!r} is taken for the {role}")
        elif len(known) == 1:
            roles[role] = known[0].name
            found.notes.append(f"the column {known[0].name!r} is taken for the {role}")
        elif known and role in _PLURALS:
            those, what = " and ".join(repr(one.name) for one in known), _PLURALS[role]
            found.notes.append(f"{those} look like {what} and are not used: choose one with `{role}_column`")
        elif known and role in ("user", "item"):
            those = _list(one.name for one in known)
            found.faults.append(RowFault(f"no column {role!r}, but {those}", f"`{role}_column`", role))
        elif role in ("user", "item"):
            absent.append(role)
    if absent:
        reason = " and ".join(f"no column {role!r}" for role in absent)
        options = " and ".join(f"`{role}_column`" for role in absent)
        single = absent[0] if len(absent) == 1 else ""
        found.faults.append(RowFault(f"{reason}, only {_list(named)}", options, single))
    if source.weight_column is None and "weight" in named:
        roles["weight"] = "weight"
    found.roles.update({role: roles[role] for role in ROLES if role in roles})
    found.faults.extend(_find_objects(found.roles, named, columns))
    found.notes.extend(_mention_floats(found.roles, named))
    found.notes.extend(_mention_unused(columns, found, source))
    return found


def _list(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:30]) + (", ..." if len(names) > 30 else "")


def find_names(columns: Iterable[Column], role: str) -> list[str]:
    """The names that are known for a role."""
    return [one.name for one in columns if re.fullmatch(KNOWN_NAMES[role], one.spelled)]


def _find_named(columns: Sequence[Column], role: str) -> list[Column]:
    """The columns with a known name, or the one of them that is an id: of `product` and `product_id` the second."""
    plain = [one for one in columns if re.fullmatch(KNOWN_NAMES[role], one.spelled) and one.kind != "object"]
    ids = [one for one in plain if one.spelled.endswith("id")]
    return ids if len(ids) == 1 and len(plain) > 1 else plain


def _find_times(columns: Sequence[Column]) -> list[Column]:
    """The columns with the plainest names of times: `time`; else those of a deed, since `signup_date` is no event."""
    certain = [one for one in columns if re.fullmatch(KNOWN_NAMES["time"], one.spelled)]
    if certain:
        timely = [one for one in certain if one.holds_times]
        return timely if len(timely) == 1 else certain
    return [one for one in columns if re.fullmatch(_TIME_NAMES, one.spelled) and one.holds_times]


def _find_objects(roles: Mapping[str, str], named: Mapping[str, Column], columns: Sequence[Column]) -> list[RowFault]:
    """A fault for every role whose column has fields or elements instead of values."""
    faults = []
    for role, name in roles.items():
        if name in named and named[name].kind == "object":
            fields = [one.name for one in columns if one.name.startswith(f"{name}.") and one.kind != "object"]
            option = f"`{role}_column='{fields[0]}'`" if fields else f"`{role}_column`"
            has = f"objects with {_list(fields)}" if fields else "lists"
            faults.append(RowFault(f"{has} in the column {name!r} of the {role}", option, "" if fields else role))
    return faults


def _mention_floats(roles: Mapping[str, str], named: Mapping[str, Column]) -> list[str]:
    return [
        f"the {role}s in {roles[role]!r} are whole numbers stored as floats, and are read as integers"
        for role in ("user", "item")
        if role in roles and roles[role] in named and named[roles[role]].kind == "float"
    ]


def _mention_unused(columns: Sequence[Column], found: Recognition, source: Source) -> list[str]:
    """Notes on columns that would matter and are not used."""
    unused = [one for one in columns if one.name not in found.roles.values()]
    notes, said = [], " ".join(found.notes)
    if not source.ordered and source.time_column is None:
        timely = [one for one in unused if repr(one.name) not in said]
        sure = [one for one in timely if one.holds_times and not re.search(f"{_NUMBER}$", one.spelled)]
        named = [one for one in timely if re.search("time|date|datum|_at$", one.name.lower())]
        if "time" not in found.roles:
            several = [*sure, *(one for one in named if one not in sure)]
            notes += [
                f"{one.name!r} may be a time and is not used: if it is, give `time_column`" for one in several[:3]
            ]
            notes += [
                f"{one.name!r} may be an order of events and is not used: if it is, give `time_column`"
                for one in timely
                if one not in several and re.fullmatch(_COUNTERS, one.spelled)
            ]
        else:
            notes += [f"{one.name!r} holds times and is not used" for one in sure[:3]]
    notes += [
        f"the column {one.name!r} is not used: pandas gives this name to row numbers that were saved with a frame"
        for one in unused
        if re.fullmatch(r"Unnamed: \d+", one.name)
    ]
    for name in find_names(unused, "rating")[:1]:
        notes.append(f"the column {name!r} is not used: keep good ratings with `rating_column` and `minimum_rating`")
    if "event" not in found.roles:
        for one in unused:
            if re.fullmatch(KNOWN_NAMES["event"], one.spelled) and (kinds := _list_kinds(one)):
                notes.append(
                    f"{one.name!r} holds kinds of events ({kinds}) and is not used: "
                    "give `event_column` with `event_weights` or `label_events`"
                )
    return notes


def _list_kinds(column: Column) -> str:
    """The first values of a column of kinds, such as view, purchase; empty if it has other values."""
    import polars as pl

    if column.values is None or column.values.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return ""
    kinds = column.values.drop_nulls().cast(pl.String).unique(maintain_order=True).to_list()
    return _list(kinds[:4]) if 0 < len(kinds) <= 12 else ""


def sample_faults(columns: Sequence[Column], roles: Mapping[str, str], source: Source) -> list[RowFault]:
    """What reading would report about the first times, for an error that names everything at once."""
    times = [one for one in columns if one.name == roles.get("time") and one.values is not None]
    if not times or source.time_format is not None or times[0].values is None:
        return []
    option = suggest_time_format(times[0].values)
    return [RowFault(f"times in {times[0].name!r} that are not ISO 8601", option)] if option else []


def guess_columns(values: Sequence[pl.Series]) -> tuple[str, ...]:
    """Names for the columns of a file without a header: the first two that are no times are user and item."""
    import polars as pl

    names, roles = [], iter(["user", "item"])
    timed = False
    for number, one in enumerate(values, 1):
        numbers = one.cast(pl.Float64, strict=False)
        if not timed and number > 2 and are_times(one):
            timed, name = True, "time"
        elif (role := next(roles, None)) is not None:
            name = role
        elif "rating" not in names and numbers.null_count() == 0 and bool(numbers.is_between(0, 10).all()):
            name = "rating"
        else:
            name = f"column_{number}"
        names.append(name)
    return tuple(names)
