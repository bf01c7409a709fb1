"""The files through which driver and workers exchange the points: in storage that all of them reach.

RUN/shards/0003.safetensors                        customers of worker 3
RUN/held-out.safetensors                           events that no worker learns from
RUN/rounds/0002-05/changes/0003-0000.safetensors   rows of range 0 that worker 3 changed in round 5 of epoch 2
RUN/rounds/0002-05/merged-0000.safetensors         all rows of range 0 after that round

A set of files is followed by a JSON file with their checksums: without it, the set is not complete. Files are written
atomically, and a task that runs twice writes the same content.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.atomic import checksum
from lorentzrec.errors import ArtifactError
from lorentzrec.ingest.storage import NotFound, fetch, is_remote, join, remove, write_file


class Damaged(ArtifactError):  # noqa: N818 - the name states the condition
    """A file of the scratch storage that is missing or not as it was written."""


def absolute(address: str | Path) -> str:
    """An address that means the same in the current folder of a task."""
    return str(address) if is_remote(address) else str(Path(address).resolve())


def write_arrays(address: str, arrays: dict[str, NDArray[Any]]) -> str:
    """Write a file of arrays; returns its checksum."""
    from safetensors.numpy import save_file

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with write_file(address) as path:
        save_file(contiguous, path)
        return checksum(path)


def is_whole(address: str, expected: object) -> bool:
    """Whether there is a file with this checksum."""
    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as folder, suppress(FileNotFoundError, NotFound):
        return checksum(fetch(address, Path(folder))) == expected
    return False


def read_arrays(address: str, expected: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file; `Damaged` if it is missing or has another checksum."""
    from safetensors.numpy import load_file

    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as folder:
        try:
            path = fetch(address, Path(folder))
            if checksum(path) != expected:
                raise Damaged(f"{address} is not as it was written: resume, which writes it again")
            return load_file(path)
        except (FileNotFoundError, NotFound):
            raise Damaged(f"{address} is missing: resume, with `scratch` in storage that all workers reach") from None


def remove_files(folder: str) -> None:
    """Delete a folder."""
    if is_remote(folder):
        remove(folder)
    elif Path(folder).is_dir():
        shutil.rmtree(folder)


def round_folder(run: str, epoch: int, number: int) -> str:
    """The folder of a round of an epoch; both are counted from 1, and round 0 is the state before the first."""
    return join(run, "rounds", f"{epoch:04d}-{number:02d}")
