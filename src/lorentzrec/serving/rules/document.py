"""The rules of a shop as a document: what a merchandiser writes, and everything that can be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from lorentzrec.base.library_faults import locate_json_fault
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.errors import InputError
from lorentzrec.points.rule_classes import RuleKind
from lorentzrec.serving.worker.query import ID_PATTERN, Condition, Id

Route: TypeAlias = Literal["recommend", "similar", "alternatives", "outfits", "trending"]
"""What a list is for."""
ROUTES: tuple[Route, ...] = get_args(Route)
MOST_RULES = 5_000
MOST_SET_IDS = 2_000_000
"""In all sets together."""
LARGEST_FACTOR = 1_000.0
MOST_FAULTS = 20
"""Faults that are reported at once."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100, pattern=ID_PATTERN)]
Factor: TypeAlias = Annotated[float, Meta(ge=1, le=LARGEST_FACTOR)]
ColumnName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]


class Selection(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The items that a rule is about: those that meet all of these. Without any, all items."""

    ids: Annotated[Sequence[Id], Meta(max_length=10_000)] | None = None
    where: Annotated[Mapping[str, Condition], Meta(max_length=20)] = {}
    """Conditions on columns, such as `{"brand": "Acme", "price": {"max": 50}}`."""
    set: Name | None = None
    """The name of a set."""


class Boost(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A boost that depends on a column of numbers."""

    factor: Factor
    """Of the item with the largest value."""
    by: ColumnName
    """The column. An item is boosted by the share of the selected items whose value is smaller."""


class Quota(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The largest number of items of each value of a column."""

    limit: Annotated[int, Meta(ge=0, le=1_000)]
    per: ColumnName


class Rule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule: when and where it is in force, the items that it is about, and what it does with them."""

    name: Name
    routes: Annotated[Sequence[Route], Meta(min_length=1, max_length=len(ROUTES))] = ROUTES
    since: Annotated[datetime, Meta(tz=True)] | None = None
    """When it comes into force; null: it is now."""
    until: Annotated[datetime, Meta(tz=True)] | None = None
    """When it ends; null: never."""
    select: Selection = msgspec.field(default_factory=Selection)
    only: bool = False
    """Nothing but these items is recommended. Of several such rules, an item must be selected by one."""
    exclude: bool = False
    """None of these items is recommended."""
    boost: Factor | Boost | None = None
    """10 carries an item from about rank 100 to rank 10, and 2 halves its rank."""
    bury: Factor | None = None
    """The opposite: 2 doubles the rank of an item."""
    pin: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    """The position of the first of `ids`; the others follow it. Items that may not be recommended are left out."""
    quota: Quota | None = None
    """The largest number of these items in a list."""

    @property
    def kinds(self) -> list[RuleKind]:
        """What it does: exactly one, in a valid rule."""
        return [kind for kind in RuleKind if getattr(self, kind) not in (None, False)]

    def is_in_force(self, route: str, moment: float) -> bool:
        """moment: unix seconds."""
        begun = self.since is None or self.since.timestamp() <= moment
        return route in self.routes and begun and (self.until is None or moment < self.until.timestamp())


class RuleSet(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All rules of a shop, and its named sets of items."""

    rules: Annotated[Sequence[Rule], Meta(max_length=MOST_RULES)] = ()
    sets: Mapping[Name, Sequence[Id]] = {}
    """Ids by the name of the set: a country, a campaign. Requests use them as `set`, rules in `select`."""

    @property
    def ids(self) -> list[str]:
        """All ids, each once."""
        lists = [*self.sets.values(), *(rule.select.ids or () for rule in self.rules)]
        return [*dict.fromkeys(str(id) for ids in lists for id in ids)]

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()


class RuleFault(NamedTuple):
    """One thing that is wrong."""

    where: str
    """The path, such as `rules[3].select.set`."""
    what: str


class InvalidRules(InputError):  # noqa: N818 - an error in what was sent
    """A set of rules is refused whole."""

    def __init__(self, faults: Sequence[RuleFault]) -> None:
        self.faults = faults
        super().__init__("; ".join(f"{fault.where}: {fault.what}" for fault in faults))


def read_rules(content: str | bytes) -> RuleSet:
    """A valid set of rules; `InvalidRules` has the paths of its faults."""
    try:
        rules = msgspec.json.decode(content, type=RuleSet)
    except msgspec.ValidationError as error:
        raise InvalidRules([RuleFault(*locate_json_fault(error, "rules"))]) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRules([RuleFault("rules", f"this is no JSON ({error})")]) from None
    check_rules(rules)
    return rules


def check_rules(rules: RuleSet, columns: ItemColumns | None = None) -> None:
    """Refuse rules with any fault, with the paths of the first ones. `columns`: those of the items, if known."""
    faults = [fault for fault, _ in zip(_find_faults(rules, columns), range(MOST_FAULTS), strict=False)]
    if faults:
        raise InvalidRules(faults)


def _find_faults(rules: RuleSet, columns: ItemColumns | None) -> Iterator[RuleFault]:
    if (count := sum(map(len, rules.sets.values()))) > MOST_SET_IDS:
        yield RuleFault("sets", f"they have {count:,} ids, and {MOST_SET_IDS:,} is the limit: split the shop")
    names: dict[str, int] = {}
    for number, rule in enumerate(rules.rules):
        path = f"rules[{number}]"
        if (other := names.setdefault(rule.name, number)) != number:
            yield RuleFault(f"{path}.name", f"{rule.name!r} is the name of rules[{other}] as well: give it another")
        for where, what in _find_faults_of(rule, rules, columns):
            yield RuleFault(f"{path}{where}", what)


def _find_faults_of(rule: Rule, rules: RuleSet, columns: ItemColumns | None) -> Iterator[tuple[str, str]]:
    actions, select = ", ".join(RuleKind), rule.select
    if len(rule.kinds) != 1:
        yield "", f"it has {len(rule.kinds)} of {actions}: give exactly one"
        return
    (kind,) = rule.kinds
    if rule.since is not None and rule.until is not None and rule.since >= rule.until:
        yield ".until", "it ends before it comes into force: give a later time"
    if select.set is not None and select.set not in rules.sets:
        known = ", ".join(sorted(rules.sets)[:10]) or "none"
        yield ".select.set", f"there is no set {select.set!r} (sets: {known}): add it to `sets`, or name another"
    selects_all = select.ids is None and select.set is None and not select.where
    if kind is RuleKind.PIN and not select.ids:
        yield ".select.ids", "a pin needs the ids of its items, in the order of their positions: give them"
    if kind in (RuleKind.ONLY, RuleKind.EXCLUDE) and selects_all:
        yield ".select", "it selects all items: give ids, where or set"
    if columns is None:
        return
    try:
        columns.check(select.where)
    except InputError as error:
        yield ".select.where", str(error)
    if isinstance(rule.boost, Boost) and rule.boost.by not in columns.numbers:
        known = ", ".join(sorted(columns.numbers)) or "none"
        yield ".boost.by", f"the items have no column {rule.boost.by!r} of numbers (there are: {known}): name another"
    if rule.quota is not None and rule.quota.per not in columns.texts:
        known = ", ".join(sorted(columns.texts)) or "none"
        yield ".quota.per", f"the items have no column {rule.quota.per!r} of texts (there are: {known}): name another"
