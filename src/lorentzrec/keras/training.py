"""Training on Keras as on the other engines: from interactions and a config to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from lorentzrec.data.interactions import Interactions, refuse_other_data
from lorentzrec.keras.midpoint_model import MidpointModel
from lorentzrec.keras.midpoint_model import with_one_block_per_step as with_one_block_per_step
from lorentzrec.learning.run import VALIDATION_METRIC
from lorentzrec.learning.trainer import finish, refuse_other_config
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.record import EpochRecord


def train(
    data: Interactions,
    config: TrainingConfig | None = None,
    *,
    validation: Interactions | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    metric: str = VALIDATION_METRIC,
    validate_every: int = 1,
    watch: Callable[[EpochRecord], None] | None = None,
    callbacks: Sequence[Callable[[EpochRecord], None]] = (),
) -> Model:
    """`lorentzrec.train` on the back end of Keras: the same arguments, blocks, validation, checkpoints and model."""
    refuse_other_data(data, "train")
    refuse_other_config(config)
    run = MidpointModel(config).prepare(data, validation, metric, validate_every)
    called = [*callbacks, *([] if watch is None else [watch])]
    return finish(run, checkpoint, resume, progress, called, prepare=_nothing)


def _nothing(config: ResolvedConfig, announce: Callable[[str], None]) -> None:
    """The back end compiles its graphs in the first epoch."""
