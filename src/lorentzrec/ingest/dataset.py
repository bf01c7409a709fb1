"""The dataset folder: events sorted by customer and time, two vocabularies and a manifest.

    interactions.parquet   user_row, item_row, time, weight, label, order, part, next_item_row; one file, or a folder of
                           files whose names sort in row order. Columns that the data do not have are left out; `label`
                           is true for targets, `order` is equal for events of one order of a customer, `part` is a
                           position in the manifest's `parts`, and `next_item_row` is the customer's next target after
                           this row.
    users.parquet          row, id, count
    items.parquet          row, id, count, and the columns of an item table (title, category, price, image, attribute:*)
    rejected.parquet       file, line, fault, option, text of faulty rows, if preparation skipped any
    manifest.json          schema version, counts, options, steps, checksums, and a digest of the content
    deliveries/00001       events that were appended: a dataset of its own, with its own rows; see `appending`

The digest covers the ids and every event in order. It is made of one hash per block of customers, and no file divides a
block, so that tasks on many machines make the same digest as one machine. With deliveries, it is a hash of the digests
of the dataset without them and of each delivery; compaction makes that of a dataset prepared in one go.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.atomic import MARKER, atomic_directory, checksum, current_directory, read_directory
from lorentzrec.base.counting import with_counts
from lorentzrec.base.library_faults import parquet_faults
from lorentzrec.base.manifest import write_manifest
from lorentzrec.data.arrays import update_digest
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.event_order import NO_TIES, Ties, count_ties, number_orders
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import interleave
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import ArtifactError, ConfigError, InputError
from lorentzrec.ingest.dataset_checks import (
    AGAIN,
    COLUMNS,
    DATASET,
    check_events,
    check_manifest,
    check_other_columns,
    read_vocabulary,
)
from lorentzrec.ingest.item_table import attribute_columns, make_attributes
from lorentzrec.ingest.storage import (
    fetch,
    is_remote,
    join,
    list_files,
    read_content,
    remove,
    write_file,
)

if TYPE_CHECKING:
    import polars as pl

USERS_PER_BLOCK = 1024
EVENTS = "interactions.parquet"
REJECTED = "rejected.parquet"


@dataclass(frozen=True)
class EventFile:
    """What is known about one file of events once it is written."""

    name: str
    """Relative to the dataset's folder."""
    checksum: str
    part_counts: tuple[int, ...]
    """Events of each part; one number if there are no parts."""
    blocks: bytes
    """The block hashes, 32 bytes each, one after another."""
    ties: Ties = NO_TIES


def write_events(frame: pl.DataFrame, address: str, *, part_count: int = 1, whole: bool = False) -> EventFile:
    """Write sorted events of whole blocks of customers, with the next target of each, to a dataset's folder.

    `frame`: the columns of a dataset, in types that can be cast to its types. `whole`: these are all events.
    """
    import polars as pl

    frame = cast_columns(frame)
    ties = count_ties(frame)
    if "label" in frame.columns:
        following = pl.when("label").then("item_row").backward_fill().shift(-1).over("user_row")
    else:
        following = pl.when(pl.col("user_row").shift(-1) == pl.col("user_row")).then(pl.col("item_row").shift(-1))
    # Files are named after their first customer, so that names sort in row order and a repeated task writes the same
    # file.
    name = EVENTS if whole else f"{EVENTS}/part-{frame['user_row'][0] if len(frame) else 0:010d}.parquet"
    sha = write_frame(frame.with_columns(next_item_row=following), address, name)
    counts = np.bincount(frame["part"].to_numpy(), minlength=part_count) if "part" in frame.columns else [len(frame)]
    return EventFile(name, sha, tuple(int(count) for count in counts), _hash_blocks(frame), ties)


