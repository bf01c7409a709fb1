"""What items are called, for tables that people read."""

from __future__ import annotations

from lorentzrec.data.vocabulary import Id
from lorentzrec.errors import InputError


class Titles:
    """Titles by item id, from a dataset or an item file; empty if there is none."""

    def __init__(self, place: str | None) -> None:
        self._titles: dict[str, str | None] = {}
        if place is None:
            return
        import polars as pl

        from lorentzrec.ingest.dataset import is_dataset, open_dataset
        from lorentzrec.ingest.item_table import read_item_table

        frame = open_dataset(place).items.rename({"id": "item"}) if is_dataset(place) else read_item_table(place)
        if "title" not in frame.columns:
            raise InputError(f"{place} has no column title: give an item file that has, or leave --titles out")
        self._titles = dict(frame.select(pl.col("item").cast(pl.String), "title").iter_rows())

    def __bool__(self) -> bool:
        return bool(self._titles)

    def __getitem__(self, item: Id) -> str | None:
        return self._titles.get(str(item))
