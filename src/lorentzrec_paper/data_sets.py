"""Finds the paper's public data sets and similar ones in a folder, and reports where to get those that are missing."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.ingest.prepare import read_interactions
from lorentzrec.ingest.sources import source_named

VARIABLE = "LORENTZREC_DATA"
"""The environment variable with the data folder, used without --data."""

MOVIELENS_PAGE = "https://grouplens.org/datasets/movielens/"
AMAZON_PAGE = "https://cseweb.ucsd.edu/~jmcauley/datasets/amazon/links.html"
GOWALLA_PAGE = "https://github.com/gusye1234/LightGCN-PyTorch/tree/master/data/gowalla"
COMPLETE_JOURNEY_PAGE = "https://www.8451.com/area51"
ONLINE_RETAIL_PAGE = "https://archive.ics.uci.edu/dataset/352/online+retail"


class MissingData(InputError):  # noqa: N818
    """No file of a data set was found."""


class DamagedData(InputError):  # noqa: N818
    """A file was found and is incomplete or cannot be read."""


@dataclass(frozen=True)
class DataSet:
    """A public data set: the names of its files, how they are read, and where they come from."""

    name: str
    title: str
    page: str
    locations: tuple[tuple[tuple[str, ...], str], ...]
    """(files, reader) for each location it may have in the folder; the first that exists is used."""
    events: int | None = None
    """Lines of the official file, to detect an incomplete download."""


def _movielens(size: str, folder: str, file: str, events: int) -> DataSet:
    reader = f"movielens-{size}"
    locations = (((f"{folder}/{file}",), reader), ((f"{reader}/{file}",), reader))
    return DataSet(reader, f"MovieLens {size.upper()}", MOVIELENS_PAGE, locations, events)


CATEGORIES = (
    "Automotive",
    "Cell_Phones_and_Accessories",
    "Clothing_Shoes_and_Jewelry",
    "Musical_Instruments",
    "Patio_Lawn_and_Garden",
    "Sports_and_Outdoors",
    "Tools_and_Home_Improvement",
    "Toys_and_Games",
)
"""The paper's eight categories of Amazon, as the files are named."""


def category_title(category: str) -> str:
    return category.replace("_", " ")


def complete_name(category: str) -> str:
    """The data set of the complete 2014 ratings of a category, which the paper used."""
    return f"amazon-{category.lower().replace('_', '-')}"


def five_core_name(category: str) -> str:
    """The data set of the 5-core of a category: customers and items with at least five events. Not the paper's."""
    return f"{complete_name(category)}-5core"


def _complete(category: str) -> DataSet:
    file = f"ratings_{category}.csv"
    locations = tuple(((f"{folder}{file}",), "amazon-ratings") for folder in ("", "amazon/", "amazon-ratings/"))
    return DataSet(complete_name(category), category_title(category), AMAZON_PAGE, locations)


def _five_core(category: str) -> DataSet:
    reviews = [f"reviews_{category}_5.json", f"reviews_{category}_5.json.gz", f"{category}_5.json", f"{category}.json"]
    # The text file of Cell Phones in circulation is sorted by item: its order in time is lost.
    ordered = category != "Cell_Phones_and_Accessories"
    lines = ((f"amazon-5core/{category}.txt",), "adjacency-ordered" if ordered else "adjacency")
    folders = ("amazon-5core", "amazon-musical-5core") if category == "Musical_Instruments" else ("amazon-5core",)
    locations = [((f"{folder}/{file}",), "amazon-reviews") for folder in folders for file in reviews]
    title = f"{category_title(category)}, 5-core"
    return DataSet(five_core_name(category), title, AMAZON_PAGE, (lines, *locations), _FIVE_CORE_EVENTS.get(category))


def _shop(name: str, title: str, page: str) -> DataSet:
    """Orders in one Parquet file, with the columns of the original."""
    return DataSet(name, title, page, (((f"{name}/transactions.parquet",), ""),))


_FIVE_CORE_EVENTS = {
    "Cell_Phones_and_Accessories": 194_439,
    "Clothing_Shoes_and_Jewelry": 278_677,
    "Musical_Instruments": 10_261,
    "Sports_and_Outdoors": 296_337,
    "Tools_and_Home_Improvement": 134_476,
    "Toys_and_Games": 167_597,
}

