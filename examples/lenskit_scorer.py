"""The recommender as a scorer of LensKit, for its pipelines, batch runs and metrics.

Copy this file. docs/coming-from.md has how to install LensKit next to lorentzrec.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from lenskit.data import Dataset, ItemList, QueryInput, RecQuery
from lenskit.pipeline import Component
from lenskit.training import Trainable, TrainingOptions
from pydantic import BaseModel

from lorentzrec import Interactions, Model, TrainingConfig, train


class MidpointConfig(BaseModel, extra="allow"):  # type: ignore[misc, call-arg]
    """Any fields of `TrainingConfig`."""


class MidpointScorer(Component, Trainable):  # type: ignore[misc]
    """`topn_pipeline(MidpointScorer(dimension=50))`.

    The keyword arguments are the fields of `TrainingConfig`. Ratings are not used. A user of the training data is
    scored by the training history, in the order of its timestamps, any other query by its items; items of the session
    and of the context count as the newest. After training, `model` is the trained `lorentzrec.Model`.
    """

    config: MidpointConfig
    model: Model

    def train(self, data: Dataset, options: TrainingOptions = TrainingOptions()) -> None:  # noqa: B008 - LensKit's own
        """Train on the interactions of a dataset."""
        if hasattr(self, "model") and not options.retrain:
            return
        table = data.interaction_table(format="pandas", original_ids=True)
        time = "timestamp" if "timestamp" in table.columns else "time"
        interactions = Interactions.from_frame(table, "user_id", "item_id", time)
        self.model = train(interactions, TrainingConfig.from_mapping(self.config.model_extra or {}), progress=False)

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """The items with scores; those that the model does not know have none (NaN)."""
        query = RecQuery.create(query)
        wanted = items.ids().tolist()
        recent = [
            item
            for part in (query.session_items, query.context_items)
            if part is not None
            for item in part.ids().tolist()
        ]
        history = _in_order(query.history_items)
        known = query.user_id is not None and self.model.users is not None and query.user_id in self.model.users
        queried: dict[str, Any] = {"history": history}
        if known and (not history or set(history) == self._seen(query.user_id)):
            queried = {"user": query.user_id}
        found = self.model.recommend(**queried, context=recent, k=max(len(wanted), 1), exclude_seen=False, allow=wanted)
        scores = dict(found)
        return ItemList(items, scores=np.array([scores.get(item, np.nan) for item in wanted], np.float32))

    def _seen(self, user: Any) -> set[Any]:
        assert self.model.histories is not None
        return set(self.model.histories.history_ids(user))


def _in_order(history: ItemList | None) -> list[Any]:
    """The items of a history, by timestamp if there is one."""
    if history is None:
        return []
    times = history.field("timestamp")
    ids = history.ids()
    return list(ids.tolist() if times is None else ids[np.argsort(np.asarray(times), kind="stable")].tolist())
