"""Fixtures of the experiments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lorentzrec_paper import data_sets


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are not held against the number of lines that the official ones have."""
    for name, one in data_sets.DATA_SETS.items():
        monkeypatch.setitem(data_sets.DATA_SETS, name, replace(one, events=None))