def cast_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of a dataset in its types, for sorted events: some engines have no small or unsigned integers, and
    orders are text."""
    import polars as pl

    if frame.schema.get("order") == pl.String:
        frame = frame.with_columns(order=pl.Series(number_orders(frame)))
    return frame.select(
        pl.col(name) if str(frame.schema[name]) in types else pl.col(name).cast(getattr(pl, types[0]))
        for name, types in COLUMNS.items()
        if name in frame.columns
    )


def write_frame(frame: pl.DataFrame, address: str, name: str) -> str:
    """Write a table to a file in a local or remote folder; returns its checksum."""
    with write_file(join(address, name)) as path:
        frame.write_parquet(path, compression="zstd", compression_level=1, row_group_size=1_000_000)
        return checksum(path)


def _hash_blocks(frame: pl.DataFrame) -> bytes:
    columns = [column.to_numpy() for column in frame]
    blocks = columns[0] // USERS_PER_BLOCK
    bounds = np.flatnonzero(np.diff(blocks, prepend=-1, append=-1)) if len(blocks) else np.empty(0, np.int64)
    hashes = []
    for start, stop in pairwise(bounds):
        block = hashlib.sha256()
        update_digest(block, [column[start:stop] for column in columns])
        hashes.append(block.digest())
    return b"".join(hashes)


def content_digest(users: Vocabulary, items: Vocabulary, columns: Iterable[str], files: Sequence[EventFile]) -> str:
    """One hash of ids and events that does not depend on how the events are divided into files."""
    digest = hashlib.sha256(",".join(columns).encode())
    users.update_digest(digest)
    items.update_digest(digest)
    for file in sorted(files, key=lambda file: file.name):
        digest.update(file.blocks)
    return digest.hexdigest()


@dataclass
class DatasetDraft:
    """A dataset that is being written; it is not valid before `finish` has written its manifest."""

    address: str
    """Where files are written to for now."""
    checksums: dict[str, str] = field(default_factory=dict)
    vocabularies: dict[str, Vocabulary] = field(default_factory=dict)
    begun: bool = False

    def begin(self) -> None:
        """Call this before writing the first file: where folders cannot be renamed, it removes an older dataset."""
        self.begun = True
        if is_remote(self.address):
            remove(self.address)

    def write_vocabulary(self, frame: pl.DataFrame, name: str) -> None:
        """`frame`: row, id, count and further columns, in row order. `name`: user or item."""
        self.checksums[f"{name}s.parquet"] = write_frame(frame, self.address, f"{name}s.parquet")
        self.vocabularies[name] = Vocabulary(frame["id"], name=name)

    def finish(
        self,
        *,
        columns: Iterable[str],
        events: Sequence[EventFile],
        parts: Sequence[str] = (),
        record: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Write the manifest of the vocabularies and events written before, and of what is in `record`."""
        users, items = self.vocabularies["user"], self.vocabularies["item"]
        present = set(columns)
        columns = [name for name in COLUMNS if name in present]
        counts = np.sum([file.part_counts for file in events], axis=0)
        manifest = {
            "format": DATASET.name,
            "format_version": DATASET.version,
            "digest": content_digest(users, items, columns, events),
            "counts": {"events": int(counts.sum()), "users": len(users), "items": len(items)},
            "columns": [*columns, "next_item_row"],
            "parts": {name: int(count) for name, count in zip(parts, counts, strict=bool(parts))},
            **record,
            "files": dict(sorted((self.checksums | {file.name: file.checksum for file in events}).items())),
        }
        write_dataset_manifest(self.address, manifest)
        return manifest


@contextmanager
def new_dataset(address: str | Path) -> Iterator[DatasetDraft]:
    """A dataset to fill. It appears at `address` complete at the end of the block, or not at all.

    A local folder is built under another name and renamed. Object stores cannot rename: there the manifest, without
    which nothing is a dataset, is written last, and a failure removes what was uploaded.
    """
    if not is_remote(address):
        with atomic_directory(address) as folder:
            folder.chmod(0o700)  # only the owner may read what customers did
            yield DatasetDraft(str(folder))
        return
    if read_content(join(address, MARKER)) is None and _has_files(str(address)):
        raise InputError(f"{address} holds files but no {MARKER}, so it is not a dataset: choose another name")
    draft = DatasetDraft(str(address))
    try:
        yield draft
    except BaseException:
        if draft.begun:
            remove(str(address))
        raise


def _has_files(address: str) -> bool:
    try:
        return bool(list_files(address))
    except InputError:
        return False


