"""From the DATA that a user names to interactions: a dataset folder, or event files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lorentzrec.errors import ConfigError

if TYPE_CHECKING:
    from lorentzrec.data.dataset import Dataset
    from lorentzrec.data.interactions import Interactions


def dataset_at(data: str, **file_options: str | None) -> Dataset | None:
    """The dataset that `data` is, every byte checked; None if it is something else, such as an event file."""
    from lorentzrec.data.dataset import is_dataset, open_dataset

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

    given = {name: column for name, column in columns.items() if column is not None}
    return Interactions.from_file(data, reader, **given)


def parts_of(dataset: Dataset) -> dict[str, Interactions]:
    """The parts by name, training first; a dataset that is not split is all training."""
    return dict(zip(dataset.part_names or ("train",), dataset.parts(), strict=True))


def before_test(parts: dict[str, Interactions]) -> Interactions:
    """The histories that the test part goes on from: the part `history` where there is one, else all but the test."""
    if "history" in parts:
        return parts["history"]
    earlier = [part for name, part in parts.items() if name != "test"]
    return earlier[0] if len(earlier) == 1 else _one_after_another(earlier)


def _one_after_another(parts: list[Interactions]) -> Interactions:
    """Parts of one split as one: for each customer the events of the first part, then those of the next."""
    import numpy as np

    from lorentzrec.data.interactions import offsets_of

    user_rows = np.concatenate([part.user_rows for part in parts])
    order = np.argsort(user_rows, kind="stable")
    times: list[Any] = [part.times for part in parts if part.times is not None]
    weights = [part.weights for part in parts if part.weights is not None]
    return replace(
        parts[0],
        offsets=offsets_of(np.bincount(user_rows, minlength=len(parts[0].users))),
        item_rows=np.concatenate([part.item_rows for part in parts])[order],
        times=np.concatenate(times)[order] if times else None,
        weights=np.concatenate(weights)[order] if weights else None,
    )
