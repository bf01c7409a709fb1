"""Where results may be written: asked before the work, not after it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from lorentzrec.atomic import MARKER, atomic_directory
from lorentzrec.errors import InputError


class _Writable(Exception):  # noqa: N818, no error: the answer yes
    """The folder could be written."""


def refuse_unwritable(out: Path, kind: str) -> None:
    """An `InputError` if a result of this kind cannot be written to the folder `out`.

    `kind`: what the manifest of such a folder calls it. A folder of another kind, such as the dataset that is being
    read, is not replaced.
    """
    try:
        manifest = json.loads((out / MARKER).read_text(encoding="utf-8"))
        found = manifest.get("kind") or manifest.get("format")
    except (OSError, ValueError, AttributeError):
        found = kind  # nothing there, or nothing that can be told apart
    if found != kind:
        raise InputError(f"{out} holds something else ({found}): choose another name, or remove it first")
    with suppress(_Writable), atomic_directory(out):
        raise _Writable
