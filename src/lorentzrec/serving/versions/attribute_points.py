"""The points of attributes in a version, which place new items: two files, if the model was trained with attributes.

attributes.safetensors   points; history_points if separate
attributes.json          how columns are read, and the value that each row belongs to
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.attributes import AttributeColumn
from lorentzrec.errors import ArtifactError, InputError
from lorentzrec.model.artifact import point_arrays, write_arrays

if TYPE_CHECKING:
    from lorentzrec.points.composing import AttributePoints


@dataclass(frozen=True, eq=False)
class VersionAttributes:
    """Attributes and their points."""

    columns: Mapping[str, AttributeColumn]
    rows: Mapping[str, int]
    """The row of each value."""
    points: NDArray[np.float32]
    history_points: NDArray[np.float32]

    def rows_of(self, sent: Mapping[str, str]) -> tuple[list[int], int]:
        """The rows of the values in some columns of an item, and the number of values that are not known."""
        values = [*dict.fromkeys(self._values(sent))]
        return [self.rows[value] for value in values if value in self.rows], sum(
            value not in self.rows for value in values
        )

    def _values(self, sent: Mapping[str, str]) -> Iterator[str]:
        for name, text in sent.items():
            if name not in self.columns:
                raise InputError(
                    f"{name!r} is not an attribute of the model: send {', '.join(self.columns)}, or leave it out"
                )
            yield from self.columns[name].values_of(text)


def write_attributes(path: Path, attributes: AttributePoints) -> None:
    """`path`: of both files, without suffix."""
    write_arrays(path.with_suffix(".safetensors"), point_arrays(attributes.points, attributes.history_points))
    described = {
        "columns": [asdict(column) for column in attributes.columns],
        "values": attributes.values.series.to_list(),
    }
    path.with_suffix(".json").write_text(json.dumps(described))


def read_attributes(path: Path, arrays: Mapping[str, NDArray[Any]], width: int) -> VersionAttributes:
    """`path`: the file of the values. `width`: the coordinates of a point."""
    described = json.loads(path.read_text())
    columns = [AttributeColumn(**column | {"edges": tuple(column["edges"])}) for column in described["columns"]]
    rows = {value: row for row, value in enumerate(described["values"])}
    for points in arrays.values():
        if (points.dtype, points.shape) != (np.dtype("<f4"), (len(rows), width)):
            raise ArtifactError(f"{path} does not fit the points of its attributes: publish the model again")
    points = arrays["points"]
    return VersionAttributes(
        {column.name: column for column in columns}, rows, points, arrays.get("history_points", points)
    )
