"""Recommender systems in hyperbolic space.

from lorentzrec import Interactions, TrainingConfig, train, evaluate, load
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lorentzrec._version import __version__
from lorentzrec.data.readers import READERS

if TYPE_CHECKING:
    from lorentzrec import datasets as datasets
    from lorentzrec import geometry as geometry
    from lorentzrec.data.attributes import ItemAttributes as ItemAttributes
    from lorentzrec.data.interactions import Interactions as Interactions
    from lorentzrec.data.splitting import register_split as register_split
    from lorentzrec.errors import ArtifactError as ArtifactError
    from lorentzrec.errors import ConfigError as ConfigError
    from lorentzrec.errors import InputError as InputError
    from lorentzrec.errors import LorentzrecError as LorentzrecError
    from lorentzrec.errors import StopTraining as StopTraining
    from lorentzrec.errors import TrainingError as TrainingError
    from lorentzrec.errors import TrainingInterrupted as TrainingInterrupted
    from lorentzrec.estimator import MidpointRecommender as MidpointRecommender
    from lorentzrec.evaluation.protocol import evaluate as evaluate
    from lorentzrec.evaluation.report import Report as Report
    from lorentzrec.learning.own_losses import register_loss as register_loss
    from lorentzrec.learning.trainer import train as train
    from lorentzrec.learning.updating import update as update
    from lorentzrec.model.artifact import load as load
    from lorentzrec.model.config import TrainingConfig as TrainingConfig
    from lorentzrec.model.model import Model as Model
    from lorentzrec.model.recommendations import Recommendations as Recommendations
    from lorentzrec.studies.comparison import register_system as register_system

# Names are imported when first used, so that `import lorentzrec` costs no compiler and no data frame library.
_HOME = {
    "ArtifactError": "errors",
    "ConfigError": "errors",
    "InputError": "errors",
    "Interactions": "data.interactions",
    "ItemAttributes": "data.attributes",
    "LorentzrecError": "errors",
    "MidpointRecommender": "estimator",
    "Model": "model.model",
    "Recommendations": "model.recommendations",
    "Report": "evaluation.report",
    "StopTraining": "errors",
    "TrainingConfig": "model.config",
    "TrainingError": "errors",
    "TrainingInterrupted": "errors",
    "evaluate": "evaluation.protocol",
    "load": "model.artifact",
    "register_loss": "learning.own_losses",
    "register_split": "data.splitting",
    "register_system": "studies.comparison",
    "train": "learning.trainer",
    "update": "learning.updating",
}

READERS |= {
    "from_dataset": "lorentzrec.ingest.dataset:read_dataset",
    "from_file": "lorentzrec.ingest.prepare:read_interactions",
    "from_frame": "lorentzrec.ingest.frame_reading:read_frame",
}

__all__ = ["__version__", *sorted(_HOME)]


_MODULES = ("datasets", "geometry")
"""Public modules, for `import lorentzrec; lorentzrec.datasets.fetch(...)`."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"lorentzrec.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'lorentzrec' has no attribute {name!r}")
    value = getattr(import_module(f"lorentzrec.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
