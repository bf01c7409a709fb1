"""A training run as a folder, so that it can go on where it was stopped and end in the same points."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.atomic import MARKER, atomic_directory, checksum
from lorentzrec.errors import ArtifactError, ConfigError
from lorentzrec.learning.config import TrainingConfig
from lorentzrec.learning.record import EpochRecord

KIND, FORMAT_VERSION, ARRAYS = "lorentzrec checkpoint", 1, "state.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the next epoch depends on; what is sampled in it follows from the seed and its number."""

    config: TrainingConfig
    data_digest: str
    record: tuple[EpochRecord, ...]
    best_epoch: int
    """The epoch whose points are kept as `best_*` arrays; 0 where there is no validation."""
    notes: tuple[str, ...]
    """What was said about the run so far."""
    arrays: dict[str, NDArray[Any]]

    def save(self, path: str | Path) -> None:
        from safetensors.numpy import save_file

        with atomic_directory(path) as folder:
            save_file({name: np.ascontiguousarray(array) for name, array in self.arrays.items()}, folder / ARRAYS)
            manifest = {
                "kind": KIND,
                "format_version": FORMAT_VERSION,
                "config": self.config.to_dict(),
                "data_digest": self.data_digest,
                "record": [epoch.to_dict() for epoch in self.record],
                "best_epoch": self.best_epoch,
                "notes": self.notes,
                "checksum": checksum(folder / ARRAYS),
            }
            (folder / MARKER).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        from safetensors.numpy import load_file

        folder = Path(path)
        again = "delete it and train from the start"
        try:
            manifest = json.loads((folder / MARKER).read_text(encoding="utf-8"))
            if manifest["kind"] != KIND or manifest["format_version"] != FORMAT_VERSION:
                raise ArtifactError(f"{folder} is no checkpoint that this version reads: {again}")
            if checksum(folder / ARRAYS) != manifest["checksum"]:
                raise ArtifactError(f"{folder / ARRAYS} is damaged: {again}")
            return cls(
                config=TrainingConfig.from_mapping(manifest["config"]),
                data_digest=manifest["data_digest"],
                record=tuple(EpochRecord.from_dict(epoch) for epoch in manifest["record"]),
                best_epoch=manifest["best_epoch"],
                notes=tuple(manifest["notes"]),
                arrays=load_file(folder / ARRAYS),
            )
        except FileNotFoundError as error:
            raise ArtifactError(
                f"{error.filename} is missing, so there is nothing to resume: leave --resume out"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
            raise ArtifactError(f"{folder} cannot be read as a checkpoint ({error}): {again}") from None

    def refuse_other(self, config: TrainingConfig, data_digest: str) -> None:
        """Only the same run can be continued; the number of threads may differ."""
        if self.data_digest != data_digest:
            raise ConfigError("the checkpoint belongs to other data: give the same data, or train without resume")
        mine, asked = self.config.to_dict(), config.to_dict()
        for name in mine:
            if name != "threads" and mine[name] != asked[name]:
                raise ConfigError(
                    f"the checkpoint was made with {name}={mine[name]}, not {asked[name]}: "
                    "set it back, or train without resume"
                )


class _Writable(Exception):  # noqa: N818 - not an error: the check has passed
    """The folder could be written."""


def refuse_unwritable(path: str | Path) -> None:
    """An `InputError` if no checkpoint can be written to this folder, such as one that holds other files."""
    with suppress(_Writable), atomic_directory(path):
        raise _Writable
