"""Hyperbolic layers, losses and optimisers for Keras 3, and the recommender as a `keras.Model`.

The back end is chosen by KERAS_BACKEND before Keras is imported: tensorflow, jax or torch.
"""

from __future__ import annotations

from lorentzrec.base.library_faults import how_to_install
from lorentzrec.errors import ConfigError

try:
    import keras
except ModuleNotFoundError as error:
    raise ConfigError(
        f"lorentzrec.keras needs {error.name}, which is not installed: {how_to_install('keras')}, and install the back "
        "end that KERAS_BACKEND names: tensorflow, jax or torch"
    ) from None
except ValueError as error:
    raise ConfigError(f"Keras cannot be imported ({error}): set KERAS_BACKEND to tensorflow, jax or torch") from None
if tuple(map(int, keras.__version__.split(".")[:2])) < (3, 12):
    raise ConfigError(f"lorentzrec.keras needs Keras 3.12 or later, not {keras.__version__}: {how_to_install('keras')}")

from lorentzrec.keras.layers import (
    EinsteinMidpoint,
    HyperboloidEmbedding,
    LorentzDistance,
    MinkowskiRetrieval,
    MinkowskiScore,
)
from lorentzrec.keras.losses import BPR, WMRB, SampledSoftmax
from lorentzrec.keras.midpoint_model import MidpointModel
from lorentzrec.keras.optimisers import RiemannianAdagrad, RiemannianSGD
from lorentzrec.keras.saving import load_model

__all__ = [
    "BPR",
    "WMRB",
    "EinsteinMidpoint",
    "HyperboloidEmbedding",
    "LorentzDistance",
    "MidpointModel",
    "MinkowskiRetrieval",
    "MinkowskiScore",
    "RiemannianAdagrad",
    "RiemannianSGD",
    "SampledSoftmax",
    "load_model",
]
