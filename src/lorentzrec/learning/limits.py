"""The numbers at which training steps in, each counted in the epoch's record when it does."""

MAXIMUM_STEP = 1.0
"""Longest step a point makes at once, in units of the space's own length; longer ones are shortened."""

MAXIMUM_RADIUS = 8.0
"""Farthest from the origin a point of the hyperboloid goes: beyond it, float32 no longer tells a point's neighbours
from the point."""

NEAR = 1e-3
"""Where -<u, v> - 1 is below this, the inner product has lost the digits that tell the distance: it is recomputed
from the difference."""

COINCIDENT_DISTANCE = 1e-5
"""Below this distance two points are taken as one: there is no direction from one to the other."""

ADAM_DECAY = 0.9
ADAM_SQUARED_DECAY = 0.999
ADAM_EPSILON = 1e-8
