"""Hyperbolic layers, losses and optimisers for Keras 3, and the recommender as a `keras.Model`.

The back end is chosen by KERAS_BACKEND before Keras is imported: tensorflow, jax or torch.
"""

from __future__ import annotations

try:
    import keras
except ModuleNotFoundError as error:
    from lorentzrec.errors import ConfigError, how_to_get

    raise ConfigError(
        f"lorentzrec.keras needs {error.name}, which is not installed: {how_to_get('keras')}, and install "
        "tensorflow, jax or torch"
    ) from None

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
]
