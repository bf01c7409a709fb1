"""Recommenders of other libraries with the interface of `Recommender`, to be evaluated by the same code."""

from __future__ import annotations

import os
from pkgutil import resolve_name
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.library_faults import how_to_install
from lorentzrec.base.threads import SINGLE_THREADED_BLAS, available_cores
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.evaluation.baselines import Popularity


class _Factors(Popularity):
    """An implicit model: a customer's score of an item is the inner product of their factors.

    A customer without factors gets popular items, unless the model can compute factors from a history.
    """

    kind: ClassVar[str]
    """The class of implicit, imported when a model is made."""
    defaults: ClassVar[dict[str, float]]
    _folds_in = False

    def __init__(self, train: Interactions, *, seed: int = 0, threads: int | None = None, **settings: float) -> None:
        """`settings` are implicit's own, in place of those in `defaults`."""
        if not has_implicit():
            raise InputError(f"implicit is not installed: {how_to_install('bench')}, or leave its systems out")
        # Read when OpenMP is loaded: otherwise its threads spin after each iteration and occupy the cores.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from scipy.sparse import csr_matrix

        super().__init__(train)
        self.users = train.users
        kind = resolve_name(self.kind)  # before the next line, which limits the BLAS that is loaded by then
        with SINGLE_THREADED_BLAS:
            self.model = kind(**self.defaults | settings, num_threads=threads or available_cores(), random_state=seed)
            self.model.fit(csr_matrix(train.to_csr()), show_progress=False)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        from scipy.sparse import csr_matrix

        rows = self.users.rows(histories.users.ids(user_rows))
        known = rows != UNKNOWN
        scores = super().score_histories(histories, user_rows)
        factors = self.model.user_factors[rows]
        made = ~known & (histories.lengths[user_rows] > 0) & self._folds_in
        if made.any():
            own_items = csr_matrix(histories.to_csr()[user_rows[made]])
            factors[made] = self.model.recalculate_user(user_rows[made], own_items)
        known |= made
        scores[known] = factors[known] @ self.model.item_factors.T
        return scores


class ImplicitALS(_Factors):
    """Alternating least squares on weighted implicit feedback (Hu, Koren and Volinsky, 2008), by implicit."""

    kind = "implicit.cpu.als:AlternatingLeastSquares"
    defaults: ClassVar = {"factors": 64, "regularization": 0.1, "alpha": 10.0, "iterations": 15}
    _folds_in = True


class ImplicitBPR(_Factors):
    """Bayesian personalised ranking by matrix factorisation (Rendle et al., 2009), by implicit."""

    kind = "implicit.cpu.bpr:BayesianPersonalizedRanking"
    defaults: ClassVar = {"factors": 64, "learning_rate": 0.03, "regularization": 0.01, "iterations": 100}


def has_implicit() -> bool:
    """Whether implicit is installed; it is not imported to find out."""
    from importlib.util import find_spec

    return find_spec("implicit") is not None
