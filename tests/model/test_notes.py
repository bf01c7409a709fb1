"""Notes are records: they are rendered in one place, and come back from a manifest with their kinds."""

from __future__ import annotations

import json

import pytest

from lorentzrec.model.notes import _TEXTS, Note, NoteKind, read_notes, write_notes

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
    manifest = json.loads(json.dumps(write_notes(NOTES)))
    assert read_notes(manifest) == NOTES
    del manifest["note_records"]
    assert read_notes(manifest) == tuple(Note.of_text(str(note)) for note in NOTES), "as lorentzrec 0.1 wrote them"


def test_damaged_records_are_errors() -> None:
    with pytest.raises(ValueError, match="no_such_kind"):
        read_notes({"note_records": [{"kind": "no_such_kind"}]})
    with pytest.raises(KeyError):
        read_notes({"note_records": [{"kind": "single_event"}]})
