"""Keys that occur twice in JSON are found, however they are written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis.strategies import SearchStrategy, composite, lists, recursive, sampled_from, tuples

from lorentzrec.serving.http.bodies import _may_repeat_keys

NAMES = ("a", "b", "a:b", 'q"', "{", "\\", "", "é")
KEYS = [json.dumps(name, ensure_ascii=escaped) for name in NAMES for escaped in (False, True)]
COLONS = (":", " :", " : ", "\n:\t")
TEXTS = ("1", "null", '"a"', '"a:"', '":"', '"\\"a\\":"', '"{"')


@composite
def objects(draw: Any, values: SearchStrategy[str]) -> str:
    members = draw(lists(tuples(sampled_from([*KEYS, r'"\u0061"']), sampled_from(COLONS), values), max_size=4))
    return "{" + ",".join("".join(member) for member in members) + "}"


def arrays(values: SearchStrategy[str]) -> SearchStrategy[str]:
    return lists(values, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]")


@given(objects(recursive(sampled_from(TEXTS), lambda values: objects(values) | arrays(values), max_leaves=6)))
def test_no_key_that_occurs_twice_is_overlooked(text: str) -> None:
    repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated |= len({name for name, _ in pairs}) < len(pairs)

    json.loads(text, object_pairs_hook=look)
    assert _may_repeat_keys(text.encode()) or not repeated


def test_ordinary_bodies_are_not_read_twice() -> None:
    assert not _may_repeat_keys(b'{"history": ["k", "i7"], "k": 5, "diversity": 0.5, "categories": ["k"]}')
    assert not _may_repeat_keys(b'{"events": [{"user": "ann", "item": "i1", "time": "2024-05-13T10:00:00Z"}]}')
