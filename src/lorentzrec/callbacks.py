"""Callbacks for `train(..., callbacks=[...])`: each is called with the record of an epoch as it ends.

Any function of an `EpochRecord` will do. Raise `StopTraining` in it to end training and keep the model.
"""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

from lorentzrec.errors import InputError
from lorentzrec.model.record import EpochRecord


def _numbers(record: EpochRecord) -> dict[str, float]:
    """What a logger plots: the numbers of an epoch, with the validation metrics as `validation_NAME`."""
    values = record.to_dict()
    validation = values.pop("validation") or {}
    del values["epoch"]
    return values | {f"validation_{name}": value for name, value in validation.items()}


def _import(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"{package} is not installed: pip install {package}") from None


class CsvLog:
    """Writes a line per epoch to a CSV file, which is complete after every epoch."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._rows: list[dict[str, float]] = []

    def __call__(self, record: EpochRecord) -> None:
        self._rows.append({"epoch": record.epoch} | _numbers(record))
        names = dict.fromkeys(name for row in self._rows for name in row)  # validation need not be in every epoch
        with self.path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(names))
            writer.writeheader()
            writer.writerows(self._rows)


class TensorBoardLog:
    """Writes scalars for TensorBoard to a folder, a second after each epoch at the latest; `close` writes what is left.

    Needs the package `tensorboardX`.
    """

    def __init__(self, folder: str | Path) -> None:
        self._writer = _import("tensorboardX").SummaryWriter(str(folder), flush_secs=1)

    def __call__(self, record: EpochRecord) -> None:
        for name, value in _numbers(record).items():
            self._writer.add_scalar(name.replace("@", "_at_"), value, record.epoch)

    def close(self) -> None:
        self._writer.close()


class MlflowLog:
    """Logs metrics to the active run of MLflow, or to a new one; needs the package `mlflow`."""

    def __init__(self) -> None:
        self._mlflow = _import("mlflow")

    def __call__(self, record: EpochRecord) -> None:
        metrics = {name.replace("@", "_at_"): value for name, value in _numbers(record).items()}
        self._mlflow.log_metrics(metrics, step=record.epoch)
