"""One gradient for each distinct point of a block, whatever roles the point plays in it."""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import kernel
from lorentzrec.learning.kernels.structures import HISTORY

_ZERO = np.float32(0)


@kernel
def slot_of(row, side, used, slots):
    """The slot of a row's gradient in this block, set to zero on first use; and the number of slots in use."""
    slot_of_row = slots.histories if side == HISTORY else slots.targets
    slot = slot_of_row[row]
    if slot < 0:
        slot = used
        slot_of_row[row] = slot
        slots.rows[slot] = row
        slots.sides[slot] = side
        for k in range(slots.gradients.shape[1]):
            slots.gradients[slot, k] = _ZERO
        used += 1
    return slot, used
