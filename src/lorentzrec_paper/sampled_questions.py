"""The questions of the sampled protocol, drawn once and put to many models of one catalogue: what a grid needs.

`evaluate` scores every item and draws the same negatives again for each model, which is no matter for one model. For
a few thousand trainings on the same data, only the candidates' scores are made here, many times faster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.evaluation.held_out import hold_out
from lorentzrec.evaluation.metrics import Ranks
from lorentzrec.evaluation.sampled_ranking import draw_negatives

QUESTIONS_PER_BLOCK = 256
"""Candidates' points of so many questions are gathered at once: a few MB, which stay in the cache."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Each held-out item, and sampled items that its customer never touched: the same as `evaluate` would draw."""

    user_rows: NDArray[np.int64]
    """The customer of each question, as a row of the training part."""
    candidates: NDArray[np.int32]
    """(questions, 1 + negatives): item rows, the held-out one first."""

    @classmethod
    def draw(cls, test: Interactions, histories: Interactions, *, negatives: int = 100, seed: int = 0) -> Questions:
        """`test` and `histories` are parts of one split, and everybody has a history."""
        held_out = hold_out(test, histories, histories.items, histories.item_counts, None, seed)
        owners, item_rows = held_out.positives_of(np.arange(len(held_out.users)))
        candidates = np.empty((len(owners), 1 + negatives), np.int32)
        candidates[:, 0] = item_rows
        for user_row, user in enumerate(held_out.users.ids(np.arange(len(held_out.users)))):
            drawn = draw_negatives(held_out, user_row, user, len(histories.items), negatives, seed)
            if len(drawn) < negatives:
                raise InputError(f"user {user!r} has only {len(drawn)} untouched items: ask for that many negatives")
            candidates[held_out.offsets[user_row] : held_out.offsets[user_row + 1], 1:] = drawn
        return cls(held_out.history_rows[owners], candidates)

    def ranks(self, user_points: NDArray[np.float32], item_points: NDArray[np.float32], *, hyperbolic: bool) -> Ranks:
        """Where the inner product with its customer's point puts each held-out item; a question is an owner by itself.

        A distance on the hyperboloid ranks alike.
        """
        if hyperbolic:
            # <u, v> + u0 = u . v - u0 (v0 - 1): the same order, without the 1 in which near points lose their digits
            squares = np.einsum("ij,ij->i", item_points[:, 1:], item_points[:, 1:])
            item_points = item_points.copy()
            item_points[:, 0] = squares / (1 + np.sqrt(1 + squares))
        count = len(self.user_rows)
        above, tied = np.empty(count, np.int64), np.empty(count, np.int64)
        for start in range(0, count, QUESTIONS_PER_BLOCK):
            block = slice(start, start + QUESTIONS_PER_BLOCK)
            queries = user_points[self.user_rows[block]]
            if hyperbolic:
                queries[:, 0] *= -1
            scores = np.matmul(item_points[self.candidates[block]], queries[:, :, None])[:, :, 0]
            if not np.isfinite(scores).all():
                raise InputError("the points give scores that are not finite: train again with smaller steps")
            above[block] = (scores[:, 1:] > scores[:, :1]).sum(axis=1)
            tied[block] = 1 + (scores[:, 1:] == scores[:, :1]).sum(axis=1)
        return Ranks(np.arange(count), above, tied, np.ones(count, np.int64))
