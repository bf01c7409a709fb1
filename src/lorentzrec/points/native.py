"""The compiled ranking (`ranking.c`): from the rows of a history to the rows of the best items, in one call.

The call computes the midpoint of the history, adds up what the memory says about other items, finds candidates, scores
them precisely with their boosts, and selects the best. It holds no lock of Python, so requests are ranked in parallel.
Candidates are what the nearest lists of an index hold, or all eligible items. Which items are eligible is a bitmap:
live items, those of some categories, a list of ids, or any other set of items comes in this one form.

Every number that decides is of double precision. `tests/reference/ranking.py` says the same in NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_double, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.c_compiler import library_path, load_library
from lorentzrec.errors import ArtifactError

SOURCE = Path(__file__).with_name("ranking.c")
NO_MEMORY, NO_MIDPOINT, TOO_FEW, OUTSIDE = -1, -2, -3, -4
"""What the call returns instead of a number of items. `rank` returns two of them: the history has no midpoint; the
candidates are fewer than k. The others are errors."""

LEAST_FACTOR = 1e-30
"""As in `ranking.c`."""

Bitmap = NDArray[np.uint8]
"""Bit i % 8 of byte i // 8 is item i."""


class _Catalogue(Structure):
    _fields_ = (
        ("count", c_int64),
        ("width", c_int64),
        ("hyperbolic", c_int32),
        ("ordered", c_int32),
        ("items", c_void_p),
        ("histories", c_void_p),
        ("new_histories", c_void_p),
        ("new_count", c_int64),
        ("neighbour_offsets", c_void_p),
        ("neighbours", c_void_p),
        ("neighbour_values", c_void_p),
        ("neighbour_count", c_int64),
        ("memory_weight", c_double),
        ("sharpness", c_double),
        ("longest", c_double),
        ("item_offsets", c_void_p),
        ("item_factors", c_void_p),
        ("greatest_offset", c_double),
    )


class _Lists(Structure):
    _fields_ = (
        ("count", c_int64),
        ("width", c_int64),
        ("code_width", c_int64),
        ("centres", c_void_p),
        ("biases", c_void_p),
        ("units", c_void_p),
        ("scales", c_void_p),
        ("offsets", c_void_p),
        ("rows", c_void_p),
        ("row_count", c_int64),
        ("codes", c_void_p),
        ("greatest_offsets", c_void_p),
        ("factors", c_void_p),
        ("greatest_factors", c_void_p),
    )


class _Request(Structure):
    _fields_ = (
        ("query", c_void_p),
        ("history", c_void_p),
        ("weights", c_void_p),
        ("history_count", c_int64),
        ("known", c_void_p),
        ("shares", c_void_p),
        ("known_count", c_int64),
        ("repeated", c_void_p),
        ("repeated_boosts", c_void_p),
        ("repeated_count", c_int64),
        ("excluded", c_void_p),
        ("excluded_count", c_int64),
        ("eligible", c_void_p),
        ("candidates", c_void_p),
        ("candidate_count", c_int64),
        ("linear", c_void_p),
        ("lists", c_void_p),
        ("probes", c_int64),
        ("wanted", c_int64),
        ("k", c_int64),
        ("by_distance", c_int32),
        ("boosted", c_int32),
        ("raised", c_int32),
    )


