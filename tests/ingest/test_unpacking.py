"""Files that are damaged, truncated, or made to fill the memory: each is reported in one line."""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard
from scipy import sparse

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.ingest.text import LONGEST_LINE, LimitedLines, decompress
from tests.damaged_folders import mutated

TEXT = "user,item,time\n" + "".join(f"u{row % 50},i{row * 7 % 31},{row}\n" for row in range(500))
SMALL = Interactions.from_pairs(["a", "a", "b"], ["x", "y", "x"])

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "events.csv": bytes,
    "events.csv.gz": gzip.compress,
    "events.csv.zst": zstandard.ZstdCompressor().compress,
}


def matrix(path: Path, **arrays: Any) -> bytes:
    """An archive as SciPy writes it, with some of its arrays replaced."""
    entries = np.random.default_rng(1).permutation(2000)[:200]
    sparse.save_npz(path, sparse.csr_array((np.ones(200), (entries // 40, entries % 40)), shape=(50, 40)))
    if arrays:
        with np.load(path) as loaded:
            kept = {name: loaded[name] for name in loaded}
        np.savez(path, **{**kept, **arrays})
    return path.read_bytes()


@pytest.mark.parametrize("name", ["events.csv.gz", "events.csv.zst", "events.npz", "events.parquet"])
def test_damaged_files_are_reported_in_one_line(tmp_path: Path, name: str) -> None:
    path, random = tmp_path / name, np.random.default_rng(7)
    if name in PACKED:
        content = PACKED[name](TEXT.encode())
    elif name == "events.npz":
        content = matrix(path)
    else:
        pl.DataFrame({"user": ["a", "b"], "item": ["x", "y"]}).write_parquet(path)
        content = path.read_bytes()
    refused = []
    for _ in range(40):
        path.write_bytes(mutated(content, random))
        try:
            Interactions.from_file(path)
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert not [line for line in refused if "\n" in line]


@pytest.mark.parametrize("name", list(PACKED))
def test_compressed_files_have_the_same_events(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(PACKED[name](TEXT.encode()))
    assert (
        Interactions.from_file(path).digest
        == Interactions.from_pairs(
            [f"u{row % 50}" for row in range(500)], [f"i{row * 7 % 31}" for row in range(500)], list(range(500))
        ).digest
    )
    target = tmp_path / "unpacked"
    assert decompress(path, str(path), target).read_text() == TEXT
    assert target.exists() == (name != "events.csv")


@pytest.mark.parametrize("compress", PACKED.values())
def test_compression_is_recognised_without_its_file_ending(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / "events.csv").write_bytes(compress(TEXT.encode()))
    assert len(Interactions.from_file(tmp_path / "events.csv")) == 500


@pytest.mark.parametrize("name", list(PACKED))
@pytest.mark.parametrize(("start", "line"), [("", 1), (TEXT, 502)], ids=["header", "row"])
def test_an_overlong_line_is_refused(tmp_path: Path, name: str, start: str, line: int) -> None:
    path = tmp_path / name
    path.write_bytes(PACKED[name](start.encode() + b"x" * (LONGEST_LINE + 2**21)))
    message = rf"{name} line {line} is longer than 16 MiB: check that the file is text"
    with pytest.raises(InputError, match=message):
        Interactions.from_file(path)
    with pytest.raises(InputError, match=message):
        prepare(PrepareConfig(events=(str(path),)), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


class Endless(io.RawIOBase):
    """What a bomb decompresses to: more than any memory holds."""

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "all of it was requested"
        return b"x" * size


@pytest.mark.parametrize("read", [lambda content: content.readline(), lambda content: content.read()])
def test_memory_holds_at_most_one_line(read: Callable[[Any], bytes]) -> None:
    with pytest.raises(InputError, match="bomb line 1 is longer"):
        read(io.BufferedReader(LimitedLines(Endless(), "bomb")))


def test_long_lines_of_sound_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.csv.gz"
    lines = [f"u{row},i{row},{'x' * 5_000_000}\n" for row in range(8)]
    path.write_bytes(gzip.compress(("user,item,note\n" + "".join(lines)).encode(), 1))
    assert len(Interactions.from_file(path)) == 8


@pytest.mark.parametrize(
    "arrays",
    [
        {"indices": np.full(200, 1_000_000, np.int32)},
        {"indices": np.full(200, -1, np.int32)},
        {"indptr": np.array([0, *[2_000_000_000] * 49, 200], np.int32)},
        {"shape": np.array([3, 3])},
        {"format": np.array("csx")},
        {"data": np.array(["x"] * 200)},
    ],
)
def test_a_matrix_with_indices_out_of_range_is_refused(tmp_path: Path, arrays: dict[str, Any]) -> None:
    matrix(tmp_path / "events.npz", **arrays)
    with pytest.raises(InputError, match=r"events\.npz is no SciPy sparse matrix"):
        Interactions.from_file(tmp_path / "events.npz")


@pytest.mark.parametrize("time", [2**63, 2**70, -(2**63) - 1])
def test_times_beyond_64_bits_are_refused(time: int) -> None:
    with pytest.raises(InputError, match=rf"the time in row 2 is {time}, "):
        Interactions.from_pairs(["a", "a"], ["x", "y"], [0, time])


@pytest.mark.parametrize("kind", [list, np.array, lambda ids: np.array(ids, object)])
def test_ids_that_are_not_unicode_are_refused(kind: Callable[[list[str]], Any]) -> None:
    with pytest.raises(InputError, match=r"the user in row 2 is 'b\\udce9', which is not Unicode"):
        Interactions.from_pairs(kind(["a", "b\udce9"]), ["x", "y"])
    with pytest.raises(InputError, match="the item in row 1"):
        Vocabulary(kind(["\ud800"]), name="item")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"item_rows": np.array([0, 1, 2], np.int32)}, "the item row of event 3 is 2: there are 2 items"),
        ({"item_rows": np.array([0, -1, 0], np.int32)}, "the item row of event 2 is -1"),
        ({"item_rows": np.array([0, 2_000_000_000, 0], np.int32)}, "the item row of event 2 is 2000000000"),
        ({"item_rows": np.array([0.0, 1.0, 0.0])}, "item rows are float64"),
        ({"item_rows": np.array([0, 1], np.int32)}, "offsets do not divide 2 events"),
        ({"offsets": np.array([0, 5, 3])}, "offsets do not divide 3 events"),
        ({"offsets": np.array([-1, 2, 3])}, "offsets do not divide 3 events"),
        ({"offsets": np.array([0, 3])}, "offsets are int64"),
        ({"weights": np.array([1, 0, 1], np.float32)}, r"the weight of event 2 is 0\.0"),
        ({"weights": np.array([1, 1, math.nan], np.float32)}, "the weight of event 3 is nan"),
        ({"weights": np.array([math.inf, 1, 1], np.float32)}, "the weight of event 1 is inf"),
        ({"weights": np.ones(2, np.float32)}, "weights have the shape"),
        ({"times": np.arange(4)}, "times have the shape"),
    ],
)
def test_interactions_with_rows_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    arrays = {"offsets": SMALL.offsets, "item_rows": SMALL.item_rows, **changes}
    with pytest.raises(InputError, match=message):
        Interactions(SMALL.users, SMALL.items, **arrays)
