"""The recommender as an estimator, with the methods of implicit and the parameters of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.field_checks import check_names
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.vocabulary import Id, Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.learning.trainer import train
from lorentzrec.model.artifact import load
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.queries import known_rows, require_users
from lorentzrec.model.recommendations import Recommendations
from lorentzrec.points.points import History, read_history
from lorentzrec.points.reasons import find_shares

NO_ITEM = -1
"""Pads the ids of a list that is shorter than the others, as in implicit; ids that are strings are padded with ""."""
NO_SCORE = float(np.finfo(np.float32).min)

Pair = tuple[NDArray[Any], NDArray[np.float32]]

NAMES_IN_IMPLICIT = {"factors": "dimension", "iterations": "epochs", "num_threads": "threads", "random_state": "seed"}


class MidpointRecommender:
    """Train with `fit`, then `recommend` and `similar_items` as arrays.

    recommender = MidpointRecommender(dimension=50).fit(user_items)
    ids, scores = recommender.recommend(userids, user_items[userids], N=10)

    The keyword arguments are the fields of `TrainingConfig`; implicit's `factors`, `iterations`, `num_threads` and
    `random_state` are accepted as well. `fit` takes a SciPy matrix, whose row and column numbers are then the ids, or
    `Interactions`, whose ids come back as they are. After it, `model_` is the trained `lorentzrec.Model`.
    """

    __signature__ = Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in TrainingConfig().to_dict().items()]
    )
    model_: Model
    _user_factors: tuple[Model, NDArray[np.float32]] | None = None
    """The factors of customers, with the model that they are of."""

    def __init__(self, **settings: Any) -> None:
        self._settings = TrainingConfig().to_dict() | _our_names(settings)

    def __repr__(self) -> str:
        defaults = TrainingConfig().to_dict()
        changed = [f"{name}={value!r}" for name, value in self._settings.items() if value != defaults[name]]
        return f"MidpointRecommender({', '.join(changed)})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All hyper-parameters by name; `deep` is for scikit-learn and has no effect."""
        return dict(self._settings)

    def set_params(self, **settings: Any) -> Self:
        """Change hyper-parameters for the next `fit`."""
        self._settings |= _our_names(settings)
        return self

    def fit(
        self,
        user_items: Any,
        show_progress: bool = True,
        callback: Callable[[int, float, float], None] | None = None,
    ) -> Self:
        """Train on `Interactions`, on a matrix with customers in rows, items in columns and weights as values, or on a
        data frame, which is read by `Interactions.from_frame`.

        `callback` is called after every epoch with its number, counted from 0, its seconds and its loss.
        """
        data = user_items if isinstance(user_items, Interactions) else _read(user_items)
        self.model_ = train(
            data,
            TrainingConfig(**self._settings),
            progress=None if show_progress else False,
            callbacks=[] if callback is None else [lambda epoch: callback(epoch.epoch - 1, epoch.seconds, epoch.loss)],
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
        _refuse_both("items", items, "filter_items", filter_items)
        model, single = self._trained, np.isscalar(userid)
        users = [userid] if single else list(userid)
        own_points = model.config.model == "symmetric" and not recalculate_user
        queries: dict[str, Any] = {"users": users}
        if user_items is not None and not own_points:
            queries = _histories(user_items, len(users), model)
        allowed = None if items is None else _plain(items)
        found = model.recommend_many(
            **queries,
            k=N,
            exclude=() if filter_items is None else _plain(filter_items),
            exclude_seen=filter_already_liked_items,
            allow=allowed,
        )
        return _arrays(found, N if allowed is None else min(N, len(allowed)), model.items, single)

    def rank_items(self, userid: Any, user_items: Any, selected_items: Any, recalculate_user: bool = False) -> Pair:
        """These items, best first: `recommend` with `items`, and with those that the customer has already."""
        return self.recommend(
            userid, user_items, len(selected_items), False, recalculate_user=recalculate_user, items=selected_items
        )

    def explain(
        self, userid: Any, user_items: Any, itemid: Any, user_weights: Any = None, N: int = 10
    ) -> tuple[float, list[tuple[Id, float]], Any]:
        """The score of an item for a customer, and up to `N` items of the history with their shares in it.

        user_items: the matrix of `fit`, or one row with the history of the customer; None: the training data.
        user_weights: has no effect; implicit takes and returns here what it would compute again.

        The shares of all items of the history add up to 1; in implicit, they add up to the score. An item near the
        centre of the catalogue suits most customers, and may have no reason at all.
        """
        model = self._trained
        if model.user_points is not None:
            raise InputError("customers of a symmetric model have points of their own: explain needs model=asymmetric")
        row = known_rows(model.items, [itemid], "item")
        if user_items is None:
            user_row = known_rows(require_users(model), [userid], "user")[0]
            assert model.histories is not None
            history = read_history(model.histories, user_row)
        else:
            history = _history_in(user_items, userid, model)
        if not len(history.items):
            raise InputError(f"the history of user {userid!r} is empty: there is nothing to explain")
        given = None if history.weights is None else [history.weights]
        [found] = model.recommend_many(
            [model.items.ids(history.items)], weights=given, k=1, exclude_seen=False, allow=[itemid]
        )
        if not found.ids:
            item = model.items.id(int(row[0]))
            raise InputError(f"the history has a dislike of item {item!r}, which is not recommended: explain another")
        items, shares, *_ = find_shares(model.ranker, history, row)
        order = [index for index in np.argsort(-shares[0], kind="stable")[:N].tolist() if shares[0, index] > 0]
        parts = [(model.items.id(int(items[index])), float(shares[0, index])) for index in order]
        return float(found.scores[0]), parts, user_weights

    def similar_items(
        self,
        itemid: Any,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: Any = None,
        filter_items: Any = None,
        items: Any = None,
    ) -> Pair:
        """Ids and scores of the `N` most similar items; as in implicit, the first is the item, with the score 1.

        filter_items: items to leave out. items: nothing but these is found.
        """
        if recalculate_item or item_users is not None:
            self.recalculate_item(itemid, item_users)
        _refuse_both("items", items, "filter_items", filter_items)
        model, single = self._trained, np.isscalar(itemid)
        allowed = _allowed(model.items, items, filter_items)
        wanted = [itemid] if single else _plain(itemid)
        found = [
            Recommendations([one, *nearest.ids][:N], np.append(np.float32(1), nearest.scores)[:N])
            if allowed is None or one in allowed
            else nearest
            for one, nearest in zip(wanted, model.similar_items_many(wanted, N, allow=allowed), strict=True)
        ]
        return _arrays(found, N if items is None else min(N, len(items)), model.items, single)

    def similar_users(self, userid: Any, N: int = 10, filter_users: Any = None, users: Any = None) -> Pair:
        """Ids and scores, minus the distance, of the `N` nearest customers; the first is the customer.

        filter_users: customers to leave out. users: nobody but these is found.
        """
        _refuse_both("users", users, "filter_users", filter_users)
        model, single = self._trained, np.isscalar(userid)
        known = require_users(model)
        allowed = _allowed(known, users, filter_users)
        found = [model.similar_users(one, k=N, allow=allowed) for one in ([userid] if single else _plain(userid))]
        return _arrays(found, N if users is None else min(N, len(users)), known, single)

    @property
    def item_factors(self) -> NDArray[np.float32]:
        """A row per item: the plain inner product with a row of `user_factors` is in the order of `recommend` by points
        alone, or nearly in that order if items have masses: see `Model.item_vectors`. What a memory adds to the scores
        is in no factor: set `memory="none"` if another tool ranks."""
        return self._trained.item_vectors

    @property
    def user_factors(self) -> NDArray[np.float32]:
        """A row per customer of the training data, to be multiplied with `item_factors`; 0 for customers without
        events."""
        model = self._trained
        if self._user_factors is not None and self._user_factors[0] is model:
            return self._user_factors[1]
        known = require_users(model)
        informed = np.arange(len(known)) if model.histories is None else np.flatnonzero(model.histories.lengths)
        factors = model.query_vectors(users=known.ids(informed))
        found = np.zeros((len(known), factors.shape[1]), np.float32)
        found[informed] = factors
        found.setflags(write=False)
        self._user_factors = (model, found)
        return found

    def recalculate_user(self, userid: Any, user_items: Any) -> NDArray[np.float32]:
        """The factors of customers with these histories, a row of `user_items` each; for a single `userid`, one row."""
        single = np.isscalar(userid)
        model = self._trained
        factors = model.query_vectors(**_histories(user_items, 1 if single else len(userid), model))
        return factors[0] if single else factors

    def recalculate_item(self, itemid: Any, item_users: Any) -> NoReturn:
        """Not supported: an `InputError` with what to do instead."""
        raise InputError("the points of items are not recalculated: train on new events with lorentzrec.update")

    def partial_fit_users(self, userids: Any, user_items: Any) -> NoReturn:
        """Not supported: an `InputError` with what to do instead."""
        raise InputError("customers are not stored as factors: give their new user_items to recommend, without fitting")

    def partial_fit_items(self, itemids: Any, item_users: Any) -> NoReturn:
        """Not supported: an `InputError` with what to do instead."""
        raise InputError("items are not fitted by themselves: add new ones to `model_` with Model.add_items")

    def save(self, path: str | Path) -> None:
        """Write the trained model as a folder; see `Model.save`."""
        if not isinstance(path, str | Path):
            raise InputError(f"a model is saved as a folder, not to a {type(path).__name__}: give the name of a folder")
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


def _our_names(settings: dict[str, Any]) -> dict[str, Any]:
    """Hyper-parameters with those that have another name in implicit under ours."""
    ours: dict[str, Any] = {}
    for given, value in settings.items():
        name = NAMES_IN_IMPLICIT.get(given, given)
        if name in ours:
            raise ConfigError(f"{name} is given twice, by its own name and by that of implicit: give one of them")
        if given == "random_state" and value is None:  # in implicit, another seed for each run
            raise ConfigError("random_state is None: give a whole number, and other numbers for other runs")
        # In implicit, 0 threads are all cores.
        ours[name] = None if given == "num_threads" and value == 0 else value
    check_names([*TrainingConfig().to_dict(), *NAMES_IN_IMPLICIT], ours, "hyper-parameter")
    return ours


def _refuse_both(one: str, value: Any, other: str, other_value: Any) -> None:
    if value is not None and other_value is not None:
        raise InputError(f"both {one} and {other} are given: give one of them")


def _allowed(known: Vocabulary, only: Any, never: Any) -> set[Id] | None:
    """The ids that may be found; None: all."""
    if never is not None:
        return set(known) - set(_plain(never))
    return None if only is None else set(_plain(only))


def _arrays(found: list[Recommendations], width: int, known: Vocabulary, single: bool) -> Pair:
    """Ids and scores as arrays with `width` columns. Ids that are integers are int32 if they fit, as in implicit."""
    padding = "" if known.holds_strings else NO_ITEM
    ids = np.array([[*one.ids, *[padding] * (width - len(one))] for one in found])
    ids = ids.astype(np.str_ if known.holds_strings else known.integer_type).reshape(len(found), width)
    scores = np.full((len(found), width), NO_SCORE, np.float32)
    for row, one in enumerate(found):
        scores[row, : len(one)] = one.scores
    return (ids[0], scores[0]) if single else (ids, scores)


def _plain(ids: Any) -> list[Any]:
    """Ids as Python values, from a list or an array."""
    return list(np.asarray(ids).tolist())


def _read(user_items: Any) -> Interactions:
    framed = hasattr(user_items, "columns") and not hasattr(user_items, "tocsr")
    return Interactions.from_frame(user_items) if framed else Interactions.from_csr(user_items)


def _make_matrix(user_items: Any, model: Model) -> Any:
    """The matrix in rows, without zeros; a one-dimensional row is a matrix of one."""
    if not hasattr(user_items, "tocsr"):
        raise InputError(f"user_items is a {type(user_items).__name__}: give a SciPy matrix with one row per user")
    matrix = (user_items.reshape((1, -1)) if user_items.ndim == 1 else user_items).tocsr()
    if matrix.shape[1] != len(model.items):
        raise InputError(f"user_items has {matrix.shape[1]} columns: give {len(model.items)} columns, as in fit")
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def _history_in(user_items: Any, userid: Any, model: Model) -> History:
    """The history of a customer: the only row of a matrix, or the row of the customer in the training data."""
    matrix = _make_matrix(user_items, model)
    row = 0 if matrix.shape[0] == 1 else int(known_rows(require_users(model), [userid], "user")[0])
    if row >= matrix.shape[0]:
        raise InputError(f"user_items has {matrix.shape[0]} rows and none for user {userid!r}: give the matrix of fit")
    span = slice(matrix.indptr[row], matrix.indptr[row + 1])
    return History(matrix.indices[span].astype(np.int64), matrix.data[span].astype(np.float64))


def _histories(user_items: Any, users: int, model: Model) -> dict[str, Any]:
    """The rows of a matrix as histories for `Model.recommend_many`, with their weights."""
    matrix = _make_matrix(user_items, model)
    if matrix.shape[0] != users:
        raise InputError(f"user_items has the shape {matrix.shape}: give a row for each of {users} users")
    ids = model.items.ids(matrix.indices)
    weights = matrix.data.astype(float).tolist()
    spans = list(zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True))
    return {
        "histories": [ids[first:last] for first, last in spans],
        "weights": [weights[first:last] for first, last in spans],
    }
