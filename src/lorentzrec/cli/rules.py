"""`lorentzrec rules`: what merchandisers decide about lists."""

from __future__ import annotations

import getpass
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lorentzrec.base.counting import Count
from lorentzrec.cli.options import StoreArgument
from lorentzrec.cli.output import note, print_json, print_result, table
from lorentzrec.errors import ArtifactError, InputError

if TYPE_CHECKING:
    from lorentzrec.serving.rules.document import RuleSet
    from lorentzrec.serving.stores.store import Store

Revision = Annotated[int | None, typer.Option(min=1)]


def show(store: StoreArgument, *, revision: Revision = None, json: bool = False) -> None:
    """Show the rules of a store: what they do, where, when. --json prints them as `rules set` takes them.

    $ lorentzrec rules show file:store
    $ lorentzrec rules show file:store --revision 3 --json > rules.json

    revision: Earlier rules, by their number in `lorentzrec rules log`.
    """
    from lorentzrec.serving.rules.document import read_rules
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.stores.rules import NO_RULES

    with closing(open_store(store)) as opened:
        found, url = opened.rules(revision), opened.url
    rules = read_rules(NO_RULES if found is None or found.document is None else found.document)
    if json:
        print_json(_to_plain(rules))
        return
    columns = {"rule": "left", "action": "left", "items": "left", "routes": "left", "in force": "left"}
    lines = [
        [rule.name, _describe_action(rule), _describe_items(rule), _describe_routes(rule), _describe_times(rule)]
        for rule in rules.rules
    ]
    number = 0 if found is None else found.revision
    sets = ", ".join(f"{name} ({len(ids):,})" for name, ids in rules.sets.items()) or "none"
    title = f"Rules of {url}, revision {number}"
    print_result({}, table(columns, lines, title=title), f"Sets, with their number of ids: {sets}", json=False)


def set_rules(
    store: StoreArgument,
    file: Path,
    *,
    reason: str = "changed",
    instead_of: Annotated[int | None, typer.Option(min=0)] = None,
    json: bool = False,
) -> None:
    """Replace the rules and sets of a store by those of a file. Running services follow within about a second.

    Rules with any fault are refused whole, with the path of each fault. So are rules about columns that the current
    version does not have.

    $ lorentzrec rules set file:store rules.json --reason "winter campaign"
    $ lorentzrec rules set file:store rules.json --instead-of 7

    file FILE: JSON with `rules` and `sets`, see docs/rules.md.
    reason TEXT: Why, for the log.
    instead_of REVISION: Refuse the change if the current rules are not of this revision any more; 0: if there are any.
    """
    from lorentzrec.serving.stores.address import open_store

    rules = _read(file)
    with closing(open_store(store)) as opened:
        unknown = _compare(rules, opened)
        change = opened.set_rules(rules.encode(), reason=reason, who=_user(), instead_of=instead_of)
        url = opened.url
    text = f"{url} has {Count(len(rules.rules)):rule|rules} of revision {change.revision}"
    result = {"store": url, "revision": change.revision, "rules": len(rules.rules), "unknown_items": unknown}
    print_result(result, text, json=json)


def check(store: StoreArgument, file: Path, *, json: bool = False) -> None:
    """Look for faults in a file of rules, and compare its columns and ids with a store. Nothing is changed.

    $ lorentzrec rules check file:store rules.json

    file FILE: JSON with `rules` and `sets`.
    """
    from lorentzrec.serving.stores.address import open_store

    rules = _read(file)
    with closing(open_store(store)) as opened:
        unknown, url = _compare(rules, opened), opened.url
    counts = f"{Count(len(rules.rules)):rule|rules}, {Count(len(rules.sets)):set|sets}"
    result = {"store": url, "rules": len(rules.rules), "sets": len(rules.sets), "unknown_items": unknown}
    print_result(result, f"{file} can be set: {counts}", json=json)


def log(store: StoreArgument, *, json: bool = False) -> None:
    """Show who changed the rules of a store, when, and why.

    $ lorentzrec rules log file:store
    """
    from lorentzrec.serving.stores.address import open_store

    with closing(open_store(store)) as opened:
        changes, url = opened.rules_log(), opened.url
    lines = [[f"{one.revision}", _format_time(one.time), one.who, one.reason] for one in changes]
    columns = {"revision": "right", "changed": "left whole", "by": "left", "reason": "left"}
    entries = [{"revision": one.revision, "time": one.time, "who": one.who, "reason": one.reason} for one in changes]
    shown = table(columns, lines, title="Changes of the rules, newest first")
    print_result({"store": url, "changes": entries}, shown, json=json)


def _read(file: Path) -> RuleSet:
    from lorentzrec.serving.rules.document import InvalidRules, read_rules

    try:
        return read_rules(file.read_bytes())
    except InvalidRules as error:
        raise InputError(f"{file}: {error}") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}): give a JSON file of rules") from error


def _compare(rules: RuleSet, store: Store) -> int | None:
    """Refuse rules that do not fit the current version; the number of unknown ids, None without a version."""
    from lorentzrec.data.vocabulary import UNKNOWN
    from lorentzrec.serving.rules.document import check_rules
    from lorentzrec.serving.versions.version import open_version

    name = store.state().version
    if name is None:
        note(["the rules are not compared with items, since the store has no version yet"])
        return None
    with TemporaryDirectory() as folder:
        try:
            version = open_version(store.fetch(name, Path(folder)))
        except ArtifactError as error:
            note([f"the rules are not compared with version {name}: {error}"])
            return None
        with closing(version.items):
            check_rules(rules, version.columns)
            ids, new = rules.ids, {item.id for item in store.new_items()}
            rows = version.items.rows(ids).tolist()
    unknown = [id for id, row in zip(ids, rows, strict=True) if row == UNKNOWN and id not in new]
    if unknown:
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        note([f"{Count(len(unknown)):id is|ids are} not in version {name}, but kept for a later one: {shown}"])
    return len(unknown)


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run a user without a name
        return None


def _to_plain(rules: RuleSet) -> Any:
    import msgspec

    return msgspec.to_builtins(rules)


def _describe_action(rule: Any) -> str:
    (kind,) = rule.kinds
    value = getattr(rule, kind)
    if kind == "quota":
        return f"at most {value.limit} per {value.per}"
    if hasattr(value, "by"):
        return f"boost {value.factor:g} by {value.by}"
    return str(kind) if value is True else f"{kind} {value:g}"


def _describe_items(rule: Any) -> str:
    import msgspec

    select = rule.select
    parts = [] if select.ids is None else [f"{Count(len(select.ids)):id|ids}"]
    parts += [] if select.set is None else [f"set {select.set}"]
    parts += [f"{name} {msgspec.json.encode(condition).decode()}" for name, condition in select.where.items()]
    return ", ".join(parts) or "all"


def _describe_routes(rule: Any) -> str:
    from lorentzrec.serving.rules.document import ROUTES

    return "all" if set(rule.routes) == {*ROUTES} else ", ".join(rule.routes)


def _describe_times(rule: Any) -> str:
    since = "" if rule.since is None else f"from {rule.since:%Y-%m-%d %H:%M %Z}"
    until = "" if rule.until is None else f"until {rule.until:%Y-%m-%d %H:%M %Z}"
    return f"{since} {until}".strip() or "always"


def _format_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


set_rules.__name__ = "set"  # as a command; in this module, it would hide the type
RULES = ("Pin, boost, bury, exclude or limit items in all lists; name sets of items.", (show, set_rules, check, log))
"""What the commands of this group do, and the commands."""