DATA_SETS = {
    one.name: one
    for one in (
        *map(_complete, CATEGORIES),
        _movielens("100k", "ml-100k", "u.data", 100_000),
        _movielens("1m", "ml-1m", "ratings.dat", 1_000_209),
        _movielens("10m", "ml-10M100K", "ratings.dat", 10_000_054),
        _movielens("20m", "ml-20m", "ratings.csv", 20_000_263),
        _movielens("25m", "ml-25m", "ratings.csv", 25_000_095),
        _movielens("32m", "ml-32m", "ratings.csv", 32_000_204),
        *map(_five_core, CATEGORIES),
        DataSet(
            "gowalla",
            "Gowalla",
            GOWALLA_PAGE,
            ((("gowalla/train.txt", "gowalla/test.txt"), "adjacency"),),
            1_027_370,
        ),
        _shop("complete-journey", "Complete Journey", COMPLETE_JOURNEY_PAGE),
        _shop("online-retail", "Online Retail", ONLINE_RETAIL_PAGE),
    )
}


class DataFolder:
    """The folder given by --data or LORENTZREC_DATA; without one, everything is missing."""

    def __init__(self, path: str | Path | None = None) -> None:
        given = path or os.environ.get(VARIABLE)
        self.path = Path(given) if given else None
        if self.path is not None and not self.path.is_dir():
            raise InputError(f"{self.path} is not a folder: give the one that holds the data sets (--data)")
        self._found: dict[str, FoundData] = {}

    def find(self, name: str) -> FoundData:
        """The data set, not read yet. `MissingData` names the file, and the page it comes from."""
        if name not in self._found:
            self._found[name] = self._find(DATA_SETS[name])
        return self._found[name]

    def __contains__(self, name: str) -> bool:
        try:
            self.find(name)
        except MissingData:
            return False
        except DamagedData:
            pass
        return True

    def _find(self, wanted: DataSet) -> FoundData:
        files = " and ".join(wanted.locations[0][0])
        if self.path is None:
            raise MissingData(
                f"{wanted.title} needs {files} in a data folder: get it from {wanted.page} and name the folder (--data)"
            )
        for names, reader in wanted.locations:
            paths = tuple(self.path / name for name in names)
            there = [path for path in paths if path.is_file()]
            if there and len(there) < len(paths):
                lost = next(path for path in paths if not path.is_file())
                raise DamagedData(f"{wanted.title} is incomplete, {lost} is missing: get it from {wanted.page}")
            if there:
                empty = [path for path in paths if path.stat().st_size == 0]
                if empty:
                    raise DamagedData(f"{wanted.title}: {empty[0]} is empty: get it again from {wanted.page}")
                return FoundData(wanted, paths, reader)
        raise MissingData(f"{wanted.title} needs {self.path / files}: get it from {wanted.page}")


@dataclass(frozen=True)
class FoundData:
    """A data set whose files exist; they are read when needed, and not kept."""

    about: DataSet
    paths: tuple[Path, ...]
    reader: str

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def title(self) -> str:
        return self.about.title

    @cached_property
    def digest(self) -> str:
        """A hash of the files' content, which costs less than reading them: it identifies the data in a part's key."""
        digest = hashlib.sha256(self.reader.encode())
        for path in self.paths:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    @cached_property
    def events(self) -> int:
        """The number of events, read for a check that the files are complete."""
        count = len(self._read(self.paths))
        if self.about.events not in (None, count):
            files = " and ".join(map(str, self.paths))
            raise DamagedData(
                f"{self.title}: {files} holds {count:,} events where the official file has "
                f"{self.about.events:,}: get it again from {self.about.page}"
            )
        return count

    def interactions(self, *, minimum_rating: float | None = None, minimum_user_events: int = 1) -> Interactions:
        """Events rated `minimum_rating` or more, where files have ratings, of customers with at least
        `minimum_user_events` of them."""
        _ = self.events  # the check
        rated = source_named(self.reader).rating_column is not None
        filters = {"minimum_rating": minimum_rating} if rated else {}
        return self._read(self.paths, **filters, minimum_user_events=minimum_user_events)

    def given_split(self) -> tuple[Interactions, ...]:
        """Training and test, one file each."""
        train, test = (self._read([path]) for path in self.paths)
        return train.split("given", test=test)

    def _read(self, paths: Sequence[Path], **filters: Any) -> Interactions:
        try:
            # The public boards take equal times in the order of the file.
            ties = {"ties": "file"} if source_named(self.reader).time_column else {}
            return read_interactions(paths, self.reader, **ties, **filters)
        except InputError as error:
            raise DamagedData(f"{self.title}: {error}, or get it again from {self.about.page}") from None
