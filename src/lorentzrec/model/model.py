"""A trained recommender: points, ids, and the recommendations they make."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.atomic import atomic_file
from lorentzrec.base.counting import Count
from lorentzrec.base.html import html_table
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.category_tree import CategoryTree
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.data.vocabulary import UNKNOWN, Id, Vocabulary
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.model.config import ResolvedConfig
from lorentzrec.model.item_table import (
    columns_of_attributes,
    read_item_columns,
    require_categories,
    rows_of_categories,
    rows_that_meet,
)
from lorentzrec.model.notes import Note
from lorentzrec.model.queries import (
    check_count,
    collect_customers,
    find_query_points,
    find_similar_users,
    join_orders,
    known_rows,
    plain_list,
    queries_of_histories,
    queries_of_users,
    require_rows,
    tabulate_items,
)
from lorentzrec.model.reality_check import RealityCheck
from lorentzrec.model.recommendations import RecommendationBatch, Recommendations
from lorentzrec.model.record import EpochRecord
from lorentzrec.points.alternatives import Alternatives, find_alternatives
from lorentzrec.points.attribute_points import AttributePoints
from lorentzrec.points.complements import Complements
from lorentzrec.points.diversity import check_diversity
from lorentzrec.points.fallbacks import Cause, Fallback, unknown_fallbacks
from lorentzrec.points.memory import Memory
from lorentzrec.points.outfits import OutfitOptions, Outfits, complete_rows
from lorentzrec.points.points import Points, read_only
from lorentzrec.points.ranking import Ranker, Variant
from lorentzrec.points.reasons import Reason
from lorentzrec.points.recommending import RowOptions, RowQuery, RowResult, recommend_rows
from lorentzrec.points.repeats import Repeats
from lorentzrec.points.scoring import Scorer
from lorentzrec.points.similar import SimilarItems, find_similar
from lorentzrec.points.similarity import Similarity
from lorentzrec.points.trend import Trend
from lorentzrec.points.vectors import item_vectors, query_vectors

QUERIES_PER_BLOCK = 4096
"""Queries that `recommend_many` holds as points at one time."""


@dataclass(frozen=True, eq=False)
class Model:
    """Points of items (and of customers, if `config.model` is symmetric), and the recommendations they make. Immutable.

    Query it with a `history`, any list of item ids, oldest first, of a customer who need not be in the training data;
    or with the id of a `user` who is.
    """

    config: ResolvedConfig
    items: Vocabulary
    points: Points
    """The points of the items, in the rows of `items`."""
    users: Vocabulary | None = None
    user_points: NDArray[np.float32] | None = None
    """One row per customer of a symmetric model."""
    histories: Interactions | None = None
    """The training histories, in the rows of `users` and `items`; None if the model was saved without them."""
    oldest_time: float | None = None
    newest_time: float | None = None
    """Unix seconds of the oldest and of the newest training event; None if the events have no times."""
    parent: str | None = None
    """The fingerprint of the model that this one continues: by `update`, `train(start=...)` or `add_items`."""
    optimiser_state: Mapping[str, NDArray[Any]] | None = None
    """Sums of squared gradients per row, and Adam's counts of steps, for training that starts from this model."""
    record: tuple[EpochRecord, ...] = ()
    data_digest: str = ""
    """The digest of the interactions it was trained on."""
    metrics: dict[str, float] = field(default_factory=dict)
    note_records: tuple[Note, ...] = ()
    check: RealityCheck | None = None
    """The model next to popularity, own frequency and item-kNN, on events that were held out; None if none were."""
    ranker: Ranker = field(init=False, repr=False)
    """Ranks the items for histories and other queries."""

    def __post_init__(self) -> None:
        config = self.config
        if not isinstance(config, ResolvedConfig):
            raise ConfigError("the config of a model is not resolved: give config.resolve_for(data)")
        if (config.model == "symmetric") != (self.user_points is not None):
            raise InputError(
                "a symmetric model needs user points, and only a symmetric one has them: give both or none"
            )
        if self.histories is not None and (self.histories.users != self.users or self.histories.items != self.items):
            raise InputError(
                "the histories of a model have other users or items than the model: give its training data"
            )
        if len(self.points) != len(self.items) or self.points.dimension != config.dimension:
            raise InputError(
                f"the points of a model are {self.points.item_points.shape}: "
                f"give one of dimension {config.dimension} for each of its {len(self.items)} items"
            )
        if self.points.space != config.space:
            raise InputError(f"the points of a model are in {self.points.space}: give points in {config.space}")
        if self.user_points is not None:
            shape = (0 if self.users is None else len(self.users), self.item_points.shape[1])
            object.__setattr__(self, "user_points", read_only("user_points", self.user_points, np.float32, shape))
        rows = {
            "items": len(self.items),
            "items_mass": len(self.items),
            "histories": len(self.items if self.user_points is None else self.user_points),
        }
        if self.attributes is not None:
            rows |= dict.fromkeys(("items_attributes", "histories_attributes"), len(self.attributes.values))
        for name, values in (self.optimiser_state or {}).items():
            if values.shape != (rows.get(name.rpartition("_")[0], -1),):
                raise InputError(f"the optimiser state {name} of a model is {values.shape}: give a number per row")
        object.__setattr__(self, "ranker", Ranker(self.points))

    @property
    def item_points(self) -> NDArray[np.float32]:
        """See `Points.item_points`."""
        return self.points.item_points

    @property
    def history_points(self) -> NDArray[np.float32]:
        """See `Points.history_points`."""
        return self.points.history_points

    @property
    def item_counts(self) -> NDArray[np.int64]:
        """See `Points.item_counts`."""
        return self.points.item_counts

    @property
    def memory(self) -> Memory | None:
        """See `Points.memory`."""
        return self.points.memory

    @property
    def repeats(self) -> Repeats | None:
        """See `Points.repeats`."""
        return self.points.repeats

    @property
    def trend(self) -> Trend | None:
        """See `Points.trend`."""
        return self.points.trend

    @property
    def masses(self) -> NDArray[np.float32] | None:
        """See `Points.masses`."""
        return self.points.masses

    @property
    def similarity(self) -> Similarity | None:
        """See `Points.similarity`."""
        return self.points.similarity

    @property
    def complements(self) -> Complements | None:
        """See `Points.complements`."""
        return self.points.complements

    @property
    def attributes(self) -> AttributePoints | None:
        """See `Points.attributes`."""
        return self.points.attributes

    @cached_property
    def item_attributes(self) -> ItemAttributes | None:
        """Which items have which attributes; None if the model was trained without any."""
        return None if self.attributes is None else self.attributes.name_items(self.items)

    def with_points(self, **changes: Any) -> Model:
        """The same with some fields of its `points` changed, such as `memory=None`."""
        return replace(self, points=replace(self.points, **changes))

    def __repr__(self) -> str:
        config, items = self.config, f"{Count(len(self.items)):item|items}"
        users = f", {Count(len(self.users)):user|users}" if self.users is not None else ""
        return f"Model({config.geometry} {config.model} d={config.dimension}, {items}{users})"

    def _repr_html_(self) -> str:
        """Size and settings as a table, in notebooks."""
        settings = {name: value for name, value in self.config.to_dict().items() if value is not None}
        return html_table(repr(self), ("setting", "value"), settings.items(), self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about its training; `note_records` has the same with kinds and counts."""
        return tuple(map(str, self.note_records))

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify the points and the training data of this model."""
        digest = hashlib.blake2b(self.data_digest.encode(), digest_size=16)
        digest.update(np.ascontiguousarray(self.item_points).data)
        if self.masses is not None:
            digest.update(np.ascontiguousarray(self.masses).data)
        return digest.hexdigest()

    @property
    def item_ids(self) -> list[Id]:
        """The item ids in the order of the rows of `item_points`."""
        return self.items.series.to_list()

    def recommend(
        self,
        history: Iterable[Id] | None = None,
        user: Id | None = None,
        *,
        k: int = 10,
        exclude: Iterable[Id] = (),
        exclude_seen: bool | None = None,
        allow: Iterable[Id] | None = None,
        weights: Iterable[float] | None = None,
        times: Iterable[Any] | None = None,
        context: Iterable[Id] = (),
        categories: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
        item_table: Any = None,
        diversity: float = 0.0,
        reasons: bool = False,
    ) -> Recommendations:
        """The best `k` items for a `history` (item ids, oldest first) or for a `user` known from training.

        exclude: items never to recommend; ids the model does not know do no harm here.
        exclude_seen: do not recommend items of the history, or of the user's history in training. None: leave them out,
        unless the model has `repeats`, because customers buy again.
        allow: an allow-list; nothing else is recommended.
        weights: a number for each event of `history`, as in training; a negative one is a dislike. It pushes the list
        away from its item, which is not recommended either, unless a later event with the item has a positive weight.
        times: when each event of `history` was, as unix seconds or datetimes. Equal times form an order in a model of
        orders. With `repeats`, older events count less.
        context: items viewed just now; they count as the newest of the history, with weight 1.
        categories: only items of these categories.
        where: only items whose columns meet all of these conditions: a value, a list of values, or a range, such as
        `{"brand": ["Acme", "Bolt"], "price": {"max": 50}}`.
        item_table: what categories and conditions are about: a frame with the column item (or id) and others, or what
        `item_columns` returned. None: the attributes that the model was trained with.
        diversity: 0 for the best items, up to 1 for items far from one another; no effect on popular items.
        reasons: also return the items of the history that contribute most to each item. There are none for popular
        items, and for a user with a point of their own.

        Fewer than `k` come back where fewer are left. Why they are not simply the best items is in `fallback`.
        """
        return self.recommend_many(
            None if history is None else [history],
            None if user is None else [user],
            k=k,
            exclude=exclude,
            exclude_seen=exclude_seen,
            allow=allow,
            weights=None if weights is None else [weights],
            times=None if times is None else [times],
            context=None if not (now := plain_list(context, "context")) else [now],
            categories=categories,
            where=where,
            item_table=item_table,
            diversity=diversity,
            reasons=reasons,
        )[0]

    def recommend_orders(self, orders: Iterable[Iterable[Id]], k: int = 10, **options: Any) -> Recommendations:
        """The best `k` items for a history of orders, oldest first; `options` are those of `recommend`."""
        history, numbers = join_orders(orders)
        return self.recommend(history, k=k, times=numbers, **options)

    def recommend_many(
        self,
        histories: Iterable[Iterable[Id]] | None = None,
        users: Iterable[Id] | None = None,
        *,
        k: int = 10,
        exclude: Iterable[Id] = (),
        exclude_seen: bool | None = None,
        allow: Iterable[Id] | None = None,
        weights: Iterable[Iterable[float]] | None = None,
        times: Iterable[Iterable[Any]] | None = None,
        context: Iterable[Iterable[Id]] | None = None,
        categories: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
        item_table: Any = None,
        diversity: float = 0.0,
        reasons: bool = False,
        threads: int | None = None,
    ) -> RecommendationBatch:
        """`recommend` for each of many histories or users: the same results, on all cores and in bounded memory.

        `weights`, `times` and `context` have a list for each history or user. The result is a list that also has
        `to_frame()`.
        """
        check_count(k)
        check_diversity(diversity)
        users = None if users is None else plain_list(users, "users")
        if users is None and histories is not None:
            queries = queries_of_histories(self, histories, weights, context, times)
        elif users is not None and histories is None and weights is None and times is None:
            queries = queries_of_users(self, users, exclude_seen is not False, context)
        else:
            raise InputError("give either a history, with weights and times if you like, or a user")
        never = require_rows(self.items, exclude, "exclude")
        allowed, fallbacks = self._allowed(allow, categories, where, item_table)
        options = RowOptions(
            k=k,
            excluded=never[never != UNKNOWN],
            exclude_seen=exclude_seen,
            allowed=allowed,
            diversity=diversity,
            reasons=reasons,
            fallbacks=fallbacks,
            with_user_points=self.user_points is not None,
            id_type="strings" if self.items.holds_strings else "integers",
        )
        return self._name(self._recommend(queries, options, threads), users)

    def score(
        self, items: Iterable[Id], history: Iterable[Id] | None = None, user: Id | None = None
    ) -> dict[Id, float]:
        """The score of each of these items for a `history` or a `user`, by item id; unknown items are left out."""
        wanted = plain_list(items, "items")
        return dict(self.recommend(history, user, k=max(len(wanted), 1), exclude_seen=False, allow=wanted))

    def similar_items(
        self,
        item: Id,
        k: int = 10,
        *,
        exclude: Iterable[Id] = (),
        allow: Iterable[Id] | None = None,
        categories: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
        item_table: Any = None,
        reasons: bool = False,
    ) -> Recommendations:
        """The `k` items most similar to `item`, never itself. A score is at most 1.

        Items are similar if the same customers buy them, more so together, and if their points are in the same
        direction. Popular items have no advantage.
        reasons: also return whether the same customers buy them, or whether only their points are near. The other
        options are those of `recommend`.
        """
        return self.similar_items_many(
            [item],
            k,
            exclude=exclude,
            allow=allow,
            categories=categories,
            where=where,
            item_table=item_table,
            reasons=reasons,
        )[0]

    def similar_items_many(
        self,
        items: Iterable[Id],
        k: int = 10,
        *,
        exclude: Iterable[Id] = (),
        allow: Iterable[Id] | None = None,
        categories: Iterable[str] = (),
        where: Mapping[str, Any] | None = None,
        item_table: Any = None,
        reasons: bool = False,
    ) -> RecommendationBatch:
        """`similar_items` for each of many items; in `to_frame()`, the column query has the item."""
        wanted = plain_list(items, "items")
        rows = known_rows(self.items, wanted, "item")
        options = self._item_options(k, exclude, reasons, *self._allowed(allow, categories, where, item_table))
        return self._name(find_similar(self._similar, rows.tolist(), options), queries=wanted)

    def alternatives(
        self,
        item: Id,
        k: int = 10,
        *,
        exclude: Iterable[Id] = (),
        allow: Iterable[Id] | None = None,
        where: Mapping[str, Any] | None = None,
        item_table: Any = None,
        reasons: bool = False,
    ) -> Recommendations:
        """The `k` best items to buy instead of `item`, such as one that is sold out: all of its category.

        If there are fewer, items of the parent category follow, and `fallback` says so. A parent is what the column
        parent, parent_category or department of the table says, or the path before the last > in the category.
        allow: an allow-list, such as the items in stock. The other options are those of `recommend`.
        """
        return self.alternatives_many(
            [item], k, exclude=exclude, allow=allow, where=where, item_table=item_table, reasons=reasons
        )[0]

    def alternatives_many(
        self,
        items: Iterable[Id],
        k: int = 10,
        *,
        exclude: Iterable[Id] = (),
        allow: Iterable[Id] | None = None,
        where: Mapping[str, Any] | None = None,
        item_table: Any = None,
        reasons: bool = False,
    ) -> RecommendationBatch:
        """`alternatives` to each of many items; in `to_frame()`, the column query has the item."""
        wanted = plain_list(items, "items")
        rows = known_rows(self.items, wanted, "item")
        columns = self._columns(item_table)
        require_categories(columns)
        options = self._item_options(k, exclude, reasons, *self._allowed(allow, (), where, columns))
        found = find_alternatives(self._alternatives_by(columns), rows.tolist(), options)
        return self._name(found, queries=wanted)

    def complete(
        self,
        basket: Iterable[Id],
        k: int = 10,
        *,
        per_category: int = 1,
        slots: Iterable[str] | None = None,
        budget: float | None = None,
        exclude: Iterable[Id] = (),
        allow: Iterable[Id] | None = None,
        where: Mapping[str, Any] | None = None,
        item_table: Any = None,
        reasons: bool = False,
    ) -> Recommendations:
        """At most `k` items that complete a `basket` (item ids) to an outfit, best first: items of categories that are
        not in it, which customers buy in one order with its items.

        per_category: the largest number of items of one category.
        slots: the categories to fill, also those of the basket; none of them gets a second item before all that can be
        filled have one.
        budget: what the items of the outfit may cost together, by the column price of the table. Items without a price
        are left out then.
        reasons: also return the items of the basket that each item is bought together with. The other options are those
        of `recommend`.
        """
        items = plain_list(basket, "the basket")
        if not items:
            raise InputError("the basket is empty: give at least one item")
        rows = known_rows(self.items, items, "item")
        columns = self._columns(item_table)
        require_categories(columns)
        outfits = self._outfits_by(columns)
        names = None if slots is None else plain_list(slots, "slots")
        wanted = OutfitOptions(per_category, None if names is None else outfits.find_slots(names), budget)
        options = self._item_options(k, exclude, reasons, *self._allowed(allow, (), where, columns))
        return self._name([complete_rows(outfits, rows, options, wanted)])[0]

    def item_columns(self, table: Any) -> ItemColumns:
        """A frame with the column item (or id) and others, read for this model: give it as `item_table` of many calls,
        which then do not read the frame again."""
        return read_item_columns(self.items, table)

    def similar_users(self, user: Id, k: int = 10, *, allow: Iterable[Id] | None = None) -> Recommendations:
        """The `k` customers of the training data nearest to `user`, scored by minus the distance; `user` is the first.

        A customer is the point that recommendations are made from: the midpoint of the training history, or their own.
        allow: an allow-list; no other customers are found.
        """
        check_count(k)
        return find_similar_users(self, *self._customers, user, k, allow)

    def query_points(
        self,
        *,
        users: Iterable[Id] | None = None,
        histories: Iterable[Iterable[Id]] | None = None,
        weights: Iterable[Iterable[float]] | None = None,
    ) -> NDArray[np.float32]:
        """The points that `recommend_many` ranks items by, for faiss, a vector database or another tool; a row each.

        On the hyperboloid, the items for a point u are in the order of the plain inner product of (-u0, u1, ...) and
        `item_points`, if items have no masses; `query_vectors` needs no such case.

        A user without training events, and a history without known items, have no point and are errors. Unknown items
        of other histories are left out.
        """
        return find_query_points(self, users, histories, weights).astype(np.float32)

    def query_vectors(
        self,
        *,
        users: Iterable[Id] | None = None,
        histories: Iterable[Iterable[Id]] | None = None,
        weights: Iterable[Iterable[float]] | None = None,
    ) -> NDArray[np.float32]:
        """Vectors whose plain inner product with `item_vectors` is in the order of `recommend`, for faiss, a vector
        database or another tool; a row for each of the users or histories, as in `query_points`.

        With masses and distances it is nearly that order, and `score` puts candidates in the exact one. What a memory
        adds to scores depends on the history and is in no vector.
        """
        return query_vectors(self.points, find_query_points(self, users, histories, weights))

    @cached_property
    def item_vectors(self) -> NDArray[np.float32]:
        """A vector per item, for `query_vectors`; the same as `item_points` on the hyperboloid, without masses."""
        return item_vectors(self.points)

    def score_histories(self, histories: Interactions, user_rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """For some user rows of `histories`, numbers in the order of the scores of all items: what evaluation ranks by;
        see `score_variants`."""
        return next(self.score_variants([self.ranker.variant], histories, user_rows))

    def score_variants(
        self, variants: Iterable[Variant], histories: Interactions, user_rows: NDArray[np.int64]
    ) -> Iterator[NDArray[np.float32]]:
        """For each of the variants of this model, and for some user rows of `histories`, numbers in the order of the
        scores of all items. The caller may overwrite them.

        The items of `histories` are the model's, its users need not be. A customer with a point of their own is scored
        by it, any other by the midpoint of the history, and one with neither by popularity.
        """
        if histories.items != self.items:
            raise InputError(
                "the histories have other items than the model: give them in the rows of the model's items"
            )
        point_rows = np.full(len(user_rows), UNKNOWN)
        if self.user_points is not None and self.users is not None:
            point_rows = self.users.rows(histories.users.ids(user_rows))
            trained = self.histories is None or self.histories.lengths[point_rows] > 0
            point_rows = np.where(trained, point_rows, UNKNOWN)
        own = point_rows != UNKNOWN
        given = histories.histories_of(user_rows)
        informed = ~own & (np.diff(given.offsets) > 0)
        queries = np.zeros((len(user_rows), self.item_points.shape[1]))
        if self.user_points is not None:
            queries[own] = self.points.space.precise(self.user_points[point_rows[own]])
        queries[informed] = self.points.queries(*histories.histories_of(user_rows[informed]).for_queries)
        unknown = ~(own | informed)
        for scores in self.ranker.score_each(variants, queries, *given.for_boosts):
            if unknown.any():
                # Positions among the distinct numbers, because float32 would round large ones into false ties.
                scores[unknown] = np.unique(self.points.popularity, return_inverse=True)[1]
            yield scores

    def add_items(self, *, events: Interactions | None = None, attributes: Any = None) -> Model:
        """A model with more items, placed without training; this one does not change.

        events: what customers did after the training data, with new items and known ones, in order. An item becomes the
        midpoint of the queries of its customers. All events are added to the histories and to the popularity of items.
        attributes: a data frame with a row per new item: `item`, and the attribute columns that the model was trained
        with. An item without events becomes the midpoint of its attributes; with events, the more of them it has, the
        less its attributes count.

        New items that cannot be placed, since their customers have no event with a known item and they have no known
        attributes, are left out with a note.
        """
        from lorentzrec.model.catalogue import add_items

        return add_items(self, events, attributes)

    def save(self, path: str | Path, *, histories: bool = True) -> None:
        """Write the model as a folder that `lorentzrec.load` reads.

        Without `histories` it holds no customer's events, and supports `recommend(history=...)` only. A symmetric model
        still supports users then, but cannot leave out what they have seen.
        """
        from lorentzrec.model.artifact import save_model

        save_model(self, path, histories=histories)

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Read a model that `save` wrote; the same as `lorentzrec.load`."""
        from lorentzrec.model.artifact import load

        return load(path)

    def to_parquet(self, path: str | Path) -> None:
        """Write `id`, `count`, `point` and `vector` (lists of float32) of all items, for a vector database.

        The items for a row of `query_vectors` are in the order of its plain inner product with `vector`. With separate
        targets there is also `history_point`, and with masses `mass`.
        """
        import polars as pl

        with atomic_file(path) as partial:
            pl.DataFrame(tabulate_items(self)).write_parquet(partial)

    @cached_property
    def _similar(self) -> SimilarItems:
        """What ranks similar items."""
        return SimilarItems(self.ranker)

    @cached_property
    def _columns_of_attributes(self) -> ItemColumns | None:
        return None if self.item_attributes is None else columns_of_attributes(self.item_attributes)

    @cached_property
    def _alternatives(self) -> WeakKeyDictionary[ItemColumns, Alternatives]:
        """What ranks alternatives, by the columns with the categories."""
        return WeakKeyDictionary()

    def _alternatives_by(self, columns: ItemColumns) -> Alternatives:
        if columns not in self._alternatives:
            self._alternatives[columns] = Alternatives(self._similar, CategoryTree(columns))
        return self._alternatives[columns]

    @cached_property
    def _outfits(self) -> WeakKeyDictionary[ItemColumns, Outfits]:
        """What makes outfits, by the columns with the categories."""
        return WeakKeyDictionary()

    def _outfits_by(self, columns: ItemColumns) -> Outfits:
        if columns not in self._outfits:
            self._outfits[columns] = Outfits(self.ranker, columns)
        return self._outfits[columns]

    @cached_property
    def _customers(self) -> tuple[NDArray[np.int64], Scorer]:
        """The rows of the customers that have a point, and what ranks these points."""
        return collect_customers(self)

    def _columns(self, item_table: Any) -> ItemColumns:
        """What filters are about."""
        if item_table is not None:
            return self.item_columns(item_table)
        if self._columns_of_attributes is None:
            raise InputError(
                "a model without attributes knows nothing about its items: "
                "give item_table=, a frame with a row per item"
            )
        return self._columns_of_attributes

    def _allowed(
        self, allow: Iterable[Id] | None, categories: Iterable[str], where: Mapping[str, Any] | None, item_table: Any
    ) -> tuple[NDArray[np.int64] | None, tuple[Fallback, ...]]:
        """The rows that an allow-list, categories and conditions leave, None for all, and what of them is unknown."""
        allowed: NDArray[np.int64] | None = None
        fallbacks: tuple[Fallback, ...] = ()
        if allow is not None:
            rows = require_rows(self.items, allow, "allow")
            allowed, fallbacks = rows[rows != UNKNOWN], unknown_fallbacks(Cause.UNKNOWN_ALLOWED_ITEMS, rows)
        wanted = plain_list(categories, "categories")
        if not wanted and not where:
            return allowed, fallbacks
        columns = self._columns(item_table)
        found = [] if allowed is None else [allowed]
        if wanted:
            in_categories, unknown = rows_of_categories(columns, wanted)
            found, fallbacks = [*found, in_categories], fallbacks + unknown
        if where:
            found.append(rows_that_meet(columns, where))
        return reduce(np.intersect1d, found), fallbacks

    def _item_options(
        self,
        k: int,
        exclude: Iterable[Id],
        reasons: bool,
        allowed: NDArray[np.int64] | None,
        fallbacks: tuple[Fallback, ...],
    ) -> RowOptions:
        """The options of a list for an item."""
        check_count(k)
        never = require_rows(self.items, exclude, "exclude")
        return RowOptions(k=k, excluded=never[never != UNKNOWN], allowed=allowed, reasons=reasons, fallbacks=fallbacks)

    def _recommend(self, queries: Iterator[RowQuery], options: RowOptions, threads: int | None) -> Iterator[RowResult]:
        """The results of many queries, some at a time."""
        while block := list(islice(queries, QUERIES_PER_BLOCK)):
            yield from recommend_rows(self.ranker, block, options, threads)

    def _name(
        self, results: Iterable[RowResult], users: list[Id] | None = None, queries: list[Id] | None = None
    ) -> RecommendationBatch:
        """Results with ids instead of rows."""
        named = []
        for rows, scores, reasons, fallbacks, _ in results:
            because = None
            if reasons is not None:
                because = tuple(
                    tuple(Reason(self.items.id(part.row), *part[1:]) for part in parts) for parts in reasons
                )
            named.append(Recommendations(self.items.ids(rows), scores, fallbacks, because))
        return RecommendationBatch(named, users, queries)
