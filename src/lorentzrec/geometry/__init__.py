"""The formulas, in NumPy; `tests/reference` has those that only the kernels of training compute.

Points are rows: the last axis holds the coordinates, all axes before it are batch and follow NumPy's broadcasting.
Results keep the dtype of what goes in; a pure function never changes its arguments. The base point comes first.
`docs/math.md` derives the formulas. "Paper" is Chamberlain et al., "Scalable Hyperbolic Recommender Systems", 2019.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
