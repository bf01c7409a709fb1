"""`lorentzrec store`: look after a store."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lorentzrec.base.counting import Count
from lorentzrec.cli.options import Positive, StoreArgument, StoreOption
from lorentzrec.cli.output import print_json, print_result, show, stages, table, working
from lorentzrec.cli.results import kind_of_folder, refuse_unwritable
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.serving.stores.new_items import MOST_CUSTOMERS


def status(store: StoreArgument, *, json: bool = False) -> None:
    """Show what a store holds: versions, activations, live items, new items, events, size, warnings.

    It counts all events, which takes long in a large store.

    $ lorentzrec store status file:store
    """
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.upkeep.status import describe_store

    with closing(open_store(store)) as opened, working("counting events"):
        found = describe_store(opened)
    versions = table(
        {"version": "left whole", "": "left", "created": "left", "items": "right", "size": "right"},
        [
            [
                one["name"],
                ", ".join([one["state"], *(f"arm {arm}" for arm in one["arms"] if arm != "main")]),
                one["created"],
                None if one["items"] is None else f"{one['items']:,}",
                None if one["bytes"] is None else format_bytes(one["bytes"]),
            ]
            for one in found["versions"]
        ],
        title="Versions",
    )
    log = table(
        {"activated": "left whole", "arm": "left", "version": "left whole", "reason": "left", "rejected": "left whole"},
        [
            [_format_time(one["time"]), one["arm"], one["version"], one["reason"], one["rejected"]]
            for one in reversed(found["activations"])
        ],
        title="Activations, newest first",
    )
    live, new = found["live_items"], found["new_items"]
    text = "every item is live" if live is None else f"{Count(live):item is|items are} live"
    if found["removed_items"]:
        text += f", except {found['removed_items']:,}"
    size = "not reported by the server" if found["bytes"] is None else format_bytes(found["bytes"])
    lines = [
        f"{found['store']}: {size}",
        f"{Count(found['events']):event|events} of {Count(found['customers']):customer|customers}",
        f"Live items: {text}",
        f"New items: {new['put']:,} described, {new['events']:,} by events alone",
    ]
    if len(found["arms"]) > 1:
        shares = ", ".join(f"{name} {arm['share']:g}" for name, arm in found["arms"].items())
        lines.append(f"Arms, with their shares of the customers: {shares}")
    warnings = [f"warning: {warning}" for warning in found["warnings"]]
    print_result(found, *lines, "", versions, "", log, *warnings, json=json)


def verify(store: StoreArgument, *, json: bool = False) -> None:
    """Look for damage in everything that a store keeps.

    Compares every file of every version with its checksum, checks the integrity of the database (SQLite's
    integrity_check, PostgreSQL's tables, keys and with amcheck its indexes, the documents of Cosmos DB), and reads all
    events, live items, new items and erasures. Services go on. Exit code 2 if anything is damaged.

    $ lorentzrec store verify file:store
    """
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.upkeep import verification

    parts = []
    with closing(open_store(store)) as opened:
        for part in verification.verify(opened):
            parts.append(part)
            if not json:
                found = f": {part.content}" if part.content else ""
                show(f"{'DAMAGED' if part.damage else 'fine   '}  {part.name}{found}")
                show(*(f"         {damage}: {part.action}" for damage in part.damage))
        url = opened.url
    damaged = [part.name for part in parts if part.damage]
    if json:
        print_json({"store": url, "damaged": damaged, "parts": [part._asdict() for part in parts]})
    if damaged:
        actions = "; ".join(dict.fromkeys(part.action for part in parts if part.damage))
        raise ArtifactError(f"{url} is damaged in {', '.join(damaged)}: {actions}")


def backup(store: StoreArgument, *, to: Path, force: bool = False, json: bool = False) -> None:
    """Back up a store of any kind to a folder, while services go on reading and writing.

    The backup has every event that was acknowledged before it began, and the versions, the log of activations, live
    items, new items and erasures. It appears when it is complete.

    $ lorentzrec store backup file:store --to backup-2026-11-18

    to FOLDER: A folder for the backup. It holds what customers did, so only its owner may read it.
    force: Replace the backup that is there, once the new one is complete.
    """
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.upkeep.backup import BACKUP, write_backup

    refuse_unwritable(to, BACKUP.name)
    if kind_of_folder(to) is not None and not force:
        raise InputError(f"{to} already holds a backup: choose another name, or replace it with `force`")
    with closing(open_store(store)) as opened, stages() as report:
        manifest, left_out = write_backup(opened, to, report)
        url = opened.url
    counts = {name: manifest[name] for name in ("events", "erasures", "new_items", "versions")}
    size = sum(file["bytes"] for file in manifest["files"].values())
    shown = f"{to} is a backup of {url}: {_describe(manifest)}, {format_bytes(size)}"
    notes = [f"version {name} is not in the backup: {reason}" for name, reason in left_out.items()]
    result = {"store": url, "backup": str(to), **counts, "left_out": left_out, "bytes": size}
    print_result(result, shown, json=json, notes=notes)


def restore(folder: Path, *, to: StoreOption, json: bool = False) -> None:
    """Restore a backup into an empty store, of the same kind as before or of another.

    A store that does not exist is made. Until the restore is complete, no service and no other command opens the store.
    If it is interrupted, run it again: it continues.

    $ lorentzrec store restore backup-2026-11-18 --to file:store

    folder FOLDER: The folder of a backup; every file is compared with its checksum before anything is restored.
    """
    from lorentzrec.serving.upkeep.backup import restore_backup

    with stages() as report:
        restored = restore_backup(folder, to, report)
    manifest = restored.manifest
    counts = {name: manifest[name] for name in ("events", "erasures", "new_items", "versions")}
    current = "without a current version" if restored.version is None else f"current version {restored.version}"
    shown = f"{restored.url} is restored from {manifest['created']}: {_describe(manifest)}; {current}"
    again = ["customers who were erased after the backup was made are in the store again: erase them again"]
    result = {"store": restored.url, "created": manifest["created"], **counts, "version": restored.version}
    print_result(result, shown, json=json, notes=again)


def prune(
    store: StoreArgument,
    *,
    older_than: Annotated[float, typer.Option(min=0.0)],
    newest: Positive = 1000,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Remove old events from a store, in small steps: services go on.

    An event is removed if it happened more than --older-than days ago and its customer has --newest events that are
    newer. Recommendations use the newest 1,000 events of a customer, so with the default they do not change.

    $ lorentzrec store prune file:store --older-than 730 --dry-run
    $ lorentzrec store prune file:store --older-than 365 --newest 100

    older_than DAYS: Age of the events to remove, by their own time.
    newest: Number of events that each customer keeps, however old they are.
    dry_run: Only count.
    """
    from lorentzrec.serving.stores.address import open_store

    events = customers = 0
    with closing(open_store(store)) as opened, stages() as report:
        report("looking for old events" if dry_run else "removing old events", 0.0)
        for step in opened.prune_events(time.time() - older_than * SECONDS_PER_DAY, newest, dry_run=dry_run):
            events, customers = events + step.events, customers + step.customers
        url = opened.url
    verb = "would be" if dry_run else "were"
    shown = f"{Count(events):event|events} of {Count(customers):customer|customers} {verb} removed from {url}"
    result = {"store": url, "events": events, "customers": customers, "removed": not dry_run}
    print_result(result, shown, json=json)


def remove_items(
    store: StoreArgument,
    *,
    origin: Literal["events", "put"],
    fewer_than: Annotated[int | None, typer.Option(min=1, max=MOST_CUSTOMERS)] = None,
    json: bool = False,
) -> None:
    """Remove new items from a store: ids that only occur in events, or items that were sent with PUT.

    Running services follow within about a second. Events stay in the histories of customers. An id that only occurs in
    events is a new item again when several customers interact with it from now on.

    $ lorentzrec store remove-items file:store --origin events
    $ lorentzrec store remove-items file:store --origin events --fewer-than 3

    origin: Which new items: those that only occur in events, or those that were sent with PUT.
    fewer_than: Only items with fewer customers than this; of an item, the first 20 customers count.
    """
    from lorentzrec.serving.stores.address import open_store
    from lorentzrec.serving.stores.new_items import Origin

    with closing(open_store(store)) as opened:
        removed, url = opened.remove_new_items_of(Origin(origin), fewer_than), opened.url
    shown = f"{Count(removed):new item was|new items were} removed from {url}"
    print_result({"store": url, "origin": origin, "removed": removed}, shown, json=json)


def migrate(store: StoreArgument, *, json: bool = False) -> None:
    """Change the tables of a store that an older lorentzrec wrote.

    All other commands refuse such a store. Stop its services first, and back it up with the lorentzrec that wrote it.
    All steps are one transaction: if one fails, the store is as before. There is no time limit.

    $ lorentzrec store migrate file:store
    """
    from lorentzrec.serving.stores.address import open_store

    taken: list[int] = []
    with stages() as report:

        def show_step(number: int, last: int) -> None:
            taken.append(number)
            report(f"step {number} of {last}", 0.0)

        with closing(open_store(store, migrate=show_step)) as opened:
            url = opened.url
    done = f"{Count(len(taken)):step was|steps were} taken" if taken else "nothing was to be done"
    print_result({"store": url, "steps": taken}, f"{url} is up to date: {done}", json=json)


def _describe(manifest: dict[str, Any]) -> str:
    events, items = Count(manifest["events"]), Count(manifest["new_items"])
    erasures, versions = Count(manifest["erasures"]), Count(len(manifest["versions"]))
    counts = f"{events:event|events}, {items:new item|new items}, {erasures:erasure|erasures}"
    return f"{counts}, {versions:version|versions}"


def _format_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_bytes(count: float) -> str:
    """A size for people: 940 MB."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


STORE = (
    "Look after a store: status, damage, backups, old events, new items, migration to a new lorentzrec.",
    (status, verify, backup, restore, prune, remove_items, migrate),
)
"""What the commands of this group do, and the commands."""
