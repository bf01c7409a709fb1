"""Small version folders: a manifest and some bytes, which is all that a store knows of a version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

SMALL = {"points.safetensors": b"points" * 1000, "items.sqlite": b"", "index.bin": b"\x00\xff" * 10}


def write_version(parent: Path, name: str = "20261116T010203-3f2a9c", files: dict[str, bytes] = SMALL) -> Path:
    folder = parent / f"source-{name}"
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    listed = {
        file: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for file, content in files.items()
    }
    (folder / "manifest.json").write_text(json.dumps({"name": name, "files": listed}))
    return folder


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
