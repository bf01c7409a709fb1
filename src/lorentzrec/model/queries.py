"""From ids to queries: histories and users as rows and points, and the checks of what a model is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import make_offsets
from lorentzrec.data.times import convert_to_seconds
from lorentzrec.data.vocabulary import UNKNOWN, Id, Vocabulary
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.model.recommendations import Recommendations
from lorentzrec.points.dislikes import settle
from lorentzrec.points.fallbacks import Cause
from lorentzrec.points.points import History, count_order_ages, read_history
from lorentzrec.points.recommending import RowQuery
from lorentzrec.points.scoring import NO_ROWS, Scorer

if TYPE_CHECKING:
    from lorentzrec.model.model import Model


def queries_of_users(
    model: Model, users: list[Id], exclude_seen: bool, context: Iterable[Iterable[Id]] | None
) -> Iterator[RowQuery]:
    """A query for each of some users of the training data.

    With a context, also a user with a point of their own is the midpoint of history and context.
    """
    known = require_users(model)
    if model.histories is None and (exclude_seen or context is not None):
        raise InputError(
            "this model has no training histories and does not know what a user has seen: "
            "pass exclude_seen=False and no context, or save the model with histories=True"
        )
    contexts = _contexts(model.items, context, len(users))
    for row, now in zip(known_rows(known, users, "user"), contexts, strict=False):
        history = History(NO_ROWS) if model.histories is None else read_history(model.histories, row)
        trained = model.histories is None or len(history.items) > 0
        if len(now):
            yield RowQuery(*_append(history, now))
        elif model.user_points is not None and trained:
            yield RowQuery(*history, point=model.points.space.precise(model.user_points[row]))
        else:
            yield RowQuery(*history, empty=Cause.UNTRAINED_USER)


def queries_of_histories(
    model: Model,
    histories: Iterable[Iterable[Id]],
    weights: Iterable[Iterable[float]] | None,
    context: Iterable[Iterable[Id]] | None,
    times: Iterable[Iterable[Any]] | None = None,
) -> Iterator[RowQuery]:
    """A query for each history, with the weights and times of its events and a context if given."""
    given = plain_list(histories, "histories")
    event_weights = _one_each(weights, "weights", len(given))
    event_times = _one_each(times, "times", len(given))
    contexts = _contexts(model.items, context, len(given))
    for history, weights_of_history, times_of_history, now in zip(
        given, event_weights, event_times, contexts, strict=False
    ):
        rows = require_rows(model.items, history, "history")
        checked = None if weights_of_history is None else _checked_weights(weights_of_history, rows)
        seconds = None if times_of_history is None else _checked_times(times_of_history, rows)
        ages = None if seconds is None else count_order_ages(seconds)
        yield RowQuery(*_append(History(rows, checked, seconds, ages), now))


def require_users(model: Model) -> Vocabulary:
    """The customers of the training data; an `InputError` if the model knows neither their histories nor points."""
    if model.users is None or (model.histories is None and model.user_points is None):
        raise InputError(
            "this model has no training histories and supports histories only: give a history, "
            "or save the model with histories=True"
        )
    return model.users


def query_points_of_users(model: Model, users: list[Id]) -> FloatArray:
    """The points of some users of the training data: their own, or the midpoints of their histories."""
    rows = known_rows(require_users(model), users, "user")
    if model.histories is not None and len(idle := np.flatnonzero(model.histories.lengths[rows] == 0)):
        raise InputError(f"the user {users[idle[0]]!r} has no event in the training data: leave them out")
    if model.user_points is not None:
        return model.points.space.precise(model.user_points[rows])
    assert model.histories is not None
    return model.points.queries(*model.histories.histories_of(rows).for_queries)


def query_points_of_histories(
    model: Model, histories: Iterable[Iterable[Id]], weights: Iterable[Iterable[float]] | None
) -> FloatArray:
    """The midpoints of histories."""
    points: list[FloatArray] = []
    for query in queries_of_histories(model, histories, weights, None):
        history = History(query.history, query.weights, query.times, query.order_ages)
        known = settle(history.where(query.history != UNKNOWN))
        if not len(known.liked.items):
            raise InputError(f"history {len(points) + 1} has nothing liked that this model knows: leave it out")
        points.append(model.points.query(*known.for_query))
    return np.array(points).reshape(-1, model.item_points.shape[1])


def _one_each(values: Iterable[Any] | None, name: str, count: int) -> list[Any]:
    """Something for each of `count` histories; None for each if nothing is given."""
    if values is None:
        return [None] * count
    given = plain_list(values, name)
    if len(given) != count:
        raise InputError(f"there are {count} histories and {name} of {len(given)}: give one for each")
    return given


def _contexts(items: Vocabulary, context: Iterable[Iterable[Id]] | None, count: int) -> Iterator[NDArray[np.int64]]:
    """The rows of the context of each query; without any, empty ones."""
    if context is None:
        return repeat(NO_ROWS)
    given = plain_list(context, "context")
    if len(given) != count:
        raise InputError(f"there are {count} queries and the context of {len(given)}: give one for each")
    return (require_rows(items, one, "context") for one in given)


def _append(history: History, now: NDArray[np.int64]) -> History:
    """The history followed by the items of the context, with weight 1; they were not bought, so they have no time."""
    if not len(now):
        return history
    weights = None if history.weights is None else np.concatenate([history.weights, np.ones(len(now))])
    times = np.zeros(len(history.items)) if history.times is None else history.times
    ages = history.order_ages
    if ages is not None:
        ages = np.concatenate([ages + 1, np.zeros(len(now), np.int64)])
    unbought = np.full(len(now), np.nan)
    return History(np.concatenate([history.items, now]), weights, np.concatenate([times, unbought]), ages)


def join_orders(orders: Iterable[Iterable[Id]]) -> tuple[list[Id], list[int]]:
    """The items of orders one after another, and the number of the order of each."""
    listed = [plain_list(order, "order") for order in plain_list(orders, "orders")]
    return [item for order in listed for item in order], [index for index, order in enumerate(listed) for _ in order]


def check_count(k: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InputError(f"k is {k!r}: give a whole number of items, 1 or more")


def plain_list(values: Iterable[Any], name: str) -> list[Any]:
    """A list, unless `values` is a single id, which would fall apart into letters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        customer = f", or give user={values!r} for a customer" if name == "history" else ""
        raise InputError(f"{name} is {values!r}, not a list: put it in brackets{customer}")
    return list(values)


