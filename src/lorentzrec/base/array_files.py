"""Arrays in safetensors files: written once, then read into memory or mapped.

`read_arrays` gives arrays that belong to the caller. `open_arrays` is for services: small files are copied, once for
all workers, so that later damage to them cannot affect a worker. Large files are mapped as they are, so that opening
copies nothing. Either way all workers share the same pages, which matters for speed: points are read
from the processor's cache. If a mapped file is truncated in place, the system kills the workers that read it; nothing
in this package does that, since every writer makes a new file and renames it.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.manifest import FolderKind

Arrays: TypeAlias = dict[str, NDArray[Any]]

READ_BYTES = 64 * 2**20
"""Files of up to this size are copied before use, so that truncating them does no harm; larger ones are mapped."""
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1"}
"""The names of our array types in safetensors."""

logger = logging.getLogger("lorentzrec.serving")


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as safetensors, readable for whoever may read the folder."""
    from safetensors.numpy import save_file

    path.touch()
    permissions = path.stat().st_mode
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    path.chmod(permissions)  # save_file makes its files private, also to the user that runs a service


def read_arrays(path: Path, kind: FolderKind) -> Arrays:
    """The arrays of a file, in memory."""
    return _split(np.fromfile(path, np.uint8), path, kind)


def open_arrays(path: Path, kind: FolderKind, copies: Path | None = None) -> Arrays:
    """The arrays of a file, read-only; those of a large file are mapped, which the library safetensors cannot do.

    copies: a private folder for copies of small files, which processes with the same folder share. Without it, each
        process reads small files into its own memory.
    """
    content = _open_content(path, copies)
    content.flags.writeable = False
    return _split(content, path, kind)


def is_mapped(path: Path) -> bool:
    """Whether a file is too large to be copied."""
    return path.stat().st_size > READ_BYTES


def _split(content: NDArray[np.uint8], path: Path, kind: FolderKind) -> Arrays:
    try:
        start = 8 + int(content[:8].view("<u8")[0])
        header = json.loads(content[8:start].tobytes())
        header.pop("__metadata__", None)
        arrays = {
            name: content[start:][slice(*entry["data_offsets"])].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()
        }
        for name, array in arrays.items():  # as compiled code reads it
            if not array.flags.aligned:
                raise ValueError(f"{name} is not aligned")
        return arrays
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError, OverflowError) as error:
        raise kind.damaged(path, f"its header does not fit its content: {' '.join(str(error).split())}") from error


def _open_content(path: Path, copies: Path | None) -> NDArray[np.uint8]:
    if not is_mapped(path) and (copies is None or (path := _copy(path, copies)).parent != copies):
        return np.fromfile(path, np.uint8)
    return np.memmap(path, np.uint8, mode="r").view(np.ndarray)


def _copy(path: Path, copies: Path) -> Path:
    """A copy of the file as it is now, made by the first process that needs it; `path` if it cannot be made."""
    state = path.stat()
    copy = copies / f"{path.parent.name}.{path.stem}.{state.st_ino}-{state.st_mtime_ns}"
    if not copy.exists():
        partial = copy.with_name(f"{copy.name}.{os.getpid()}")
        try:
            copies.mkdir(exist_ok=True)
            shutil.copyfile(path, partial)
            partial.replace(copy)
        except OSError as error:
            logger.warning("each worker reads its own %s, since there can be no common copy: %s", path.name, error)
            return path
    return copy