class Catalogue:
    """What is ranked. It keeps the arrays alive that the call reads."""

    def __init__(
        self,
        item_points: NDArray[np.float32],
        history_points: NDArray[np.float32],
        *,
        hyperbolic: bool,
        memory: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]] | None = None,
        ordered: bool = True,
        memory_weight: float = 0.0,
        sharpness: float = 0.0,
        longest: float = 0.0,
        new_histories: NDArray[np.float32] | None = None,
        item_offsets: NDArray[np.float32] | None = None,
    ) -> None:
        """memory: offsets, columns and values of a `Memory`. longest: the greatest length of a point of an item.
        new_histories: points of rows after those of the items. item_offsets: what is added to the scores of items."""
        offsets, neighbours, values = (None, None, None) if memory is None else memory
        factors = None if item_offsets is None or not hyperbolic else _find_factors(item_offsets)
        self._arrays = item_points, history_points, new_histories, offsets, neighbours, values, item_offsets, factors
        count, width = self.shape = item_points.shape
        self._structure = _Catalogue(
            count,
            width,
            hyperbolic,
            ordered,
            _address(item_points, np.float32, self.shape),
            _address(history_points, np.float32, self.shape),
            _address(new_histories, np.float32, (_length(new_histories), width)),
            _length(new_histories),
            _address(offsets, np.int64, (count + 1,)),
            _address(neighbours, np.int32),
            _address(values, np.float32, (_length(neighbours),)),
            _length(neighbours),
            memory_weight,
            sharpness,
            longest,
            _address(item_offsets, np.float32, (count,)),
            _address(factors, np.float32, (count,)),
            0.0 if item_offsets is None else float(item_offsets.max(initial=-np.inf)),
        )
        self.reference = byref(self._structure)


class Lists:
    """Items in lists of neighbours, as codes of 8 bits per coordinate; see `index.py`."""

    def __init__(
        self,
        centres: NDArray[np.float32],
        biases: NDArray[np.float32],
        units: NDArray[np.float32],
        scales: NDArray[np.float32],
        offsets: NDArray[np.int64],
        rows: NDArray[np.int32],
        codes: NDArray[np.int8],
        item_offsets: NDArray[np.float32] | None = None,
    ) -> None:
        """item_offsets: see `Catalogue`; those of all items, in these lists or not."""
        arrays = centres, biases, units, scales, offsets, rows, codes
        self.centres, self.biases, self.units, self.scales, self.offsets, self.rows, self.codes = arrays
        self.item_offsets = item_offsets
        self.greatest_offsets: NDArray[np.float32] | None = None
        self._factors: NDArray[np.float32] | None = None
        self._greatest_factors: NDArray[np.float32] | None = None
        if item_offsets is not None:
            self._factors = _find_factors(item_offsets)[rows]
            self._greatest_factors = _find_greatest(self._factors, offsets)
            self.greatest_offsets = _find_greatest(item_offsets[rows], offsets)
        count, width, code_width = *centres.shape, codes.shape[1]
        self._structure = _Lists(
            count,
            width,
            code_width,
            _address(centres, np.float32),
            _address(biases, np.float32, (count,)),
            _address(units, np.float32, (code_width,)),
            _address(scales, np.float32, (count,)),
            _address(offsets, np.int64, (count + 1,)),
            _address(rows, np.int32),
            len(rows),
            _address(codes, np.int8, (len(rows), code_width)),
            _address(self.greatest_offsets, np.float32, (count,)),
            _address(self._factors, np.float32, (len(rows),)),
            _address(self._greatest_factors, np.float32, (count,)),
        )
        self.address = ctypes.addressof(self._structure)

    def __len__(self) -> int:
        return len(self.centres)


class Question(NamedTuple):
    """What is asked of a catalogue. `ranking.c` explains the fields of the same names."""

    k: int
    query: NDArray[np.float64] | None = None
    history: NDArray[np.int64] | None = None
    weights: NDArray[np.float64] | None = None
    known: NDArray[np.int64] | None = None
    shares: NDArray[np.float64] | None = None
    repeated: NDArray[np.int64] | None = None
    repeated_boosts: NDArray[np.float64] | None = None
    excluded: NDArray[np.int64] | None = None
    eligible: Bitmap | None = None
    candidates: NDArray[np.int64] | None = None
    linear: NDArray[np.float32] | None = None
    lists: Lists | None = None
    probes: int = 0
    wanted: int = 0
    by_distance: bool = False
    raised: bool = True


class Answer(NamedTuple):
    rows: NDArray[np.int64]
    """Best first, ties by row."""
    scores: NDArray[np.float32]
    query: NDArray[np.float64]
    """The point that the items were ranked for."""


