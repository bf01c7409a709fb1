"""A training run as a folder, so that it can continue where it was stopped and end in the same points."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.atomic import MARKER, atomic_directory, checksum, current_directory, read_directory
from lorentzrec.base.manifest import FolderKind, write_manifest
from lorentzrec.errors import ArtifactError, ConfigError
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.notes import Note
from lorentzrec.model.record import EpochRecord

ARRAYS = "state.safetensors"
AGAIN = "delete it and train from the start"
CHECKPOINT = FolderKind(
    "lorentzrec checkpoint",
    1,
    "checkpoint",
    AGAIN,
    {"config": dict, "data_digest": str, "record": list, "best_epoch": int, "notes": list},
)


def is_checkpoint(path: str | Path) -> bool:
    """Whether there is something to resume; a folder that was not written by us is not."""
    return (current_directory(path) / MARKER).exists()


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the next epoch depends on; what is sampled in it follows from the seed and its number."""

    config: TrainingConfig
    data_digest: str
    record: tuple[EpochRecord, ...]
    best_epoch: int
    """The epoch whose points are the `best_*` arrays; 0 where there is no validation."""
    notes: tuple[Note, ...]
    arrays: dict[str, NDArray[Any]]

    def save(self, path: str | Path) -> None:
        from safetensors.numpy import save_file

        with atomic_directory(path) as folder:
            save_file({name: np.ascontiguousarray(array) for name, array in self.arrays.items()}, folder / ARRAYS)
            manifest = {
                "format": CHECKPOINT.name,
                "format_version": CHECKPOINT.version,
                "config": self.config.to_dict(),
                "data_digest": self.data_digest,
                "record": [epoch.to_dict() for epoch in self.record],
                "best_epoch": self.best_epoch,
                "notes": [note.to_dict() for note in self.notes],
                "files": {ARRAYS: checksum(folder / ARRAYS)},
            }
            write_manifest(folder, manifest)

    @classmethod
    def load(cls, path: str | Path) -> Checkpoint:
        """Read a checkpoint; an `ArtifactError` if it is missing, damaged or of another version."""
        try:
            return read_directory(path, cls._read)
        except FileNotFoundError as error:
            raise ArtifactError(f"{error.filename} is missing: {AGAIN}") from None
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read as a checkpoint ({error}): {AGAIN}") from None

    @classmethod
    def _read(cls, folder: Path) -> Checkpoint:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        manifest = CHECKPOINT.parse((folder / MARKER).read_bytes(), folder / MARKER)
        try:
            if checksum(folder / ARRAYS) != manifest["files"][ARRAYS]:
                raise ArtifactError(f"{folder / ARRAYS} is damaged: {AGAIN}")
            record = tuple(EpochRecord.from_dict(epoch) for epoch in manifest["record"])
            if not 0 <= manifest["best_epoch"] <= len(record):
                raise ValueError(f"the best epoch is {manifest['best_epoch']} of {len(record)}")
            return cls(
                config=TrainingConfig.from_mapping(manifest["config"]),
                data_digest=manifest["data_digest"],
                record=record,
                best_epoch=manifest["best_epoch"],
                notes=tuple(map(Note.from_dict, manifest["notes"])),
                arrays=load_file(folder / ARRAYS),
            )
        except (ValueError, KeyError, TypeError, AttributeError, SafetensorError, ConfigError) as error:
            raise ArtifactError(f"{folder} cannot be read as a checkpoint ({error}): {AGAIN}") from None

    def array(self, name: str, like: NDArray[Any]) -> NDArray[Any]:
        """One array, which must have the shape and type of `like`."""
        array = self.arrays.get(name)
        if array is None or (array.shape, array.dtype) != (like.shape, like.dtype):
            found = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise ArtifactError(
                f"the checkpoint does not fit the run ({name} is {found}, not {like.dtype}{list(like.shape)}): {AGAIN}"
            )
        return array

    def check_same_run(self, config: TrainingConfig, data_digest: str) -> None:
        """Raise an error unless this is a checkpoint of the same run. The number of threads may differ."""
        if self.data_digest != data_digest:
            raise ConfigError("the checkpoint belongs to other data: give the same data, or train without resume")
        mine, given = self.config.to_dict(), config.to_dict()
        for name in mine:
            if name != "threads" and mine[name] != given[name]:
                raise ConfigError(
                    f"the checkpoint was made with {name}={mine[name]}, not {given[name]}: "
                    "set it back, or train without resume"
                )
