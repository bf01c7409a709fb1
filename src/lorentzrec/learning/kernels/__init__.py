"""The compiled inner loops of training. Each has a slow, obvious reference in `tests/reference/`.

Layout: a table holds one row per point, `width` floats of it: the time coordinate, then the space coordinates, then
zeros up to a multiple of eight. The Euclidean twin runs through the same lines: its time coordinate is always zero,
so that every Minkowski product is the plain one, and `curved` switches off projection, exponential map and lift.

Kernels release the GIL: the trainer runs them in Python threads, each with a `Workspace` of its own. They do not count
references (see `compiling`), so they cannot allocate.

In blocks, no two threads write to the same row. Triplets share rows without locks; a row torn by a concurrent writer is
a point again after its next step, and no root is taken of a number that a torn row can make negative.
"""
