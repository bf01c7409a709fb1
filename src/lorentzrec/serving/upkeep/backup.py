"""Backups: a folder that has everything a store holds, in a form that belongs to no kind of store.

    manifest.json          when it was made, what is in it, and size and checksum of every other file; written last
    state.json             the log of activations, live items, new items, rules, erasures with their salt
    events-00000.parquet   user, id, item, time, weight; as many files as are needed
    versions/NAME/         each version that was ever live, as it was published

A backup is made while services go on writing. It has every event that was acknowledged before it began. From SQLite and
PostgreSQL it has one state of the database; in Cosmos DB each document is read once, so of what is written meanwhile
some is in it and some is not.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lorentzrec._version import __version__
from lorentzrec.base.atomic import MARKER, atomic_directory
from lorentzrec.base.manifest import SEAL, FolderKind, describe_files, write_manifest
from lorentzrec.errors import ArtifactError, InputError, StoreBroken
from lorentzrec.serving.stores.activations import MAIN, Activation, find_arms, find_standing
from lorentzrec.serving.stores.address import open_any_store
from lorentzrec.serving.stores.catalogue import Catalogue, LiveItems
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Event, EventPage, Histories
from lorentzrec.serving.stores.new_items import NewItem
from lorentzrec.serving.stores.rules import RuleChange
from lorentzrec.serving.stores.store import Progress, Store
from lorentzrec.serving.stores.version_files import ListedFile, read_manifest
from lorentzrec.serving.stores.versions import Versions

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.serving.stores.snapshot import Snapshot

BACKUP = FolderKind(
    "lorentzrec backup",
    1,
    "backup",
    "use another backup",
    {"versions": list, "events": int, "erasures": int, "new_items": int, "files": dict},
)
STATE, EVENTS, VERSIONS = "state.json", "events-{:05d}.parquet", "versions"
PART_EVENTS = 500_000
"""Events in a file, more or less; they are in memory at once."""
RESTORED_EVENTS, RESTORED_ITEMS = 10_000, 1000
"""Events and new items that are sent to a store at once."""
MOST_ATTEMPTS = 20


class Written(NamedTuple):
    """A new backup."""

    manifest: dict[str, Any]
    left_out: dict[str, str]
    """Versions that are damaged in the store, and how."""


def write_backup(store: Store, folder: Path, progress: Progress = lambda *_: None) -> Written:
    """Write a backup of `store` to `folder`, which appears when it is complete; an older backup there is replaced.

    A killed process leaves only a hidden folder next to it, without a manifest, which the next backup removes.
    """
    with atomic_directory(folder) as partial:
        partial.chmod(0o700)  # it holds what customers did
        (partial / VERSIONS).mkdir()
        for _ in range(MOST_ATTEMPTS):
            # Before the snapshot, since it takes long: in a file store, a reader delays the removal of erased bytes.
            names = store.live_versions(store.activations())
            left_out = _copy_versions(store, names, partial / VERSIONS, progress)
            with store.snapshot() as snapshot:
                if store.live_versions(snapshot.activations) == names:
                    counts = _write_snapshot(snapshot, partial, progress)
                    break
        else:
            raise StoreFault.BUSY.error(store=store.url, reason="its versions keep changing")
        progress("computing checksums", 0.0)
        manifest = {
            "format": BACKUP.name,
            "format_version": BACKUP.version,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "lorentzrec": __version__,
            "store": store.url.partition(":")[0],
            "versions": sorted(set(names) - set(left_out)),
            **counts,
            "files": describe_files(partial),
        }
        write_manifest(partial, manifest)
    return Written(manifest, left_out)


def _copy_versions(store: Versions, names: list[str], folder: Path, progress: Progress) -> dict[str, str]:
    """Make `folder` hold these versions and no others; returns those that are damaged, with the reason."""
    for path in folder.iterdir():
        if path.name not in names:  # removed from the store since the last attempt, or a lock of `fetch`
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    left_out = {}
    for name in names:
        if (folder / name).exists():
            continue
        progress(f"copying version {name}", 0.0)
        try:
            found = store.fetch(name, folder)
            if found != folder / name:  # a store of folders has returned its own
                _copy_files(found, folder / name)
            if file := read_manifest(folder / name)[0].find_damage(folder / name):
                raise ArtifactError(f"{file} is not as listed")
        except (InputError, OSError) as error:
            shutil.rmtree(folder / name, ignore_errors=True)
            if name in store.versions():  # it was not removed meanwhile
                if not _is_damage(error):
                    raise
                left_out[name] = str(error)
    for lock in folder.glob(".*"):
        lock.unlink()
    return left_out


def _copy_files(source: Path, target: Path) -> None:
    """Copy a version. `shutil.copyfile` would report a full disk under the name of the source."""
    target.mkdir()
    for file in (MARKER, *read_manifest(source)[0].files):
        with (source / file).open("rb") as reading, (target / file).open("wb") as writing:
            shutil.copyfileobj(reading, writing, 2**20)


def _is_damage(error: Exception) -> bool:
    """Whether a version is damaged in the store: a full disk, missing rights and a lock say nothing about it."""
    damaged = isinstance(error, ArtifactError) and not isinstance(error, StoreBroken)
    return damaged and not isinstance(error.__cause__, OSError)


def _write_snapshot(snapshot: Snapshot, folder: Path, progress: Progress) -> dict[str, int]:
    """Write everything but versions; returns how much it is."""
    progress("copying events", 0.0)
    events = 0
    for number, frame in enumerate(_gather(snapshot.events)):
        frame.write_parquet(folder / EVENTS.format(number))
        events += len(frame)
    progress("copying live items, new items, rules and erasures", 0.0)
    state = {
        "activations": [asdict(entry) for entry in snapshot.activations],
        "live": asdict(snapshot.live),
        "new_items": {item.id: item.to_json() for item in snapshot.new_items},
        "rules": [asdict(change) for change in snapshot.rules],
        "salt": snapshot.salt,
        "erasures": snapshot.erasures,
    }
    (folder / STATE).write_text(json.dumps(state), encoding="utf-8")
    return {"events": events, "erasures": len(snapshot.erasures), "new_items": len(snapshot.new_items)}


def _gather(pages: Iterator[EventPage]) -> Iterator[pl.DataFrame]:
    """Tables of about `PART_EVENTS` rows."""
    import polars as pl

    kinds = {"user": pl.String, "id": pl.String, "item": pl.String, "time": pl.Float64, "weight": pl.Float64}
    waiting: list[pl.DataFrame] = []
    for page in pages:
        columns = {"user": page.users, "id": page.ids, "item": page.items, "time": page.times, "weight": page.weights}
        waiting.append(pl.DataFrame(columns, schema=kinds))
        if sum(map(len, waiting)) >= PART_EVENTS:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


def read_backup(folder: Path, progress: Progress = lambda *_: None) -> dict[str, Any]:
    """The manifest of a backup, every file of which is as it was written; else an `ArtifactError` that names one."""
    manifest = BACKUP.read(folder)
    for number, (name, entry) in enumerate(manifest["files"].items()):
        progress("checking the backup", number / len(manifest["files"]))
        try:
            whole = msgspec.convert(entry, ListedFile).is_whole(folder / name)
        except msgspec.ValidationError as error:
            raise BACKUP.damaged(folder, error) from error
        if not whole:
            raise BACKUP.damaged(folder / name, "its checksum is not the listed one, or it is missing")
    return manifest


class Restored(NamedTuple):
    """What was restored to where."""

    manifest: dict[str, Any]
    url: str
    version: str | None
    """The current version."""


def restore_backup(folder: Path, url: str, progress: Progress = lambda *_: None) -> Restored:
    """Restore a backup into the store at `url`, of any kind, which must be empty; if there is none, it is made.

    The store is marked before anything is written to it, and the mark is removed in the same step that makes a version
    the current one. A marked store cannot be opened, so a restore that was killed is not taken for a store; the same
    restore continues where it was. Of several runs of the same restore, the first that is done ends the others: the
    store may be in use from then on.
    """
    manifest = read_backup(folder, progress)
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    with closing(open_any_store(url, create=True)) as store:
        seal = manifest[SEAL]
        begun = store.find_restore()
        if begun is None:
            store.begin_restore(seal, lambda: _refuse_content(store))
        elif begun != seal:
            raise StoreFault.RESTORING.error(store=store.url)

        def report(stage: str, share: float) -> None:
            progress(stage, share)
            if store.find_restore() != seal:
                raise StoreFault.RESTORE_ENDED.error(store=store.url)

        with store.publishing():  # no other process cleans up versions that are not in the log yet
            for name in manifest["versions"]:
                report(f"restoring version {name}", 0.0)
                store.upload(folder / VERSIONS / name)
            _restore_events(store, folder, manifest, report)
            report("restoring live items, new items and rules", 0.0)
            live = LiveItems(**state["live"])
            store.set_live_items(live.items)
            if live.items is None:
                store.change_live_items(remove=live.removed)
            _restore_new_items(store, [NewItem.from_json(*item) for item in state["new_items"].items()])
            store._put_rules([RuleChange(**change) for change in state["rules"]])
            report("restoring erasures and the log", 0.0)
            log = _choose_log([Activation(**entry) for entry in state["activations"]], manifest["versions"])
            store.end_restore(seal, state["salt"], [(key, moment) for key, moment in state["erasures"]], log)
        return Restored(manifest, store.url, store.state().version)


def _refuse_content(store: Store) -> None:
    """An error that says what a store holds, if it is not empty."""
    found = {
        "versions": store.versions(),
        "a log of activations": store.activations(),
        "events": next(store.all_events(), None),
        "live items": store.live_items() != LiveItems(),
        "new items": store.new_items(),
        "rules": store.rules(),
    }
    with store.snapshot() as snapshot:
        found["erasures"] = snapshot.erasures
    if content := [what for what, present in found.items() if present]:
        raise StoreFault.NOT_EMPTY.error(store=store.url, content=", ".join(content))


def _restore_events(store: Histories, folder: Path, manifest: dict[str, Any], progress: Progress) -> None:
    import polars as pl

    done = 0
    for number in itertools.count():
        if EVENTS.format(number) not in manifest["files"]:
            break
        frame = pl.read_parquet(folder / EVENTS.format(number))
        for part in frame.select("user", "item", "time", "id", "weight").iter_slices(RESTORED_EVENTS):
            store.add_events([Event(*row) for row in part.iter_rows()])
            done += len(part)
            progress("restoring events", done / manifest["events"])
    if done != manifest["events"]:
        raise BACKUP.damaged(folder, f"it has {done:,} events, and its manifest {manifest['events']:,}")


def _restore_new_items(store: Catalogue, items: list[NewItem]) -> None:
    for start in range(0, len(items), RESTORED_ITEMS):
        part = {item.id: item for item in items[start : start + RESTORED_ITEMS]}
        store._change_new_items(list(part), lambda found, part=part: part[found.id], sys.maxsize)  # type: ignore[misc]


def _choose_log(log: list[Activation], versions: list[str]) -> list[Activation]:
    """The log, in which the last entry of each arm has a version of the backup: the current one may have been damaged.

    An arm without such a version ends; without one of `main`, there is no log.
    """
    chosen = [*log]
    for name, arm in find_arms(log).items():
        if arm.version not in versions:
            standing = [version for version in find_standing(log, name) if version in versions]
            if name == MAIN and not standing:
                return []
            share = arm.share if standing and name != MAIN else None
            reason = f"restored: {arm.version} is not in the backup"
            version = standing[0] if standing else arm.version
            chosen.append(Activation(version, log[-1].time, reason, arm=name, share=share))
    return chosen
