"""The bar that a person watches."""

from __future__ import annotations

import pytest
from grouped_data import grouped, quick

from lorentzrec.learning.trainer import train


def test_nothing_is_printed_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    train(grouped(events=300), quick())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("threads", [1, 2])
def test_settings_notes_and_epochs_are_shown(threads: int, capsys: pytest.CaptureFixture[str]) -> None:
    config = quick(validation=0.5, negative_count=1000, threads=threads)
    model = train(grouped(events=300), config, progress=True)
    out, shown = capsys.readouterr()
    assert out == ""
    flat = " ".join(shown.split())
    assert "geometry=hyperboloid, model=asymmetric" in flat
    assert "history=causal" in flat, "what the data decided"
    assert "negative_count is 1000, more than the 60 items" in flat
    assert f"epoch {len(model.record)}/4" in flat
    assert "ndcg@10" in flat
