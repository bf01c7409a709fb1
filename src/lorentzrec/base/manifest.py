"""The manifest of a folder: JSON with a seal, so that every change to it is detected.

Models, versions, checkpoints and datasets all have one, which lists their files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from lorentzrec.base.atomic import MARKER, checksum
from lorentzrec.errors import ArtifactError

Shape: TypeAlias = "type | str | tuple[Shape, ...] | list[Shape] | dict[Any, Shape] | Callable[[Any], bool] | None"
"""What an entry of a manifest must be: a type; a text or None itself; a tuple of alternatives; a list with the shape of
every element; a dictionary with the shapes of some entries, or with `...` for all others; or a function that decides.
`float` is any finite number, and an entry that is missing counts as None."""

SEAL = "checksum"
"""The last entry of a manifest: the checksum of its own text with this entry empty."""
_SEALED = f'"{SEAL}": "{{}}"'
LARGEST_NUMBER = 1e300
"""Of what is a finite number: calculations with it do not overflow at once."""
FILES_ENTRY: dict[Any, Shape] = {...: {"sha256": str, "bytes": int}}
"""The entry `files` that `describe_files` makes."""


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """The checksum and the size of every file in a folder and below it, by path: the entry `files` of its manifest."""
    return {
        path.relative_to(folder).as_posix(): {"sha256": checksum(path), "bytes": path.stat().st_size}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as the folder's manifest, with its seal as the last entry."""
    text = json.dumps({**content, SEAL: ""}, indent=2) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    (folder / MARKER).write_bytes(text.replace(_SEALED.format(""), _SEALED.format(digest)).encode())


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder with a manifest. Whatever is wrong with one is an `ArtifactError`."""

    name: str
    """The entry `format` of its manifests: "lorentzrec model"."""
    version: int
    """Their entry `format_version`."""
    what: str
    """What messages call it: "model"."""
    again: str
    """How to get a valid one: "save it again"."""
    entries: Mapping[str, Shape] = field(default_factory=dict)
    """Entries of a manifest; those that may be missing accept None."""

    def damaged(self, address: str | Path, reason: object) -> ArtifactError:
        """The error about a file or folder that is not as it was written."""
        return ArtifactError(f"{address} is damaged ({reason}): copy the {self.what} again, or {self.again}")

    def read(self, folder: Path) -> dict[str, Any]:
        """The manifest of a folder, checked."""
        path = folder / MARKER
        if not path.is_file():
            raise ArtifactError(f"{path} is missing: give the folder of a {self.what}, or copy the whole folder again")
        return self.parse(path.read_bytes(), path)

    def parse(self, content: bytes, address: str | Path) -> dict[str, Any]:
        """The manifest with this content, checked; `address` is where it was read, for messages."""
        try:
            text = content.decode()
            manifest = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self.damaged(address, error) from error
        if not isinstance(manifest, dict) or manifest.get("format") != self.name:
            raise ArtifactError(f"{address} is not the manifest of a {self.what}: give the folder of a {self.what}")
        version = manifest.get("format_version")
        if type(version) is not int or version != self.version:
            raise ArtifactError(
                f"{address} has format {version} and this lorentzrec reads {self.version}: "
                f"upgrade lorentzrec, or {self.again}"
            )
        seal = manifest.get(SEAL)
        unsealed = text.replace(_SEALED.format(seal), _SEALED.format(""))
        if hashlib.sha256(unsealed.encode()).hexdigest() != seal:
            raise self.damaged(address, "it was changed after it was written")
        for name, shape in self.entries.items():
            if not _fits(manifest.get(name), shape):
                kind = f"a {shape.__name__}" if isinstance(shape, type) else "of the right form"
                raise self.damaged(address, f"its entry {name!r} is not {kind}")
        return manifest


def _fits(value: Any, shape: Shape) -> bool:
    match shape:
        case tuple():
            return any(_fits(value, one) for one in shape)
        case list():
            return isinstance(value, list) and all(_fits(element, shape[0]) for element in value)
        case dict():
            named = {name: part for name, part in shape.items() if name is not ...}
            others = shape.get(..., object)
            return (
                isinstance(value, dict)
                and all(_fits(value.get(name), part) for name, part in named.items())
                and all(_fits(element, others) for name, element in value.items() if name not in named)
            )
        case None | str():
            return bool(value == shape)
        case type():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if shape is float:
                return number and abs(value) <= LARGEST_NUMBER  # so that NaN is none
            return number and isinstance(value, int) if shape is int else isinstance(value, shape)
    return bool(shape(value))
