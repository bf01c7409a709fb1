"""Folders that are damaged at random, or changed with care, so that every checksum is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.atomic import checksum
from lorentzrec.manifest import write_manifest

OTHER_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    float("nan"),
    "",
    "\ud800",
    "../x",
    [],
    [None],
    {},
    {"a": 1},
]


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    """The content with one change: in JSON, half of the time, of a value; else of bytes."""
    if content.startswith(b"{") and random.random() < 0.5:
        return _with_another_value(content, random)
    start = int(random.integers(len(content)))
    end = min(len(content), start + int(random.integers(1, 40)))
    kind = random.integers(4)
    if kind == 0:
        return content[:start] + bytes([content[start] ^ int(random.integers(1, 256))]) + content[start + 1 :]
    if kind == 1:
        return content[:start]
    if kind == 2:
        return content[:start] + random.bytes(end - start) + content[start:]
    return content[:start] + bytes(end - start) + content[end:]


def _with_another_value(content: bytes, random: np.random.Generator) -> bytes:
    node = document = json.loads(content)
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[int(random.integers(len(keys)))]
        if isinstance(node[key], dict | list) and node[key] and random.random() < 0.7:
            node = node[key]
            continue
        if random.random() < 0.2:
            del node[key]
        else:
            node[key] = OTHER_VALUES[int(random.integers(len(OTHER_VALUES)))]
        return json.dumps(document).encode()


def reseal(folder: Path, **changes: Any) -> None:
    """Make all checksums right, and change some entries of the manifest. One that cannot be read stays as it is."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        files = {name: checksum(folder / name) for name in manifest["files"] if (folder / name).is_file()}
    except (ValueError, TypeError, KeyError, OSError):
        return
    if isinstance(manifest, dict):
        write_manifest(folder, {**manifest, "files": files, **changes})
