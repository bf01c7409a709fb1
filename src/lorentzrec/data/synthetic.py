"""Deprecated name of `lorentzrec.synthetic.shop`, to be removed in release 0.3."""

import warnings

from lorentzrec.synthetic.shop import *  # noqa: F403

warnings.warn(
    "lorentzrec.data.synthetic has moved to lorentzrec.synthetic.shop: removed in 0.3", DeprecationWarning, stacklevel=2
)
