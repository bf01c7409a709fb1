"""The dataset folder: events sorted by customer and time, two vocabularies and a manifest.

    interactions.parquet   user_row, item_row, time, weight, label, part, next_item_row; one file, or a folder of files
                           whose names sort in row order. Columns that the data do not have are left out; `label` is
                           true for targets, `part` counts in the manifest's `parts`, and `next_item_row` is the next
                           target of the customer after this row.
    users.parquet          row, id, count
    items.parquet          row, id, count, and what an item table added (title, category, price, image)
    rejected.parquet       file, line, fault, text of rows that preparation refused, if it was told to skip them
    manifest.json          schema version, counts, options, steps, checksums, and a digest of the content

The digest covers the ids and every event in order. It is made of one hash per block of customers, and no file cuts a
block in two, so that tasks on many machines make the same digest as one machine does.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.atomic import MARKER, atomic_directory, checksum, current_directory
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, ConfigError, InputError
from lorentzrec.ingest.dataset_checks import (
    AGAIN,
    check_events,
    checked_manifest,
    checked_vocabulary,
)
from lorentzrec.ingest.dataset_checks import FORMAT as FORMAT
from lorentzrec.ingest.dataset_checks import SCHEMA_VERSION as SCHEMA_VERSION
from lorentzrec.ingest.storage import fetched, files_at, is_remote, joined, parquet_faults, read_content, remove, upload
from lorentzrec.manifest import write_manifest

if TYPE_CHECKING:
    import polars as pl

USERS_A_BLOCK = 1024
EVENTS = "interactions.parquet"
REJECTED = "rejected.parquet"
DIGEST_COLUMNS = ("user_row", "item_row", "time", "weight", "label", "part")


@dataclass(frozen=True)
class EventFile:
    """What is known of one file of events once it is written."""

    name: str
    """Below the dataset's folder."""
    checksum: str
    part_counts: tuple[int, ...]
    """Events of each part; one number if there are no parts."""
    blocks: bytes
    """The block hashes, 32 bytes each, one after another."""


def write_events(frame: pl.DataFrame, address: str, *, part_count: int = 1, whole: bool = False) -> EventFile:
    """Write sorted events of whole blocks of customers, with their next-item labels, to a dataset's folder.

    `frame` has the columns of the dataset without the label. `whole`: these are all events, so one file is enough.
    """
    import polars as pl

    if "label" in frame.columns:
        target = pl.when("label").then("item_row")
        following = target.backward_fill().shift(-1).over("user_row")
    else:
        following = pl.when(pl.col("user_row").shift(-1) == pl.col("user_row")).then(pl.col("item_row").shift(-1))
    labelled = frame.with_columns(next_item_row=following)
    # Files are named by the first customer, so that names sort in row order and a repeated task writes the same file.
    name = EVENTS if whole else f"{EVENTS}/part-{frame['user_row'][0] if len(frame) else 0:010d}.parquet"
    sha = write_frame(labelled, address, name)
    counts = np.bincount(frame["part"].to_numpy(), minlength=part_count) if "part" in frame.columns else [len(frame)]
    return EventFile(name, sha, tuple(int(count) for count in counts), _block_hashes(frame))


