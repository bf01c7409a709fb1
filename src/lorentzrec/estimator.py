"""The recommender as an estimator, with the methods of implicit and the parameters of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import InputError
from lorentzrec.field_checks import check_names
from lorentzrec.learning.trainer import train
from lorentzrec.model.artifact import load
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.ranking import Recommendations

NO_ITEM = -1
"""Pads the ids of a list that is shorter than the others, as in implicit; ids that are strings are padded with ""."""
NO_SCORE = float(np.finfo(np.float32).min)

Pair = tuple[NDArray[Any], NDArray[np.float32]]


class MidpointRecommender:
    """Train with `fit`, then `recommend` and `similar_items` as arrays.

    recommender = MidpointRecommender(dimension=50).fit(user_items)
    ids, scores = recommender.recommend(userids, user_items[userids], N=10)

    The keyword arguments are the fields of `TrainingConfig`. `fit` takes a SciPy matrix, whose row and column numbers
    are then the ids, or `Interactions`, whose ids come back as they are. After it, `model_` is the trained
    `lorentzrec.Model`.
    """

    __signature__ = Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in TrainingConfig().to_dict().items()]
    )
    model_: Model

    def __init__(self, **settings: Any) -> None:
        check_names(TrainingConfig, settings, "hyper-parameter")
        self._settings = TrainingConfig().to_dict() | settings

    def __repr__(self) -> str:
        defaults = TrainingConfig().to_dict()
        changed = [f"{name}={value!r}" for name, value in self._settings.items() if value != defaults[name]]
        return f"MidpointRecommender({', '.join(changed)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All hyper-parameters by name; `deep` is for scikit-learn and has no effect."""
        return dict(self._settings)

    def set_params(self, **settings: Any) -> Self:
        """Change hyper-parameters for the next `fit`."""
        check_names(TrainingConfig, settings, "hyper-parameter")
        self._settings |= settings
        return self

    def fit(
        self,
        user_items: Any,
        show_progress: bool = True,
        callback: Callable[[int, float, float], None] | None = None,
    ) -> Self:
        """Train on `Interactions`, or on a matrix with customers in rows, items in columns and weights as values.

        `callback` is called after every epoch with its number, counted from 0, its seconds and its loss.
        """
        data = user_items if isinstance(user_items, Interactions) else Interactions.from_csr(user_items)
        self.model_ = train(
            data,
            TrainingConfig(**self._settings),
            progress=None if show_progress else False,
            watch=None if callback is None else lambda epoch: callback(epoch.epoch - 1, epoch.seconds, epoch.loss),
        )
        return self

    def recommend(
        self,
        userid: Any,
        user_items: Any = None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: Any = None,
        recalculate_user: bool = False,
        items: Any = None,
    ) -> Pair:
        """Ids and scores of the best `N` items: one row for a single `userid`, one row each for an array of them.

        user_items: the histories, a matrix with one row per userid; None: those of the training data. A customer is
        the midpoint of this history, so new customers need no `recalculate_user`; it matters for `model="symmetric"`
        alone, where customers otherwise have points of their own.
        filter_already_liked_items: leave out the items of the history.
        filter_items: items never to recommend.
        items: nothing but these is recommended.

        Lists with fewer than `N` items left are padded with -1 ("" for ids that are strings) and the lowest float32.
        """
        if filter_items is not None and items is not None:
            raise InputError("both items and filter_items are given: give one of them")
        model, single = self._trained, np.isscalar(userid)
        users = [userid] if single else list(userid)
        own_points = model.config.model == "symmetric" and not recalculate_user
        queries: dict[str, Any] = {"users": users}
        if user_items is not None and not own_points:
            queries = _histories(user_items, len(users), model)
        found = model.recommend_many(
            **queries,
            k=N,
            exclude=() if filter_items is None else _plain(filter_items),
            exclude_history=filter_already_liked_items,
            items=None if items is None else _plain(items),
        )
        return self._arrays(found, single)

    def similar_items(self, itemid: Any, N: int = 10, filter_items: Any = None, items: Any = None) -> Pair:
        """Ids and scores, minus the distance, of the `N` nearest items; as in implicit, the first is the item."""
        model, single = self._trained, np.isscalar(itemid)
        out = set() if filter_items is None else set(_plain(filter_items))
        allowed = None if items is None and not out else set(model.item_ids if items is None else _plain(items)) - out
        wanted = [itemid] if single else _plain(itemid)
        found = [
            Recommendations([one, *nearest.ids][:N], np.append(np.float32(0), nearest.scores)[:N])
            if allowed is None or one in allowed
            else nearest
            for one, nearest in zip(wanted, model.similar_items_many(wanted, N, among=allowed), strict=True)
        ]
        return self._arrays(found, single)

    def similar_users(self, userid: Any, N: int = 10) -> Pair:
        """Ids and scores, minus the distance, of the `N` nearest customers; the first is the customer."""
        model, single = self._trained, np.isscalar(userid)
        found = [model.similar_users(one, k=N) for one in ([userid] if single else _plain(userid))]
        return self._arrays(found, single)

    def save(self, path: str | Path) -> None:
        """Write the trained model as a folder; see `Model.save`."""
        self._trained.save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A fitted estimator from a saved model."""
        model = load(path)
        estimator = cls(**model.config.to_dict())
        estimator.model_ = model
        return estimator

    @property
    def _trained(self) -> Model:
        if not hasattr(self, "model_"):
            raise InputError("this recommender is not trained: call fit first")
        return self.model_

    def _arrays(self, found: list[Recommendations], single: bool) -> Pair:
        """Ids and scores as arrays, padded to the longest list."""
        width = max((len(one) for one in found), default=0)
        strings = self._trained.items.holds_strings
        padding = "" if found and strings else NO_ITEM
        ids = np.array([[*one.ids, *[padding] * (width - len(one))] for one in found])
        scores = np.full((len(found), width), NO_SCORE, np.float32)
        for row, one in enumerate(found):
            scores[row, : len(one)] = one.scores
        return (ids[0], scores[0]) if single else (ids, scores)


def _plain(ids: Any) -> list[Any]:
    """Ids as Python values, from a list or an array."""
    return list(np.asarray(ids).tolist())


def _histories(user_items: Any, users: int, model: Model) -> dict[str, Any]:
    """The rows of a matrix as histories for `Model.recommend_many`, with their weights."""
    if not hasattr(user_items, "tocsr"):
        raise InputError(f"user_items is a {type(user_items).__name__}: give a SciPy matrix with one row per user")
    matrix = user_items.tocsr()
    if matrix.shape != (users, len(model.items)):
        raise InputError(
            f"user_items has the shape {matrix.shape}: give a row for each of {users} users, and "
            f"{len(model.items)} columns, as in fit"
        )
    ids = model.items.ids(matrix.indices)
    weights = matrix.data.astype(float).tolist()
    spans = list(zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True))
    return {
        "histories": [ids[first:last] for first, last in spans],
        "weights": [weights[first:last] for first, last in spans],
    }
