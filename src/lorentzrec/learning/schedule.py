"""The learning rate of each epoch."""

from __future__ import annotations

from lorentzrec.model.config import ResolvedConfig


def learning_rate(config: ResolvedConfig, epoch: int) -> float:
    """The rate of an epoch; the first is 1."""
    rate = config.learning_rate * min(1.0, epoch / (config.warmup_epochs + 1))
    if config.schedule == "inverse":
        return rate / (1 + config.learning_rate_decay * (epoch - 1))
    return rate * (1 - config.learning_rate_decay * (epoch - 1) / config.epochs)
