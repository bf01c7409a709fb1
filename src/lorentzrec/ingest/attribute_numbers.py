"""Files `*_item2attributes.json`, which come with the Amazon files of S3-Rec: numbers instead of words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.errors import InputError

if TYPE_CHECKING:
    import polars as pl

ENDING = "_item2attributes.json"


def read_attribute_numbers(path: Path, name: str) -> pl.DataFrame:
    """`item`, `brand` and `category` as text. An item has a list of numbers: first the brand, then the path of its
    category without the root. A number that occurs twice in a path counts once."""
    import polars as pl

    try:
        numbers = json.loads(path.read_bytes())
    except ValueError:
        numbers = None
    if not isinstance(numbers, dict) or not all(map(_are_numbers, numbers.values())):
        raise InputError(f"{name} is not an object of lists of numbers: get it again")
    paths = [" > ".join(map(str, dict.fromkeys(own[1:]))) or None for own in numbers.values()]
    columns = {"item": list(numbers), "brand": [str(own[0]) for own in numbers.values()], "category": paths}
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def _are_numbers(own: object) -> bool:
    return isinstance(own, list) and bool(own) and all(isinstance(number, int) for number in own)
