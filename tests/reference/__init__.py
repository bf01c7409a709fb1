"""Slow, obvious forms of what the library computes quickly: float64, one example at a time, formulas as on paper.

`blocks`, `losses`, `optimisers` and `sampling` are the references of the compiled kernels; `sums` and `charts` hold
formulas that only the derivations in docs/math.md need. `hyperboloid`, `midpoint` and `euclidean` are the modules of
`lorentzrec.geometry` with the formulas that only the kernels compute.
"""