def write_frame(frame: pl.DataFrame, address: str, name: str) -> str:
    """Write a table below a local or remote folder; its checksum."""
    with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
        remote = is_remote(address)
        target = Path(scratch if remote else address, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(target, compression="zstd", compression_level=1, row_group_size=1_000_000)
        if remote:
            upload(target, joined(address, name))
        return checksum(target)


def _block_hashes(frame: pl.DataFrame) -> bytes:
    columns = [frame[name].to_numpy() for name in DIGEST_COLUMNS if name in frame.columns]
    blocks = columns[0] // USERS_A_BLOCK
    bounds = np.flatnonzero(np.diff(blocks, prepend=-1, append=-1)) if len(blocks) else np.empty(0, np.int64)
    hashes = []
    for start, stop in pairwise(bounds):
        block = hashlib.sha256()
        for column in columns:
            block.update(np.ascontiguousarray(column[start:stop], column.dtype.newbyteorder("<")).data)
        hashes.append(block.digest())
    return b"".join(hashes)


def content_digest(users: Vocabulary, items: Vocabulary, columns: Iterable[str], files: Sequence[EventFile]) -> str:
    """One hash of ids and events, the same however the events are spread over files."""
    digest = hashlib.sha256(",".join(name for name in DIGEST_COLUMNS if name in set(columns)).encode())
    users.update_digest(digest)
    items.update_digest(digest)
    for file in sorted(files, key=lambda file: file.name):
        digest.update(file.blocks)
    return digest.hexdigest()


@dataclass
class DatasetDraft:
    """A dataset being written; `finish` gives it its manifest, and only then does it count."""

    address: str
    """Where files go now."""
    checksums: dict[str, str] = field(default_factory=dict)
    begun: bool = False

    def begin(self) -> None:
        """To be called before the first file is written: where nothing can be renamed, an older dataset goes now."""
        self.begun = True
        if is_remote(self.address):
            remove(self.address)

    def finish(
        self,
        *,
        columns: Sequence[str],
        events: Sequence[EventFile],
        parts: Sequence[str] = (),
        record: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Write the manifest from the vocabularies and events written before; `record` is added to it."""
        for file in events:
            self.checksums[file.name] = file.checksum
        with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
            users, items = (
                checked_vocabulary(fetched(place, Path(scratch)), name, place)
                for name, place in ((name, joined(self.address, f"{name}s.parquet")) for name in ("user", "item"))
            )
        counts = np.sum([file.part_counts for file in events], axis=0)
        manifest = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "digest": content_digest(users, items, columns, events),
            "counts": {"events": int(counts.sum()), "users": len(users), "items": len(items)},
            "columns": [*columns, "next_item_row"],
            "parts": {name: int(count) for name, count in zip(parts, counts, strict=bool(parts))},
            **(record or {}),
            "files": dict(sorted(self.checksums.items())),
        }
        with tempfile.TemporaryDirectory(prefix="lorentzrec-") as scratch:
            remote = is_remote(self.address)
            folder = Path(scratch if remote else self.address)
            write_manifest(folder, manifest)
            if remote:
                upload(folder / MARKER, joined(self.address, MARKER))
        return manifest

    def write_vocabulary(self, frame: pl.DataFrame, name: str) -> None:
        """`frame`: row, id, count and further columns, in row order. `name`: user or item."""
        self.checksums[f"{name}s.parquet"] = write_frame(frame, self.address, f"{name}s.parquet")


@contextmanager
def new_dataset(address: str | Path) -> Iterator[DatasetDraft]:
    """A dataset to fill. It appears at `address` whole at the end of the block, or not at all.

    A local folder is built under another name and renamed. Object stores cannot rename: there the manifest goes last,
    without which nothing is a dataset, and a failure removes what was uploaded.
    """
    if not is_remote(address):
        with atomic_directory(address) as folder:
            folder.chmod(0o700)  # what customers did is for the owner alone
            yield DatasetDraft(str(folder))
        return
    if read_content(joined(address, MARKER)) is None and list_remote(str(address)):
        raise InputError(f"{address} holds files but no {MARKER}, so it is no dataset: choose another name")
    draft = DatasetDraft(str(address))
    try:
        yield draft
    except BaseException:
        if draft.begun:
            remove(str(address))
        raise


def list_remote(address: str) -> list[str]:
    try:
        return [file.address for file in files_at(address)]
    except InputError:
        return []


def save_dataset(parts: Mapping[str, Interactions] | Interactions, address: str | Path) -> Dataset:
    """Write interactions, or the named parts of a split of them, as a dataset."""
    import polars as pl

    named = {"": parts} if isinstance(parts, Interactions) else dict(parts)
    first = next(iter(named.values()))
    frames = []
    for number, part in enumerate(named.values()):
        frame = pl.DataFrame({"user_row": part.user_rows, "item_row": part.item_rows})
        frame = frame if part.times is None else frame.with_columns(time=pl.Series(part.times))
        frame = frame if part.weights is None else frame.with_columns(weight=pl.Series(part.weights))
        frame = frame if part.labels is None else frame.with_columns(label=pl.Series(part.labels))
        frame = frame if "" in named else frame.with_columns(part=pl.lit(number, pl.UInt8))
        frames.append(frame.with_columns(item_id=part.items.series.gather(part.item_rows)))
    events = pl.concat(frames)
    keys: tuple[str, ...] = ("user_row", "time", "item_id", "weight", "label", "part")
    if not all(part.ties_by_id for part in named.values()):
        keys = ("user_row", "time")  # equal times keep the order of the input
    order = [name for name in keys if name in events.columns]
    events = events.sort(order, maintain_order=True).drop("item_id")
    with new_dataset(address) as draft:
        draft.begin()
        for vocabulary, rows in ((first.users, events["user_row"]), (first.items, events["item_row"])):
            count = np.bincount(rows, minlength=len(vocabulary)).astype(np.int64)
            row = np.arange(len(vocabulary), dtype=np.int32)
            draft.write_vocabulary(pl.DataFrame({"row": row, "id": vocabulary.series, "count": count}), vocabulary.name)
        file = write_events(events, draft.address, part_count=len(named), whole=True)
        names = () if "" in named else tuple(named)
        notes = {"notes": list(first.notes)}
        draft.finish(columns=events.columns, events=[file], parts=names, record=notes)
    return open_dataset(address)


@dataclass(frozen=True)
class Dataset:
    """A dataset folder, opened: its manifest is read, its tables when they are asked for.

    A table is compared with its checksum when it is first read, and nothing in it is used before it is checked.
    """

    address: str
    manifest: dict[str, Any]

    def __repr__(self) -> str:
        counts = self.manifest["counts"]
        return f"Dataset({counts['events']:,} events, {counts['users']:,} users, {counts['items']:,} items)"

    @property
    def digest(self) -> str:
        return str(self.manifest["digest"])

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of the split's parts in order, training first; empty if it is not split."""
        return tuple(self.manifest["parts"])

    @property
    def event_weights(self) -> dict[str, float]:
        """Kind of event -> weight, as the dataset was prepared with; empty if all kinds weigh the same."""
        return dict(self.manifest.get("options", {}).get("event_weights", {}))

    @cached_property
    def _scratch(self) -> Path:
        folder = tempfile.mkdtemp(prefix="lorentzrec-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def local(self, name: str) -> list[Path]:
        """Local paths of a table's files, in row order; remote ones are fetched once."""
        names = self._files(name)
        if not is_remote(self.address):
            return [Path(self.address, file) for file in names]
        targets = {file: self._scratch / self.address.partition("://")[2] / file for file in names}
        return [
            target if target.exists() else fetched(joined(self.address, file), self._scratch)
            for file, target in targets.items()
        ]

    def verify(self) -> None:
        """Compare every file with its checksum in the manifest."""
        for name in self.manifest["files"]:
            self._verify(name)

    @cached_property
    def _verified(self) -> set[str]:
        return set()

    def _verify(self, name: str) -> None:
        path = next(iter(self.local(name)))
        if not path.is_file():
            raise ArtifactError(f"{self.address}: {name} is missing: {AGAIN}")
        if checksum(path) != self.manifest["files"][name]:
            raise ArtifactError(f"{self.address}: {name} is not as it was written: {AGAIN}")
        self._verified.add(name)

    def _table(self, name: str) -> list[Path]:
        """Local paths of a table's files, in row order, each compared with its checksum once."""
        names = self._files(name)
        if not names:
            raise ArtifactError(f"{joined(self.address, MARKER)} is damaged (it does not list {name}): {AGAIN}")
        for file in names:
            if file not in self._verified:
                self._verify(file)
        return self.local(name)

    @cached_property
    def items(self) -> pl.DataFrame:
        """The item table: row, id, count, and what an item file added."""
        import polars as pl

        (path,) = self._table("items.parquet")
        self._vocabulary("item")
        with parquet_faults(joined(self.address, "items.parquet"), AGAIN):
            return pl.read_parquet(path, glob=False)

    def _vocabulary(self, name: str) -> Vocabulary:
        (path,) = self._table(f"{name}s.parquet")
        place = joined(self.address, f"{name}s.parquet")
        return checked_vocabulary(path, name, place, self.manifest["counts"][f"{name}s"])

    def interactions(self, part: str | None = None) -> Interactions:
        """The events of one part by its name, or all of them. All parts share their vocabularies."""
        if part is not None and part not in self.part_names:
            have = f"use one of {', '.join(self.part_names)}" if self.part_names else "it is not split, leave part out"
            raise ConfigError(f"{self.address} has no part {part!r}: {have}")
        return self._interactions([part])[0]

    def parts(self) -> tuple[Interactions, ...]:
        """All parts in order, training first; one if the dataset is not split."""
        return tuple(self._interactions(list(self.part_names) or [None]))

    def _interactions(self, parts: Sequence[str | None]) -> list[Interactions]:
        import polars as pl

        columns = [name for name in self.manifest["columns"] if name != "next_item_row"]
        paths = self._table(EVENTS)
        with parquet_faults(joined(self.address, EVENTS), AGAIN):
            events = pl.read_parquet(paths, columns=columns, glob=False).rechunk()
        users, items = self._vocabulary("user"), self._vocabulary("item")
        check_events(events, self.manifest, joined(self.address, EVENTS), partial(self._first_row, events))
        whole = Interactions(
            users=users,
            items=items,
            # Rows are sorted by customer: finding a million borders is quicker than counting tens of millions of rows.
            offsets=np.searchsorted(events["user_row"].to_numpy(), np.arange(len(users) + 1, dtype=np.int32)),
            item_rows=events["item_row"].to_numpy(),
            times=events["time"].to_numpy() if "time" in columns else None,
            weights=events["weight"].to_numpy() if "weight" in columns else None,
            labels=events["label"].to_numpy() if "label" in columns else None,
            notes=tuple(self.manifest.get("notes", ())),
        )
        numbers: NDArray[np.uint8] | None = events["part"].to_numpy() if "part" in columns else None
        return [
            whole if name is None or numbers is None else whole.select(numbers == self.part_names.index(name))
            for name in parts
        ]

    def _first_row(self, events: pl.DataFrame, column: str, wrong: pl.Series, reason: str) -> ArtifactError:
        """The error about the first event where `wrong` is true."""
        import polars as pl

        event = int(wrong.arg_true()[0])
        paths = self.local(EVENTS)
        lengths = [pl.scan_parquet(path, glob=False).select(pl.len()).collect().item() for path in paths]
        starts = np.cumsum([0, *lengths])
        file = int(np.searchsorted(starts, event, side="right")) - 1
        place = f"{joined(self.address, self._files(EVENTS)[file])} row {event - starts[file] + 1}"
        return ArtifactError(f"{place}: {column} is {events[column][event]}, {reason}: {AGAIN}")

    def _files(self, name: str) -> list[str]:
        """The files of a table, in row order."""
        return [file for file in self.manifest["files"] if file == name or file.startswith(f"{name}/")]


def is_dataset(address: str | Path) -> bool:
    """Whether there is a dataset, sound or not, so that commands can take datasets and event files alike."""
    content = read_content(joined(_current(address), MARKER))
    try:
        return content is not None and json.loads(content).get("format") == FORMAT
    except (ValueError, AttributeError, RecursionError):
        return False


def open_dataset(address: str | Path) -> Dataset:
    """Open a dataset folder, local or remote."""
    address = _current(address)
    content = read_content(joined(address, MARKER))
    if content is None:
        raise ArtifactError(f"{address} holds no {MARKER}, so it is no dataset: make one with lorentzrec prepare")
    return Dataset(address, checked_manifest(content, address))


def _current(address: str | Path) -> str:
    return str(address) if is_remote(address) else str(current_directory(address))