def rank(catalogue: Catalogue, asked: Question) -> Answer | int:
    """The best `k` items, at least one; `NO_MIDPOINT` or `TOO_FEW` if there are none to find."""
    assert asked.k > 0
    assert asked.lists is None or asked.probes > 0
    k, (count, width) = asked.k, catalogue.shape
    rows, scores = np.empty(k, np.int64), np.empty(k, np.float32)
    point = np.empty(width)
    request = _Request(
        _address(asked.query, np.float64, (width,)),
        _address(asked.history, np.int64),
        _address(asked.weights, np.float64, (_length(asked.history),)),
        _length(asked.history),
        _address(asked.known, np.int64),
        _address(asked.shares, np.float64, (_length(asked.known),)),
        _length(asked.known),
        _address(asked.repeated, np.int64),
        _address(asked.repeated_boosts, np.float64, (_length(asked.repeated),)),
        _length(asked.repeated),
        _address(asked.excluded, np.int64),
        _length(asked.excluded),
        _address(asked.eligible, np.uint8, (-(-count // 8),)),
        _address(asked.candidates, np.int64),
        _length(asked.candidates),
        _address(asked.linear, np.float32, (count,)),
        None if asked.lists is None else asked.lists.address,
        asked.probes,
        asked.wanted,
        k,
        asked.by_distance,
        asked.known is not None,
        asked.raised,
    )
    found = _compiled()(catalogue.reference, byref(request), point.ctypes.data, rows.ctypes.data, scores.ctypes.data)
    if found == NO_MEMORY:
        raise MemoryError
    if found == OUTSIDE:
        raise ArtifactError(
            "there are rows that are not those of its items: the folder of a version or a model was changed while it "
            "was in use, so publish the model again, or copy the folder again"
        )
    return found if found < 0 else Answer(rows[:found], scores[:found], point)


def pack(mask: NDArray[np.bool_]) -> Bitmap:
    """The bitmap of a mask."""
    return np.packbits(mask, bitorder="little")


def unpack(bitmap: Bitmap, count: int) -> NDArray[np.bool_]:
    """The inverse of `pack`."""
    return np.unpackbits(bitmap, count=count, bitorder="little").view(bool)


@cache
def _compiled() -> Callable[..., int]:
    function = load_library(library_path(SOURCE)).rank
    function.argtypes = (POINTER(_Catalogue), POINTER(_Request), c_void_p, c_void_p, c_void_p)
    function.restype = c_int64
    return function


def _address(array: NDArray[Any] | None, dtype: type[np.generic], shape: tuple[int, ...] | None = None) -> int | None:
    """The address of an array of this type and shape; of any length, if no shape is given."""
    if array is None:
        return None
    if (
        array.dtype != dtype
        or not (array.flags.c_contiguous and array.flags.aligned)
        or (shape is not None and array.shape != shape)
    ):
        raise TypeError(
            f"the compiled ranking needs {np.dtype(dtype)} {shape or ''} one after another, "
            f"not {array.dtype} {array.shape} with steps of {array.strides} bytes"
        )
    address: int = array.__array_interface__["data"][0]
    return address


def _find_factors(item_offsets: NDArray[np.float32]) -> NDArray[np.float32]:
    """exp(offset - the greatest); of items so far behind that no distance makes up for it, the least factor."""
    behind = item_offsets.astype(np.float64) - item_offsets.max(initial=-np.inf)
    factors: NDArray[np.float32] = np.maximum(np.exp(behind), LEAST_FACTOR).astype(np.float32)
    return factors


def _find_greatest(values: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """The greatest value of each list; the least number there is for one without any."""
    filled = np.flatnonzero(np.diff(offsets))
    greatest = np.full(len(offsets) - 1, values.min(initial=np.inf), np.float32)
    if len(filled):
        greatest[filled] = np.maximum.reduceat(values, offsets[filled])
    return greatest


def _length(array: NDArray[Any] | None) -> int:
    return 0 if array is None else len(array)
