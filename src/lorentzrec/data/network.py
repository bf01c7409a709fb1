"""Deprecated name of `lorentzrec.networks.statistics`, to be removed in release 0.3."""

import warnings

from lorentzrec.networks.statistics import *  # noqa: F403

warnings.warn(
    "lorentzrec.data.network has moved to lorentzrec.networks.statistics: removed in 0.3",
    DeprecationWarning,
    stacklevel=2,
)
