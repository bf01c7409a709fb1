"""Public data sets: `fetch` downloads one, verifies it, and keeps it in a cache.

import lorentzrec.datasets
films = lorentzrec.datasets.fetch("movielens-100k")
films.interactions, films.titles

Nothing of a data set is part of this package: their licences do not allow that. The checksums of the archives are those
that their authors publish; a folder that the user has is checked by its number of events.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lorentzrec.base.atomic import atomic_directory, write_text
from lorentzrec.base.counting import Count
from lorentzrec.errors import ConfigError, InputError

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.interactions import Interactions
    from lorentzrec.data.vocabulary import Id

VARIABLE = "LORENTZREC_DATA"
"""The environment variable with a folder of data sets, which is used before anything is downloaded."""

MARKER = ".complete"
"""In a folder of the cache whose archive was verified."""

SECONDS_WITHOUT_DATA = 30
CHUNK = 1 << 16


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and how it is recognised."""

    title: str
    url: str
    megabytes: float
    md5: str
    """Of the archive, as published next to it."""
    folder: str
    """The folder in the archive."""
    files: tuple[str, ...]
    """Those that are used: events first, then items."""
    events: int
    licence: str


_TERMS = (
    "for research; no commercial use and no redistribution without permission; name GroupLens in publications. "
    "Terms: https://files.grouplens.org/datasets/movielens/{name}-README.{ending}"
)


def _movielens(
    size: str, megabytes: float, md5: str, events: int, files: tuple[str, ...], folder: str | None = None
) -> Source:
    name = f"ml-{size}"
    licence = _TERMS.format(name=name, ending="txt" if size in ("100k", "1m") else "html")
    url = f"https://files.grouplens.org/datasets/movielens/{name}.zip"
    return Source(f"MovieLens {size.upper()}", url, megabytes, md5, folder or name, files, events, licence)


_DAT, _CSV = ("ratings.dat", "movies.dat"), ("ratings.csv", "movies.csv")
SOURCES: dict[str, Source] = {
    "movielens-100k": _movielens("100k", 4.9, "0e33842e24a9c977be4e0107933c0723", 100_000, ("u.data", "u.item")),
    "movielens-1m": _movielens("1m", 5.9, "c4d9eecfca2ab87c1945afe126590906", 1_000_209, _DAT),
    "movielens-10m": _movielens("10m", 65.6, "ce571fd55effeba0271552578f2648bd", 10_000_054, _DAT, "ml-10M100K"),
    "movielens-20m": _movielens("20m", 198.7, "cd245b17a1ae2cc31bb14903e1204af3", 20_000_263, _CSV),
    "movielens-25m": _movielens("25m", 262.0, "6b51fb2759a8657d3bfcbfc42b592ada", 25_000_095, _CSV),
    "movielens-32m": _movielens("32m", 239.0, "d472be332d4daa821edc399621853b57", 32_000_204, _CSV),
}
"""The data sets by name, which is also that of the reader."""


@dataclass(frozen=True)
class PublicData:
    """A data set on disk. Events and items are read when they are first used."""

    name: str
    folder: Path
    licence: str

    @cached_property
    def interactions(self) -> Interactions:
        """All events. An incomplete file is an error."""
        from lorentzrec.data.interactions import Interactions

        events, expected = Interactions.from_file(self._path(0), reader=self.name), SOURCES[self.name].events
        if len(events) != expected:
            raise InputError(
                f"{self._path(0)} has {Count(len(events)):event|events} instead of {expected:,}: it is not complete; "
                f"remove {self.folder} and fetch it again"
            )
        return events

    @cached_property
    def items(self) -> pl.DataFrame:
        """One row per item: item (its id as text), title, and category where the data set has one."""
        from lorentzrec.ingest.item_table import read_item_table

        return read_item_table(str(self._path(1)), reader=self.name)

    @cached_property
    def titles(self) -> dict[Id, str]:
        """Id -> title of the items that have events."""
        names = dict(zip(self.items["item"], self.items["title"], strict=True))
        items = self.interactions.items
        return {one: names[str(one)] for one in items.ids(range(len(items))) if names.get(str(one))}

    def _path(self, number: int) -> Path:
        return self.folder / SOURCES[self.name].files[number]


