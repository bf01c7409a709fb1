"""Fixtures for the experiments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lorentzrec_paper import data_sets


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of lines in the official files is not checked."""
    for name, one in data_sets.DATA_SETS.items():
        monkeypatch.setitem(data_sets.DATA_SETS, name, replace(one, events=None))
