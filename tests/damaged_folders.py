"""Folders that are damaged at random, or changed with care, so that every checksum is right."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.base.manifest import SEAL, describe_files, write_manifest
from lorentzrec.errors import ArtifactError, LorentzrecError

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


def check_refusals(folder: Path, names: Sequence[str], use: Callable[[], object], rounds: int) -> None:
    """After any damage to a file, `use` works or raises our own error, in one line.

    A file after the other is damaged at random, `rounds` times; in every other round all checksums are right.
    """
    random = np.random.default_rng(7)
    original = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused: list[str] = []
    for number in range(rounds * len(names)):
        for file, content in original.items():
            (folder / file).write_bytes(content)
        name = names[number % len(names)]
        (folder / name).write_bytes(mutated(original[name], random))
        if number // len(names) % 2:
            reseal(folder)
        try:
            use()
        except ArtifactError as error:
            refused.append(str(error))
    assert len(refused) >= rounds * len(names) / 2, "without right checksums every change is refused"
    assert not [line for line in refused if "\n" in line]


def check_resealed_manifests(folder: Path, use: Callable[[], object]) -> None:
    """With any value in any entry of the manifest, and the right seal, `use` works or raises our error of one line."""
    original, lines = (folder / "manifest.json").read_bytes(), list[str]()
    for path in _paths(json.loads(original)):
        for value in OTHER_VALUES:
            manifest = node = json.loads(original)
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
            write_manifest(folder, manifest)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                try:
                    use()
                except LorentzrecError as error:
                    lines.append(str(error))
                except Exception as error:
                    raise AssertionError(f"the entry {path} is {value!r}: {type(error).__name__}: {error}") from error
    (folder / "manifest.json").write_bytes(original)
    assert lines
    assert not [line for line in lines if "\n" in line]


def _paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a document are; of a long list, only the first."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))[:1] if isinstance(node, list) else []
    for key in keys:
        if path or key != SEAL:
            yield (*path, key)
            yield from _paths(node[key], (*path, key))


def reseal(folder: Path, **changes: Any) -> None:
    """Make all checksums right, and change some entries of the manifest. One that cannot be read stays as it is."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        found = describe_files(folder)
        files = {
            name: found[name] if isinstance(entry, dict) else found[name]["sha256"]
            for name, entry in manifest["files"].items()
            if name in found
        }
    except (ValueError, TypeError, KeyError, AttributeError, OSError):
        return
    if isinstance(manifest, dict):
        write_manifest(folder, {**manifest, "files": files, **changes})
