"""Notes are records: they are rendered in one place, and come back from a manifest with their kinds."""

from __future__ import annotations

import json

import pytest

from lorentzrec.model.notes import _TEXTS, Note, NoteKind

NOTES = (
    Note(NoteKind.OUT_OF_PATIENCE, {"epoch": 9, "metric": "recall@10", "best": 4}),
    Note(NoteKind.SINGLE_EVENT, {"customers": 1200}),
    Note(NoteKind.ONE_THREAD),
    Note.of_text("braces { } are text"),
)


def test_every_kind_has_a_text() -> None:
    assert set(_TEXTS) == set(NoteKind)


def test_rendered() -> None:
    assert [str(note) for note in NOTES] == [
        "stopped after epoch 9: no better recall@10 since epoch 4",
        "1,200 customers have a single event and nothing to predict it from: not used in training",
        "deterministic symmetric BPR runs on one thread",
        "braces { } are text",
    ]


def test_manifests_keep_kinds_and_counts() -> None:
    written = json.loads(json.dumps([note.to_dict() for note in NOTES]))
    assert tuple(map(Note.from_dict, written)) == NOTES


def test_damaged_records_are_errors() -> None:
    with pytest.raises(ValueError, match="no_such_kind"):
        Note.from_dict({"kind": "no_such_kind"})
    with pytest.raises(KeyError):
        Note.from_dict({"kind": "single_event"})