@dataclass(frozen=True)
class Dataset:
    """An open dataset folder: its manifest is read at once, its tables when they are needed.

    A table is compared with its checksum when it is first read, and nothing in it is used before it is checked.
    """

    address: str
    manifest: dict[str, Any]
    _verified: dict[str, Path] = field(default_factory=dict)
    """Local paths of the files that are as they were written."""

    def __repr__(self) -> str:
        text = "Dataset({events:event|events}, {users:user|users}, {items:item|items})"
        return with_counts(text, self.manifest["counts"])

    @property
    def digest(self) -> str:
        return str(self.manifest["digest"])

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of the split's parts in order, training first; empty if there is no split."""
        return tuple(self.manifest["parts"])

    @property
    def event_weights(self) -> dict[str, float]:
        """Kind of event -> weight that the dataset was prepared with; empty if all kinds weigh the same."""
        return dict(self.manifest.get("options", {}).get("event_weights", {}))

    @cached_property
    def _scratch(self) -> Path:
        folder = tempfile.mkdtemp(prefix="lorentzrec-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    @cached_property
    def members(self) -> tuple[Dataset, ...]:
        """The datasets that this one consists of: itself, or what it was before the first delivery, and each delivery
        in the order of the manifest, with the vocabularies of its own."""
        listed = [entry for entry in self.manifest.get("deliveries", ()) if entry["folder"] is not None]
        if not listed:
            return (self,)
        found = [Dataset(self.address, self.manifest | self.manifest["base"] | {"deliveries": []})]
        for entry in listed:
            found.append(open_dataset(join(self.address, entry["folder"])))
            if found[-1].digest != entry["digest"]:
                raise ArtifactError(f"{found[-1].address} is not the delivery that was appended: {AGAIN}")
        return tuple(found)

    @property
    def deliveries(self) -> tuple[str, ...]:
        """The digests of what the dataset was made of: of its first files, and of each delivery."""
        if len(self.members) > 1:
            return tuple(digest for member in self.members for digest in member.deliveries)
        return tuple(self.manifest.get("compacted", (self.digest,)))

    def read_new(self, known: Sequence[str]) -> list[Interactions] | None:
        """The events of each delivery that is not among these, oldest first; None if some of the known deliveries are
        gone, or if new ones are compacted with others: then only all events together are right."""
        old = set(known)
        if not old or old - set(self.deliveries):
            return None
        mixed = [
            member for member in self.members if 0 < len(old.intersection(member.deliveries)) < len(member.deliveries)
        ]
        new = [member for member in self.members if not old.intersection(member.deliveries)]
        return None if mixed else [member.interactions() for member in new]

    def verify(self) -> None:
        """Compare every file with its checksum in the manifest."""
        if len(self.members) > 1:
            for member in self.members:
                member.verify()
            return
        self._verified.clear()
        for name in self.manifest["files"]:
            self._verify(name)

    def _verify(self, name: str) -> Path:
        """The local path of a file; remote files are fetched once."""
        if name not in self._verified:
            address = join(self.address, name)
            path = fetch(address, self._scratch) if is_remote(address) else Path(address)
            if not path.is_file():
                raise ArtifactError(f"{self.address}: {name} is missing: {AGAIN}")
            if checksum(path) != self.manifest["files"][name]:
                raise ArtifactError(f"{self.address}: {name} is not as it was written: {AGAIN}")
            self._verified[name] = path
        return self._verified[name]

    def _table(self, name: str) -> dict[str, Path]:
        """The files of a table, in row order, and their local paths."""
        files = [file for file in self.manifest["files"] if file == name or file.startswith(f"{name}/")]
        if not files:
            raise ArtifactError(f"{join(self.address, MARKER)} is damaged (it does not list {name}): {AGAIN}")
        return {file: self._verify(file) for file in files}

    @cached_property
    def items(self) -> pl.DataFrame:
        """The item table: row, id, count, and the columns of an item file; the newest delivery has the last word."""
        tables = [member._read_vocabulary("item")[0] for member in self.members]
        return tables[0] if len(tables) == 1 else _unite_items(tables)

    def read_users(self) -> pl.DataFrame:
        """The table of customers: row, id, count; not with deliveries."""
        return self._read_vocabulary("user")[0]

    def scan_ids(self, name: str) -> pl.LazyFrame:
        """Row and id of each customer (`user`) or item, not with deliveries."""
        import polars as pl

        return pl.scan_parquet(list(self._table(f"{name}s.parquet").values()), glob=False).select("row", "id")

    @property
    def prepared_attributes(self) -> tuple[str, ...]:
        """Columns of attributes that the dataset was prepared with: `NAME`, or `NAME:KIND`."""
        return tuple(self.manifest.get("options", {}).get("attributes", ()))

    def attributes(
        self, columns: Sequence[str] | None = None, *, like: ItemAttributes | None = None
    ) -> ItemAttributes | None:
        """The attributes of items, of some columns that the dataset was prepared with, or of all; None if it has none.

        columns: `NAME`, or `NAME:KIND` with the kind path, values or number.
        like: those of a model. Its columns are read as they were, and are the default.
        """
        prepared = self.prepared_attributes
        known = dict(zip(attribute_columns(prepared), prepared, strict=True))
        earlier = known if like is None else {column.name for column in like.columns}
        wanted = tuple(known[name] for name in known if name in earlier) if columns is None else tuple(columns)
        if not wanted:
            return None
        for name, given in zip(attribute_columns(wanted), wanted, strict=True):
            if name not in known:
                have = f"it has {', '.join(known)}" if known else "it has none"
                raise ConfigError(f"{self.address} has no attributes {given!r}, {have}: prepare it with `attributes`")
        return make_attributes(self.items, [known.get(name, name) for name in wanted], like)

    def _read_vocabulary(self, name: str, columns: list[str] | None = None) -> tuple[pl.DataFrame, Vocabulary]:
        ((file, path),) = self._table(f"{name}s.parquet").items()
        return read_vocabulary(path, name, join(self.address, file), self.manifest["counts"][f"{name}s"], columns)

    def interactions(self, part: str | None = None) -> Interactions:
        """The events of one part by its name, or all of them. All parts share their vocabularies."""
        if part is not None and part not in self.part_names:
            have = f"use one of {', '.join(self.part_names)}" if self.part_names else "it is not split, leave part out"
            raise ConfigError(f"{self.address} has no part {part!r}: {have}")
        whole, numbers = self._read_events()
        return whole if part is None else whole.select(numbers == self.part_names.index(part))

    def parts(self) -> tuple[Interactions, ...]:
        """All parts in order, training first; one if the dataset is not split."""
        return tuple(self.named_parts().values())

    def named_parts(self) -> dict[str, Interactions]:
        """The same by name; a dataset without a split is all `train`."""
        whole, numbers = self._read_events()
        if not self.part_names:
            return {"train": whole}
        return {name: whole.select(numbers == number) for number, name in enumerate(self.part_names)}

    def _read_events(self) -> tuple[Interactions, NDArray[np.uint8]]:
        """All events, and the part of each if there are parts."""
        import polars as pl

        if len(self.members) > 1:
            return interleave([member.interactions() for member in self.members]), np.empty(0, np.uint8)
        columns = [name for name in self.manifest["columns"] if name != "next_item_row"]
        files = {join(self.address, name): path for name, path in self._table(EVENTS).items()}
        with parquet_faults(join(self.address, EVENTS), AGAIN):
            events = pl.read_parquet(list(files.values()), columns=columns, glob=False).rechunk()
        users, items = (self._read_vocabulary(name, ["row", "id"])[1] for name in ("user", "item"))
        check_events(events, self.manifest, join(self.address, EVENTS), files)
        check_other_columns(self.manifest, files)
        notes, given = tuple(self.manifest.get("notes", ())), self.manifest.get("ties") == "given"
        whole = Interactions.from_sorted(users, items, events, notes, ties_given=given)
        whole = replace(whole, deliveries=self.deliveries)
        return whole, events["part"].to_numpy() if "part" in columns else np.empty(0, np.uint8)

    def scan_training(self) -> pl.LazyFrame:
        """The events that models are trained on, sorted by customer: the first part, or all if there is no split."""
        import polars as pl

        if len(self.members) > 1:
            raise InputError(
                f"{self.address} has deliveries that are not merged: run lorentzrec prepare --compact first"
            )
        columns = [name for name in self.manifest["columns"] if name != "next_item_row"]
        events = pl.scan_parquet(list(self._table(EVENTS).values()), glob=False).select(columns)
        return events.filter(pl.col("part") == 0).drop("part") if "part" in columns else events


def _unite_items(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One table of the items of all, in the rows of `interleave`; counts are summed, and later values replace earlier
    ones."""
    import polars as pl

    text = any(table.schema["id"] == pl.String for table in tables)
    typed = [table.with_columns(pl.col("id").cast(pl.String if text else pl.Int64)) for table in tables]
    together = pl.concat(typed, how="diagonal_relaxed")
    others = [name for name in together.columns if name not in ("row", "id", "count")]
    last = [pl.col(name).drop_nulls().last() for name in others]
    united = together.group_by("id", maintain_order=True).agg(pl.col("count").sum(), *last)
    return united.with_columns(row=pl.int_range(pl.len()).cast(tables[0].schema["row"])).select(together.columns)


def write_dataset_manifest(address: str, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest of a dataset in one step."""
    with write_file(join(address, MARKER)) as path:
        write_manifest(path.parent, manifest)


def is_dataset(address: str | Path) -> bool:
    """Whether there is a dataset, valid or damaged, so that commands can take datasets as well as event files."""
    content = read_content(join(_current(address), MARKER))
    try:
        return content is not None and json.loads(content).get("format") == DATASET.name
    except (ValueError, AttributeError, RecursionError):
        return False


def open_dataset(address: str | Path) -> Dataset:
    """Open a dataset folder, local or remote."""
    address = _current(address)
    content = read_content(join(address, MARKER))
    if content is None:
        raise ArtifactError(f"{address} holds no {MARKER}, so it is not a dataset: make one with lorentzrec prepare")
    return Dataset(address, check_manifest(content, address))


def read_dataset(path: str | Path, part: str | None = None) -> Interactions:
    """The events of a dataset folder, also while it is being replaced; see `Interactions.from_dataset`."""
    if is_remote(path):
        return open_dataset(path).interactions(part)
    return read_directory(path, lambda folder: open_dataset(folder).interactions(part))


def _current(address: str | Path) -> str:
    return str(address) if is_remote(address) else str(current_directory(address))
