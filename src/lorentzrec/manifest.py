"""The manifest of a folder: JSON with a seal, so that every change to it is detected.

Models, versions, checkpoints and datasets all have one, which lists their files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorentzrec.atomic import MARKER
from lorentzrec.errors import ArtifactError

SEAL = "checksum"
"""The last entry of a manifest: the checksum of its own text with this entry empty."""


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as the folder's manifest, with its seal as the last entry."""
    text = json.dumps({**content, SEAL: ""}, indent=2) + "\n"
    (folder / MARKER).write_bytes(text.replace(_seal_entry(""), _seal_entry(_sha256(text))).encode())


def read_manifest(folder: Path, *, key: str, kind: str, format_version: int, what: str, again: str) -> dict[str, Any]:
    """The manifest of a folder whose entry `key` must be `kind`; an `ArtifactError` if it is another or was changed.

    `what`: the kind of folder, for messages ("model"). `again`: how to get a valid one ("save it again").
    """
    path = folder / MARKER
    if not path.is_file():
        raise ArtifactError(f"{path} is missing: give the folder of a {what}, or copy the whole folder again")
    content = path.read_bytes()
    manifest = parse_manifest(content, str(path), key=key, kind=kind, what=what, again=again)
    version = manifest.get("format_version")
    if version != format_version:
        raise ArtifactError(
            f"{path} has format {version} and this lorentzrec reads {format_version}: upgrade lorentzrec, or {again}"
        )
    check_seal(content, manifest, str(path), what=what, again=again)
    return manifest


def parse_manifest(content: bytes, place: str, *, key: str, kind: str, what: str, again: str) -> dict[str, Any]:
    """The JSON object in `content` whose entry `key` must be `kind`; `place` is where it was read, for messages."""
    try:
        manifest = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{place} is damaged ({error}): copy the {what} again, or {again}") from error
    if not isinstance(manifest, dict) or manifest.get(key) != kind:
        raise ArtifactError(f"{place} is not the manifest of a {what}: give the folder of a {what}")
    return manifest


def check_seal(content: bytes, manifest: Mapping[str, Any], place: str, *, what: str, again: str) -> None:
    """An `ArtifactError` unless `content`, which was parsed to `manifest`, is as it was written."""
    seal, text = manifest.get(SEAL), content.decode()
    if _sha256(text.replace(_seal_entry(seal), _seal_entry(""))) != seal:
        raise ArtifactError(
            f"{place} is damaged (it was changed after it was written): copy the {what} again, or {again}"
        )


def check_entries(manifest: Mapping[str, Any], types: Mapping[str, type], place: str, *, what: str, again: str) -> None:
    """An `ArtifactError` that names the first entry that is missing or of another type."""
    for name, kind in types.items():
        if not isinstance(manifest.get(name), kind):
            raise ArtifactError(
                f"{place} is damaged (its entry {name!r} is not a {kind.__name__}): copy the {what} again, or {again}"
            )


def _seal_entry(digest: object) -> str:
    return f'"{SEAL}": "{digest}"'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
