"""The hyper-parameters: the only place where one is named, typed, defaulted and checked."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from lorentzrec.errors import ConfigError

Geometry = Literal["hyperboloid", "euclidean"]
ModelKind = Literal["asymmetric", "symmetric"]
Loss = Literal["bpr", "wmrb", "softmax"]
Score = Literal["inner", "distance"]
Optimiser = Literal["rsgd", "adagrad", "adam"]
Initialisation = Literal["cube", "ball", "frequency"]
Targets = Literal["shared", "separate"]
History = Literal["causal", "leave_one_out"]
Sampler = Literal["uniform", "popularity"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train. `None` means: decided from the data when training starts, printed, and recorded with the model."""

    geometry: Geometry = "hyperboloid"
    """Space of the points; `euclidean` is the twin that runs through the same code."""
    model: ModelKind = "asymmetric"
    """`asymmetric`: a customer is the midpoint of a history. `symmetric`: every customer has a point of their own."""
    loss: Loss = "wmrb"
    score: Score | None = None
    """`inner`: <u, v>. `distance`: minus the distance."""
    optimiser: Optimiser = "adagrad"
    dimension: int = 50
    epochs: int | None = None
    learning_rate: float | None = None
    learning_rate_decay: float | None = None
    """Epoch e (from 0) runs at learning_rate / (1 + decay * e); a negative value -r falls in a straight line to (1 - r) of the start."""
    negative_count: int | None = None
    """Negatives each positive is compared with; shared by the positives of one block."""
    margin: float = 1.0
    """WMRB's slack epsilon."""
    scale: float | None = None
    """Multiplies the score inside the loss: an inverse temperature."""
    regularisation: float = 0.0
    """Times the squared distance to the origin of every point a step touches."""
    clip_norm: float | None = None
    """Longest tangent gradient; longer ones are shortened and counted. None: no limit."""
    initialisation: Initialisation = "ball"
    initial_width: float | None = None
    """Side of the cube, or radius of the ball."""
    targets: Targets | None = None
    """`separate`: an item has one point as part of a history and another as a recommendation."""
    history: History | None = None
    """`causal`: the items before the target. `leave_one_out`: all the others."""
    recency: float | None = None
    """Weight of a history item per step back from the target; 1 weighs all alike."""
    sampler: Sampler = "uniform"
    validation: float = 0.0
    """Share of customers, or if 1 or more their number, whose last event is held out to choose the best epoch; 0: none."""
    patience: int = 5
    """Epochs without a better validation NDCG@10 before training stops."""
    threads: int | None = None
    seed: int = 0
