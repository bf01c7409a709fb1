"""What a store holds, for its operator."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from lorentzrec.errors import LorentzrecError
from lorentzrec.serving.stores.activations import find_standing
from lorentzrec.serving.stores.new_items import Origin
from lorentzrec.serving.stores.store import Store


def describe_store(store: Store) -> dict[str, Any]:
    """Versions, activations, live items, new items, events, bytes and warnings, as JSON values."""
    state, log, live = store.state(), store.activations(), store.live_items()
    live_now = {arm.version for arm in state.arms.values()}
    standing, size = {name for arm in state.arms for name in find_standing(log, arm)}, store.measure()
    warnings = [*store.notices, *state.warnings.values()]
    versions = []
    for name in store.versions():
        try:
            manifest = json.loads(store.fetch_manifest(name))
            listed = sum(file["bytes"] for file in manifest["files"].values())
            described = {"created": manifest.get("created"), "items": manifest["points"]["items"], "bytes": listed}
        except (LorentzrecError, OSError, ValueError, KeyError, TypeError, AttributeError):
            described = {"created": None, "items": None, "bytes": None}
            warnings.append(f"the manifest of version {name} cannot be read: run lorentzrec store verify")
        activated = name in {entry.version for entry in log}
        part = "current" if name in live_now else "earlier" if name in standing else "rejected"
        arms = [arm for arm, current in state.arms.items() if current.version == name]
        versions.append({"name": name, "state": part if activated else "never live", "arms": arms, **described})
    return {
        "store": store.url,
        "version": state.version,
        "arms": {name: arm._asdict() for name, arm in state.arms.items()},
        "versions": versions,
        "activations": [asdict(entry) for entry in log],
        "live_items": None if live.items is None else len(live.items),
        "removed_items": len(live.removed),
        "new_items": {origin.value: size.new_items.get(origin.value, 0) for origin in Origin},
        "events": size.events,
        "customers": size.customers,
        "bytes": size.bytes,
        "warnings": warnings,
    }