def require_rows(vocabulary: Vocabulary, ids: Iterable[Id], name: str) -> NDArray[np.int64]:
    """The rows of ids, `UNKNOWN` where the model does not hold one."""
    plain = plain_list(ids, name)
    try:
        return vocabulary.rows(plain)
    except TypeError:
        raise InputError(f"{name} contains something that is not an id: give a list of strings or integers") from None


def known_rows(vocabulary: Vocabulary, ids: Iterable[Id], name: str) -> NDArray[np.int64]:
    """The rows of ids that must all be known."""
    plain = plain_list(ids, name)
    rows = require_rows(vocabulary, plain, name)
    if len(rows) and rows.min() == UNKNOWN:
        stranger, kind = plain[int(rows.argmin())], "strings" if vocabulary.holds_strings else "integers"
        raise InputError(f"the {name} {stranger!r} is not known to this model (ids here are {kind}): check the id")
    return rows


def _checked_weights(weights: Iterable[float], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    try:
        checked = np.array(plain_list(weights, "weights"), np.float64)
    except (TypeError, ValueError):
        checked = np.full(1, np.nan)
    limits, sizes = np.finfo(np.float32), np.abs(checked)
    if checked.shape != rows.shape or not ((sizes >= limits.tiny) & (sizes <= limits.max)).all():
        raise InputError(
            f"weights are not {len(rows)} numbers other than 0 that float32 can hold: give one for each event of the "
            "history, a negative one for a dislike"
        )
    return checked


def _checked_times(times: Iterable[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unix seconds of each event."""
    import polars as pl

    given = plain_list(times, "times")
    if len(given) != len(rows):
        raise InputError(f"there are {len(given)} times of {len(rows)} events: give one for each event of the history")
    try:
        series = pl.Series(given, strict=True)
    except (TypeError, pl.exceptions.PolarsError):
        series = pl.Series([None])
    if series.has_nulls():
        raise InputError("the times of a history are not times: give unix seconds or datetimes")
    seconds = convert_to_seconds(series).to_numpy().astype(np.float64) if len(series) else np.empty(0)
    if (np.diff(seconds) < 0).any():
        raise InputError("the times of a history fall: give its events oldest first")
    return seconds


def find_query_points(
    model: Model,
    users: Iterable[Id] | None,
    histories: Iterable[Iterable[Id]] | None,
    weights: Iterable[Iterable[float]] | None,
) -> FloatArray:
    """The points of users, or of histories with weights if there are any."""
    if users is not None and histories is None and weights is None:
        return query_points_of_users(model, plain_list(users, "users"))
    if users is None and histories is not None:
        return query_points_of_histories(model, histories, weights)
    raise InputError("give either histories, with weights if you like, or users")


def collect_customers(model: Model) -> tuple[NDArray[np.int64], Scorer]:
    """The rows of the customers that have a point, and what ranks these points."""
    if model.user_points is not None:
        owners, points = np.arange(len(model.user_points)), model.user_points
        if model.histories is not None:
            owners = np.flatnonzero(model.histories.lengths)
            points = points[owners]
    else:
        assert model.histories is not None
        owners = np.flatnonzero(model.histories.lengths)
        offsets = make_offsets(model.histories.lengths[owners])
        events = model.histories.item_rows, offsets, model.histories.weights, model.histories.order_ages
        points = model.points.queries(*events).astype(np.float32)
    return owners, Scorer(points, model.points.space).nearest


def find_similar_users(
    model: Model, owners: NDArray[np.int64], scorer: Scorer, user: Id, k: int, allow: Iterable[Id] | None
) -> Recommendations:
    """The customers nearest to `user`; `owners` and `scorer` are those of `collect_customers`."""
    point = query_points_of_users(model, [user])[0]
    assert model.users is not None
    allowed = None
    if allow is not None:
        wanted = np.unique(known_rows(model.users, allow, "user"))
        allowed = np.flatnonzero(np.isin(owners, wanted))
    rows, scores = scorer.top(point, k, allowed=allowed)
    return Recommendations(model.users.ids(owners[rows]), scores)


def tabulate_items(model: Model) -> dict[str, Any]:
    """What `Model.to_parquet` and `lorentzrec export` write of items, by column."""
    columns = {"id": model.items.series, "count": model.item_counts, "point": model.item_points}
    if model.history_points is not model.item_points:
        columns["history_point"] = model.history_points
    if model.masses is not None:
        columns["mass"] = model.masses
    return columns | {"vector": model.item_vectors}
