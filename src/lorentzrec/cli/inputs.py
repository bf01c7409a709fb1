"""What commands read: datasets and event files, item titles, lists of ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.cli.output import format_flag
from lorentzrec.cli.results import kind_of_folder
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.attributes import ItemAttributes
    from lorentzrec.data.interactions import Interactions
    from lorentzrec.data.vocabulary import Id, Vocabulary
    from lorentzrec.ingest.dataset import Dataset
    from lorentzrec.learning.new_events import NewEvents
    from lorentzrec.model.model import Model


def dataset_at(data: str, **file_options: str | None) -> Dataset | None:
    """The dataset at `data`, every byte verified; None if it is something else, such as an event file."""
    dataset = _find_dataset(data, file_options)
    if dataset is not None:
        dataset.verify()
    return dataset


def _find_dataset(data: str, file_options: Mapping[str, str | None]) -> Dataset | None:
    from lorentzrec.ingest.dataset import is_dataset, open_dataset

    if not is_dataset(data):
        return None
    for name, value in file_options.items():
        if value is not None:
            raise ConfigError(
                f"{data} is a dataset and needs no {format_flag(name)}, which is for event files: leave it out"
            )
    return open_dataset(data)


def require_dataset(data: str, needed_by: str = "", **file_options: str | None) -> Dataset:
    """The dataset at `data`; an `InputError` if there is none. `needed_by`: the option that needs it."""
    dataset = dataset_at(data, **file_options)
    if dataset is None:
        why = f", which {needed_by} needs" if needed_by else ""
        raise InputError(f"{data} is not a dataset{why}: make one with lorentzrec prepare")
    return dataset


def events_at(data: str, reader: str | None = None, **columns: str | None) -> Interactions:
    """The events in files; columns that are None have their usual names."""
    from lorentzrec.data.interactions import Interactions

    if (other := kind_of_folder(Path(data))) is not None:
        raise InputError(f"{data} is a {other}, not events: give a dataset or event files")
    given = {name: column for name, column in columns.items() if column is not None}
    try:
        return Interactions.from_file(data, reader, **given)
    except InputError as error:
        if {name for name, _ in error.options} <= {"reader", *columns}:
            raise
        raise type(error)(f"{error} (options of lorentzrec prepare: make a dataset first)") from None


@dataclass(frozen=True)
class TrainingData:
    """What to train on: a dataset, or event files."""

    address: str
    dataset: Dataset | None
    file_options: Mapping[str, str | None]

    def read(self) -> tuple[Interactions, Interactions | None]:
        """The training events, and the part named validation if the dataset has one."""
        if self.dataset is None:
            return events_at(self.address, **self.file_options), None
        self.dataset.verify()
        parts = self.dataset.named_parts()
        return next(iter(parts.values())), parts.get("validation")

    def read_with(self, model: Model) -> NewEvents:
        """All events so far, and which of them are new to the model."""
        from lorentzrec.learning.new_events import find_new_events, read_new_events, with_types_of

        if self.dataset is not None:
            return read_new_events(model, self.dataset)
        return find_new_events(model, with_types_of(model, self.read()[0]))

    def attributes(self, columns: str | None = None, start: Model | None = None) -> ItemAttributes | None:
        """The attributes of a dataset's items, of the columns `NAME,NAME:KIND,...`; none for "none". The default are
        those of the start model, if it has any, and otherwise all."""
        if columns == "none" or self.dataset is None:
            return None
        like = None if start is None else start.item_attributes
        from lorentzrec.learning.new_events import with_type_of

        found = self.dataset.attributes(None if columns is None else columns.split(","), like=like)
        if start is None or found is None:
            return found
        return replace(found, items=with_type_of(start.items, found.items))


def training_data(data: str, needed_by: str | None = None, **file_options: str | None) -> TrainingData:
    """What to train on, with its events not yet read. `needed_by`: the option that needs a dataset."""
    dataset = require_dataset(data, needed_by, **file_options) if needed_by else _find_dataset(data, file_options)
    return TrainingData(data, dataset, file_options)


def attribute_frame(address: str, model: Model) -> pl.DataFrame:
    """The attributes of new items in a file with the columns that a model was trained with."""
    import polars as pl

    from lorentzrec.ingest.item_table import ATTRIBUTE, read_item_table

    if model.attributes is None:
        raise InputError("the model was trained without attributes: train it with them, or give events")
    names = [column.name for column in model.attributes.columns]
    table = read_item_table(address, attributes=names).select("item", f"^{ATTRIBUTE}.*$")
    table = table.rename(lambda name: name.removeprefix(ATTRIBUTE))
    if model.items.holds_strings:
        return table
    ids = table["item"].cast(pl.Int64, strict=False)
    for text in table["item"].filter(ids.is_null()).head(1):
        raise InputError(
            f"{address}: the item {text!r} is not a whole number, and all items of the model are: check it"
        )
    return table.with_columns(ids)


def require_test(dataset: Dataset) -> dict[str, Interactions]:
    """The parts of a dataset by name; an `InputError` if it has no test part."""
    parts = dataset.named_parts()
    if "test" not in parts:
        raise InputError(
            f"{dataset.address} has no test part, only {', '.join(parts)}: prepare it with --split leave_last_out"
        )
    return parts


def item_table_at(address: str, columns: dict[str, str] | None = None, *, others: bool = False) -> pl.DataFrame:
    """Titles, categories and so on by the column item, from a dataset or an item file.

    others: also all other columns of an item file.
    """
    from lorentzrec.ingest.dataset import is_dataset, open_dataset
    from lorentzrec.ingest.item_table import read_item_table

    if is_dataset(address):
        return open_dataset(address).items.rename({"id": "item"}).drop("row", "count")
    return read_item_table(address, columns=columns, others=others)


def read_titles(address: str | None) -> dict[str, str | None]:
    """Titles by item id as text, from a dataset or an item file; empty without one."""
    if address is None:
        return {}
    import polars as pl

    table = item_table_at(address)
    if "title" not in table.columns:
        raise InputError(f"{address} has no column title: give an item file that has one, or leave --titles out")
    return dict(table.select(pl.col("item").cast(pl.String), "title").iter_rows())


def parse_ids(texts: list[str], vocabulary: Vocabulary) -> list[Id]:
    """Ids from the command line: separated by commas, unless the whole text is an id; @FILE has one per line."""
    found: list[str] = []
    for text in texts:
        if text.startswith("@"):
            found += read_ids(Path(text[1:]))
        elif vocabulary.holds_strings and text in vocabulary:
            found.append(text)
        else:
            found += split_ids([text])
    return [vocabulary.parse(text) for text in found]


def split_ids(texts: list[str] | None) -> list[str]:
    """Ids separated by commas."""
    return [part.strip() for text in texts or [] for part in text.split(",") if part.strip()]


def read_ids(path: Path) -> list[str]:
    """The ids in a file with one per line."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read as a list of ids ({error}): give a text file, one id per line"
        ) from None


def named_texts(option: str, texts: list[str] | None) -> dict[str, str]:
    """The values of a repeatable option NAME=VALUE."""
    pairs = {}
    for text in texts or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise ConfigError(f"{option} {text!r} has no name and value: write name=value")
        pairs[name] = value
    return pairs


def named_numbers(option: str, texts: list[str] | None) -> dict[str, float]:
    """The same for NAME=NUMBER."""
    return {name: _number(option, text) for name, text in named_texts(option, texts).items()}


def _number(option: str, text: str) -> float:
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        raise ConfigError(f"{option}: {text!r} is not a number: write name=number") from None
