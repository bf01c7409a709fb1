"""Vocabularies are sequences of ids, in both types of ids."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lorentzrec import Interactions
from lorentzrec.data.vocabulary import Vocabulary

STRINGS = ["tea", "cup", "pot", "jam"]
INTEGERS = [7, 3, 2**40, -1]


@pytest.mark.parametrize("ids", [STRINGS, INTEGERS, []])
def test_it_is_a_sequence_like_the_list_of_its_ids(ids: list[Any]) -> None:
    vocabulary = Vocabulary(ids)
    assert isinstance(vocabulary, Sequence)
    assert list(vocabulary) == [*vocabulary] == ids
    assert list(reversed(vocabulary)) == ids[::-1]
    assert len(vocabulary) == len(ids)
    for part in (slice(2), slice(1, None), slice(None, None, 2), slice(-2, None), slice(None, None, -1), slice(9, 12)):
        assert vocabulary[part] == ids[part]
    for row, identifier in enumerate(ids):
        assert vocabulary[row] == vocabulary[row - len(ids)] == identifier
        assert vocabulary[np.int64(row)] == identifier
        assert type(vocabulary[row]) is type(identifier)
        assert vocabulary.index(identifier) == row
        assert vocabulary.index(identifier, row) == row
        assert vocabulary.count(identifier) == 1
        assert identifier in vocabulary
    for row in (len(ids), -len(ids) - 1):
        with pytest.raises(IndexError):
            vocabulary[row]
    strangers: list[Any] = ["gone", 4, None, 2.5, ["tea"], ([],)]
    for stranger in strangers:
        assert stranger not in vocabulary
        assert vocabulary.count(stranger) == 0


def test_an_id_that_is_not_there_has_no_index() -> None:
    vocabulary = Vocabulary(STRINGS, name="item")
    with pytest.raises(ValueError, match="'gone' is not among these items"):
        vocabulary.index("gone")
    for span in ((2,), (0, 1), (-1,)):
        with pytest.raises(ValueError, match="'cup' is not among these items"):
            vocabulary.index("cup", *span)
    assert vocabulary.index("cup", -3, -1) == 1


def test_the_ids_of_data_are_sequences() -> None:
    data = Interactions.from_pairs(["ann", "bob", "ann"], [30, 10, 20])
    assert set(data.users) == {"ann", "bob"}
    assert data.users[0] in ("ann", "bob")
    assert sorted(data.items[:3]) == [10, 20, 30]


@pytest.mark.parametrize(
    ("ids", "wanted"), [([0, 2**31 - 1], np.int32), ([-(2**31)], np.int32), ([2**31], np.int64), ([], np.int32)]
)
def test_the_type_of_integers(ids: list[int], wanted: type) -> None:
    assert Vocabulary(np.array(ids, np.int64)).integer_type is wanted


def test_it_survives_pickle() -> None:
    vocabulary = Vocabulary(STRINGS)
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
