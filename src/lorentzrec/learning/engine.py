"""What other engines use of training. `keras` and `spark` import nothing else of this package.

An engine makes a `TrainingRun` with a `Runner` of its own, which runs its epochs, and passes it to `run_training`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError
from lorentzrec.learning.epochs import EpochCut, cut_epoch, epoch_key, find_learners
from lorentzrec.learning.epochs import EpochResult as EpochResult
from lorentzrec.learning.epochs import EpochRunner as EpochRunner
from lorentzrec.learning.epochs import Runner as Runner
from lorentzrec.learning.kernels.blocks import draw_negatives
from lorentzrec.learning.kernels.compiling import cache_folder
from lorentzrec.learning.kernels.numbers import FOLDS, NEGATIVES, key_for, permuted
from lorentzrec.learning.kernels.structures import COINCIDENT_DISTANCE as COINCIDENT_DISTANCE
from lorentzrec.learning.kernels.structures import MAXIMUM_RADIUS as MAXIMUM_RADIUS
from lorentzrec.learning.kernels.structures import MAXIMUM_STEP as MAXIMUM_STEP
from lorentzrec.learning.kernels.structures import Table as Table
from lorentzrec.learning.run import VALIDATION_METRIC as VALIDATION_METRIC
from lorentzrec.learning.run import TrainingRun as TrainingRun
from lorentzrec.learning.tables import make_table as make_table
from lorentzrec.learning.trainer import RunOptions as RunOptions
from lorentzrec.learning.trainer import check_is_config as check_is_config
from lorentzrec.learning.trainer import run_training as run_training
from lorentzrec.model.config import ResolvedConfig, TrainingConfig


def check_supported(engine: str, config: TrainingConfig, unsupported: Mapping[str, object]) -> None:
    """Raise an error that names the settings of `config` which the engine does not support."""
    found = [f"{name}={value}" for name, value in unsupported.items() if getattr(config, name) == value]
    if found:
        raise ConfigError(
            f"the {engine} engine does not support {', '.join(found)}: leave it out, or use the local engine"
        )


def identify_kernels() -> str:
    """A text that differs if the compiled kernels do."""
    return cache_folder().name


class EpochBlocks:
    """The blocks of the epochs of an asymmetric model. Customers, folds and negatives are those of the local engine."""

    def __init__(self, data: Interactions, config: ResolvedConfig) -> None:
        self._data, self._config = data, config
        self._targets, self._learners, self.positives = find_learners(data, config)

    def cut(self, epoch: int) -> EpochCut:
        """Divide the customers of an epoch into blocks; the first epoch is 1."""
        return cut_epoch(self._learners, self._targets, self._data.lengths, self._config, epoch)

    def draw_negatives(self, epoch: int, first_customer: int) -> NDArray[np.int32]:
        """The item rows of the negatives of the block that begins with this customer."""
        count = len(self._data.items)
        negatives = np.zeros(min(self._config.negative_count, count), np.int32)
        bits = np.zeros(count // 32 + 1, np.uint32)
        key = np.uint64(key_for(epoch_key(self._config.seed, epoch), NEGATIVES, first_customer))
        draw_negatives(negatives, bits, count, key)
        return negatives

    def assign_folds(self, epoch: int, customer: int) -> NDArray[np.int64]:
        """The fold of each event of a customer."""
        length = int(self._data.lengths[customer])
        count = min(length, self._config.folds)
        key = np.uint64(key_for(epoch_key(self._config.seed, epoch), FOLDS, customer))
        folds = np.empty(length, np.int64)
        for fold in range(count):
            for card in range(fold * length // count, (fold + 1) * length // count):
                folds[permuted(card, length, key)] = fold
        return folds
