"""Looking for damage: every file of every version, and everything else that a store of any kind keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from lorentzrec.errors import LorentzrecError
from lorentzrec.serving.stores.activations import find_arms
from lorentzrec.serving.stores.faults import is_damage
from lorentzrec.serving.stores.histories import Event, check_events
from lorentzrec.serving.stores.snapshot import CheckedPart
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.version_files import Manifest
from lorentzrec.serving.stores.versions import Versions
from lorentzrec.serving.versions.version import VERSION

PUBLISH = "publish the model again, or restore a backup"
UNREADABLE = (LorentzrecError, OSError, ValueError, TypeError, KeyError, AttributeError)
"""What reading a damaged record may raise; `msgspec.ValidationError` is a ValueError."""


def verify(store: Store) -> Iterator[CheckedPart]:
    """Every part of a store, with the damage that was found in it.

    An outage and missing rights are errors, and not damage. A version that is removed meanwhile is left out.
    """
    for name in store.versions():
        part = _try(f"version {name}", partial(_check_version, store, name))
        if not part.damage or name in store.versions():
            yield part
    yield _try("log of activations", lambda: _check_log(store))
    try:
        yield from store.check_database()
    except UNREADABLE as error:
        yield CheckedPart("database", "", [_name_damage(error)])
    yield _try("live items, new items, erasures", lambda: _check_lists(store))
    yield _try("events", lambda: _check_all_events(store))


def _try(name: str, check: Callable[[], CheckedPart]) -> CheckedPart:
    """What `check` finds; a part that cannot be read is damaged."""
    try:
        return check()
    except UNREADABLE as error:
        return CheckedPart(name, "", [_name_damage(error)])


def _name_damage(error: Exception) -> str:
    """What is damaged, in one line; an error that is not about damage is raised."""
    if not is_damage(error):
        raise error
    return " ".join(str(error).split()) or type(error).__name__


def _check_version(store: Versions, name: str) -> CheckedPart:
    """Its seal, and every file against the size and checksum in its manifest."""
    damage = []
    content = store.fetch_manifest(name)
    try:
        VERSION.parse(content, "manifest.json")
    except LorentzrecError as error:
        damage.append(str(error))
    manifest = msgspec.convert(json.loads(content), Manifest)
    for file, listed in manifest.files.items():
        size, digest = 0, hashlib.sha256()
        for part in store.read_file(name, file):
            size += len(part)
            digest.update(part)
        if (size, digest.hexdigest()) != (listed.bytes, listed.sha256):
            damage.append(file if size == listed.bytes else f"{file} ({size:,} of {listed.bytes:,} bytes)")
    total = sum(file.bytes for file in manifest.files.values())
    return CheckedPart(f"version {name}", f"{len(manifest.files)} files, {total:,} bytes", damage, PUBLISH)


def _check_log(store: Versions) -> CheckedPart:
    log, names = store.activations(), store.versions()
    # Read again: a version that was a current one may have been replaced and removed before the names were read.
    arms, again = find_arms(log), find_arms(store.activations())
    lost = [(name, arm.version) for name, arm in arms.items() if arm.version not in names and again.get(name) == arm]
    damage = [f"the current version {version} of arm {name} is missing" for name, version in lost]
    return CheckedPart("log of activations", f"{len(log):,} entries", damage, PUBLISH)


def _check_lists(store: Store) -> CheckedPart:
    with store.snapshot() as snapshot:
        live = snapshot.live.removed if snapshot.live.items is None else snapshot.live.items
        counts = f"{len(live):,}, {len(snapshot.new_items):,}, {len(snapshot.erasures):,}"
    return CheckedPart("live items, new items, erasures", counts)


def _check_all_events(store: Store) -> CheckedPart:
    """That each can be read, and is one that a store accepts."""
    count, damage = 0, []
    with store.snapshot() as snapshot:
        for page in snapshot.events:
            count += len(page.users)
            rows = zip(page.users, page.items, page.times, page.ids, page.weights, strict=True)
            try:
                check_events([Event(*row) for row in rows])
            except UNREADABLE as error:
                damage.append(_name_damage(error))
    return CheckedPart("events", f"{count:,}", damage)
