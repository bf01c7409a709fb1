"""The best of the candidates of many customers, by their precise scores."""

from __future__ import annotations

import numpy as np

from lorentzrec.data.arrays import Integers, make_mask
from lorentzrec.data.interactions import Histories
from lorentzrec.geometry import FloatArray
from lorentzrec.points.native import Question, pack
from lorentzrec.points.points import History
from lorentzrec.points.ranking import Ranker


def best_candidates(
    ranker: Ranker,
    queries: FloatArray,
    found: Integers,
    k: int,
    histories: Histories,
    never: Integers | None = None,
    *,
    exclude_seen: bool = True,
) -> tuple[Integers, FloatArray]:
    """(customers, k): the rows of the best items and their scores, best first, ties by row.

    Candidates are the items `found` for a customer, -1 where there are none, and those that memory and repeats boost.
    `histories` has the history of each customer. Items of the history are not recommended if `exclude_seen`;
    items in `never`, and those that the customer dislikes, not at all. Row -1 and score -inf everywhere if fewer than
    `k` of the items `found` for a customer are left.
    """
    scorer, count = ranker.points.scorer, len(ranker.points)
    eligible = None if never is None else pack(~make_mask(never, count))
    rows, scores = np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf)
    points = np.ascontiguousarray(queries, np.float64)
    for number, (query, candidates) in enumerate(zip(points, found, strict=True)):
        history = _history(histories, number)
        asked = Question(k, query, candidates=np.ascontiguousarray(candidates, np.int64), eligible=eligible)
        if len(excluded := history.items if exclude_seen else history.disliked):
            asked = asked._replace(excluded=np.ascontiguousarray(excluded, np.int64))
        answer = scorer.rank(ranker.add_history(asked, history))
        if answer is not None:
            rows[number], scores[number] = answer.rows, answer.scores
    return rows, scores


def _history(histories: Histories, number: int) -> History:
    span = slice(histories.offsets[number], histories.offsets[number + 1])
    columns = histories.weights, histories.times, histories.order_ages
    return History(histories.items[span], *(None if column is None else column[span] for column in columns))