def fetch(name: str, folder: str | Path | None = None, *, progress: bool | None = None) -> PublicData:
    """The data set of this name: "movielens-100k", "movielens-1m", "-10m", "-20m", "-25m" or "-32m".

    folder: where the data set is already, as it is downloaded from its page; nothing is downloaded then. Without it,
    the folder that the variable LORENTZREC_DATA names is searched, then the cache ($XDG_CACHE_HOME or ~/.cache, in
    lorentzrec/datasets). If it is in neither, its archive is downloaded, verified by its checksum, and unpacked there.
    progress: True shows a bar on standard error, False nothing but the notice of the licence; None shows a bar on a
    terminal.
    """
    if name not in SOURCES:
        raise ConfigError(f"there is no public data set {name!r}: use one of {', '.join(SOURCES)}")
    source = SOURCES[name]
    roots = [Path(folder)] if folder is not None else [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
    for path in (inner for outer in roots for inner in (outer, outer / source.folder, outer / name)):
        if all((path / file).is_file() for file in source.files):
            return PublicData(name, path, source.licence)
    if folder is not None:
        raise InputError(
            f"{folder} does not have {' and '.join(source.files)}: unpack {source.url} there, or leave `folder` out"
        )
    cached = cache_folder() / name
    if not (cached / MARKER).is_file():
        _download(source, cached, progress)
    return PublicData(name, cached, source.licence)


def cache_folder() -> Path:
    """The folder that downloaded data sets are kept in."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lorentzrec" / "datasets"


def _download(source: Source, target: Path, progress: bool | None) -> None:
    """Download the archive and unpack its files; `target` appears when all of them are verified."""
    print(f"{source.title}: {source.licence}", file=sys.stderr, flush=True)
    print(f"downloading {source.url} ({source.megabytes:g} MB) to {target}", file=sys.stderr, flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_directory(target, marker=MARKER) as new:
        archive = new / "archive.zip"
        digest = _write_archive(source, archive, progress)
        if digest != source.md5:
            raise InputError(
                f"{source.url}: the MD5 checksum is {digest} instead of {source.md5}: the download was incomplete or "
                "changed on its way; try again"
            )
        try:
            with zipfile.ZipFile(archive) as content:
                for file in source.files:
                    with (
                        content.open(str(PurePosixPath(source.folder, file))) as packed,
                        (new / file).open("wb") as out,
                    ):
                        shutil.copyfileobj(packed, out)
        except (zipfile.BadZipFile, KeyError) as error:
            raise InputError(f"{source.url}: {error}: the archive does not have the files that are expected") from None
        archive.unlink()
        write_text(new / MARKER, f"{source.url} {source.md5}\n")


def _write_archive(source: Source, archive: Path, progress: bool | None) -> str:
    """Write what the server sends; returns its checksum."""
    import urllib.error
    import urllib.request

    digest = hashlib.md5(usedforsecurity=False)
    try:
        with (
            urllib.request.urlopen(source.url, timeout=SECONDS_WITHOUT_DATA) as response,
            archive.open("wb") as file,
            _bar(source, response.length, progress) as advance,
        ):
            while some := response.read(CHUNK):
                digest.update(some)
                file.write(some)
                advance(len(some))
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason: Any = getattr(error, "reason", error)
        if isinstance(error, urllib.error.HTTPError):  # it holds the connection
            reason = str(error)
            error.close()
        raise InputError(
            f"{source.url} cannot be downloaded ({reason}): try again, or download it in another way, unpack it, and "
            f"give `folder`, or name its folder in {VARIABLE}"
        ) from None
    return digest.hexdigest()


@contextmanager
def _bar(source: Source, length: int | None, progress: bool | None) -> Iterator[Any]:
    """A bar on standard error; gives the function that is called with the number of further bytes."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    shown = sys.stderr.isatty() if progress is None else progress
    columns = (BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task("download", total=length or int(source.megabytes * 1e6))
        yield lambda count: bar.update(task, advance=count)
