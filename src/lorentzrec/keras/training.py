"""Training on Keras as on the other engines: from interactions and a config to a model."""

from __future__ import annotations

from typing import Unpack

from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.keras.midpoint_model import MidpointModel
from lorentzrec.learning.engine import VALIDATION_METRIC, RunOptions, run_training
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model


def train(
    data: Interactions,
    config: TrainingConfig | None = None,
    *,
    validation: Interactions | None = None,
    metric: str = VALIDATION_METRIC,
    validate_every: int = 1,
    **options: Unpack[RunOptions],
) -> Model:
    """`lorentzrec.train` on the back end of Keras: the same blocks, validation, checkpoints and model, and the same
    arguments except `attributes` and `start`."""
    check_is_interactions(data, "train")
    return run_training(MidpointModel(config).prepare(data, validation, metric, validate_every), **options)
