"""Training on Keras as on the other engines: from interactions and a config to a model."""

from __future__ import annotations

from typing import Unpack

from lorentzrec.data.interactions import Interactions, refuse_other_data
from lorentzrec.keras.midpoint_model import MidpointModel
from lorentzrec.learning.run import VALIDATION_METRIC
from lorentzrec.learning.trainer import RunOptions, finish
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
    arguments but for `attributes` and `start`."""
    refuse_other_data(data, "train")
    run = MidpointModel(config).prepare(data, validation, metric, validate_every)
    # there is nothing to prepare: the back end compiles its graphs in the first epoch
    return finish(run, **options, before_epochs=lambda *_: None)
