"""What the paper's recommenders of films and of its shop have in common; `docs/paper.md` says how it was read."""

from __future__ import annotations

from lorentzrec.model.config import TrainingConfig

WMRB = TrainingConfig(
    loss="wmrb",
    score="inner",
    optimiser="rsgd",
    dimension=50,
    learning_rate_decay=0.0,
    negative_count=100,
    scale=1.0,
    clip_norm=1.0,
    initialisation="cube",
    initial_width=0.001,
    targets="shared",
    recency=1.0,
)
