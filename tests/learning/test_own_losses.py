"""A registered loss trains as a loss of the package with the same formula, and wrong derivatives are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import TrainingConfig, load, register_loss, train
from lorentzrec.errors import ConfigError
from lorentzrec.learning import own_losses
from lorentzrec.learning.kernels import scores as kernels
from lorentzrec.learning.tables import allocate_workspace, convert_settings
from tests.learning.grouped_data import grouped, quick

DATA = grouped(events=300)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_losses, "_LOSSES", {})


def hinge(scores: Any, derivatives: Any) -> float:
    """sum_k max(0, 1 + s_k - s_+)."""
    loss = 0.0
    for k in range(1, len(scores)):
        gap = 1 + scores[k] - scores[0]
        if gap > 0:
            loss += gap
            derivatives[k] += 1
            derivatives[0] -= 1
    return loss


def softmax(scores: Any, derivatives: Any) -> float:
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    derivatives[:] = shares
    derivatives[0] -= 1
    return float(-np.log(shares[0]))


def bpr(scores: Any, derivatives: Any) -> float:
    loss = 0.0
    count = len(scores) - 1
    for k in range(1, len(scores)):
        gap = scores[k] - scores[0]
        loss += np.log1p(np.exp(gap)) / count
        derivatives[k] = 1 / (1 + np.exp(-gap)) / count
        derivatives[0] -= derivatives[k]
    return loss


@pytest.mark.parametrize(("name", "function"), [("softmax", softmax), ("bpr", bpr)])
@pytest.mark.parametrize("threads", [1, 2])
def test_it_trains_as_the_loss_with_the_same_formula(name: str, function: Callable[..., float], threads: int) -> None:
    register_loss("mine")(function)
    same = {"learning_rate": 0.3, "negative_count": 20, "scale": 5.0, "epochs": 3, "threads": threads}
    ours = train(DATA, quick(loss="own:mine", **same), progress=False)
    theirs = train(DATA, quick(loss=name, **same), progress=False)
    assert [epoch.loss for epoch in ours.record] == pytest.approx([epoch.loss for epoch in theirs.record], rel=1e-4)
    assert ours.record[-1].loss < ours.record[0].loss
    np.testing.assert_allclose(ours.points.item_points, theirs.points.item_points, atol=2e-3)


def test_a_row_by_hand() -> None:
    """Scale 2: the scores are 0.6, 0.2, 1.8 and one that does not count; gaps 1 + 0.2 - 0.6 = 0.6 and 2.2, weight 3."""
    register_loss("hinge")(hinge)
    config = quick(loss="own:hinge", negative_count=3, scale=2.0).resolve_for(DATA)
    workspace = allocate_workspace(config, rows=1, history_count=5, item_count=5, shared=True)
    workspace.positives.scores[0], workspace.positives.weights[0] = 0.3, 3
    row = np.array([[0.1, kernels.MASKED, 0.9]], np.float32)
    settings = convert_settings(config, 1.0)
    value = kernels.losses_of_row(row, 0, 0, 1, workspace.positives, workspace.tile, settings)
    assert value == pytest.approx(3 * (0.6 + 2.2))
    assert row[0].tolist() == [3 * 2, 0, 3 * 2]
    assert workspace.positives.pulls[0] == -3 * 2 * 2


def test_without_a_negative_that_counts_nothing_is_learned() -> None:
    register_loss("hinge")(hinge)
    config = quick(loss="own:hinge", negative_count=1).resolve_for(DATA)
    workspace = allocate_workspace(config, rows=1, history_count=5, item_count=5, shared=True)
    workspace.positives.scores[0], workspace.positives.weights[0] = 0.3, 1
    row = np.array([[kernels.MASKED]], np.float32)
    settings = convert_settings(config, 1.0)
    assert kernels.losses_of_row(row, 0, 0, 1, workspace.positives, workspace.tile, settings) == 0
    assert (row[0, 0], workspace.positives.pulls[0]) == (0, 0)


def test_wrong_derivatives_are_refused() -> None:
    def wrong(scores: Any, derivatives: Any) -> float:
        loss = hinge(scores, derivatives)
        derivatives[0] *= 0.5
        return loss

    with pytest.raises(ConfigError, match=r"loss wrong writes .* by score 0 .* correct derivatives\[0\]"):
        register_loss("wrong")(wrong)
    with pytest.raises(ConfigError, match="the loss infinite is inf at the scores"):
        register_loss("infinite")(lambda scores, derivatives: np.inf)
    with pytest.raises(ConfigError, match="'a b' cannot name a loss"):
        register_loss("a b")(hinge)
    assert own_losses._LOSSES == {}


def test_what_numba_cannot_compile_is_one_line() -> None:
    def sorted_gaps(scores: Any, derivatives: Any) -> float:
        return float(sum({"a": 0.0}[one] for one in "a" for _ in map(str, scores)))

    with pytest.raises(ConfigError, match="numba cannot compile the loss sorted_gaps: "):
        register_loss("sorted_gaps")(sorted_gaps)


def test_a_model_keeps_the_name_and_recommends_without_the_function(tmp_path: Path) -> None:
    register_loss("hinge")(hinge)
    train(DATA, quick(loss="own:hinge", epochs=1), progress=False).save(tmp_path / "model")
    own_losses._LOSSES.clear()
    model = load(tmp_path / "model")
    assert model.config.loss == "own:hinge"
    assert len(model.recommend(history=model.item_ids[:2], k=3)) == 3
    with pytest.raises(ConfigError, match=r"no loss 'hinge' is registered: call register_loss\('hinge'\) first"):
        train(DATA, model.config, progress=False)


def test_only_names_with_the_prefix_are_accepted() -> None:
    with pytest.raises(ConfigError, match="give one of bpr, wmrb, softmax, own:NAME"):
        TrainingConfig(loss="hinge")
    with pytest.raises(ConfigError, match="give one of"):
        TrainingConfig(loss="own:")
