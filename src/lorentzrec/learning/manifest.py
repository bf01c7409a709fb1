"""The manifest of a folder: JSON under a seal, so that no change to it goes unseen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lorentzrec.atomic import MARKER
from lorentzrec.errors import ArtifactError


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as the folder's manifest, with a checksum of its own text as the last entry."""
    # The seal is the checksum of the text while the place for it is still empty.
    text = json.dumps({**content, "checksum": ""}, indent=2) + "\n"
    (folder / MARKER).write_bytes(text.replace(_seal(""), _seal(_sha256(text))).encode())


def read_manifest(folder: Path, *, key: str, kind: str, format_version: int, what: str, again: str) -> dict[str, Any]:
    """The manifest of a folder whose entry `key` must be `kind`; an `ArtifactError` if it is another or was changed.

    `what`: how messages call such a folder ("model"). `again`: how to get a sound one ("save it again").
    """
    path = folder / MARKER
    if not path.is_file():
        raise ArtifactError(f"{path} is missing: give the folder of a {what}, or copy the whole folder again")
    try:
        text = path.read_bytes().decode()  # not read_text, which takes one kind of line end for another
        manifest = json.loads(text)
    except ValueError as error:
        raise ArtifactError(f"{path} is damaged ({error}): copy the {what} again, or {again}") from error
    if not isinstance(manifest, dict) or manifest.get(key) != kind:
        raise ArtifactError(f"{path} is not the manifest of a {what}: give the folder of a {what}")
    version = manifest.get("format_version")
    if version != format_version:
        raise ArtifactError(
            f"{path} has format {version} and this lorentzrec reads {format_version}: upgrade lorentzrec, or {again}"
        )
    seal = manifest.get("checksum")
    if _sha256(text.replace(_seal(seal), _seal(""))) != seal:
        raise ArtifactError(
            f"{path} is damaged (it was changed after it was written): copy the {what} again, or {again}"
        )
    return manifest


def _seal(digest: object) -> str:
    return f'"checksum": "{digest}"'


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
