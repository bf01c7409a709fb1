"""From the DATA that a user names to interactions: a dataset folder, or event files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.atomic import MARKER
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    from lorentzrec.data.interactions import Interactions
    from lorentzrec.ingest.dataset import Dataset


def dataset_at(data: str, **file_options: str | None) -> Dataset | None:
    """The dataset that `data` is, every byte checked; None if it is something else, such as an event file."""
    from lorentzrec.ingest.dataset import is_dataset, open_dataset

    if not is_dataset(data):
        return None
    for name, value in file_options.items():
        if value is not None:
            option = name.replace("_", "-")
            raise ConfigError(f"{data} is a dataset and needs no --{option}, which is for event files: leave it out")
    dataset = open_dataset(data)
    dataset.verify()
    return dataset


def events_at(data: str, reader: str | None, **columns: str | None) -> Interactions:
    """The events of files; columns left as None have their usual names."""
    from lorentzrec.data.interactions import Interactions

    if (other := _kind_of_folder(data)) is not None:
        raise InputError(f"{data} is a {other}, not events: give a dataset or event files")
    given = {name: column for name, column in columns.items() if column is not None}
    try:
        return Interactions.from_file(data, reader, **given)
    except InputError as error:
        named = re.findall(r"`([a-z_]+)[=`]", str(error))
        if set(named) <= {"reader", *columns}:
            raise
        raise type(error)(f"{error} (options of lorentzrec prepare: make a dataset first)") from None


def _kind_of_folder(data: str) -> str | None:
    """What a folder written by this package is, if it is one."""
    try:
        manifest = json.loads((Path(data) / MARKER).read_text("utf-8"))
        return str(manifest.get("kind") or manifest["format"])
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def parts_of(dataset: Dataset) -> dict[str, Interactions]:
    """The parts by name, training first; a dataset that is not split is all training."""
    return dict(zip(dataset.part_names or ("train",), dataset.parts(), strict=True))
