"""The recommender as a model of RecTools, for its data sets, metrics and cross-validation.

Copy this file. docs/coming-from.md has how to install RecTools next to lorentzrec.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rectools import Columns
from rectools.models.base import ModelBase, ModelConfig

from lorentzrec import Interactions, Model, Recommendations, TrainingConfig, train


class MidpointModelConfig(ModelConfig):  # type: ignore[misc]
    """The settings of a `MidpointModel`, as RecTools stores them."""

    settings: dict[str, Any] = {}  # noqa: RUF012 - a field of pydantic, which copies it


class MidpointModel(ModelBase):  # type: ignore[misc]
    """`MidpointModel(dimension=50).fit(dataset).recommend(users, dataset, k=10, filter_viewed=True)`.

    The keyword arguments are the fields of `TrainingConfig`. A user is the midpoint of the history in the `dataset`
    given to `recommend`: this may be another dataset, with users who were not in training. A user without a history
    there gets the popular items. Weights are those of the interactions, and their order is that of the column datetime.
    After `fit`, `model` is the trained `lorentzrec.Model`.
    """

    config_class = MidpointModelConfig
    recommends_for_cold = True
    model: Model

    def __init__(self, verbose: int = 0, **settings: Any) -> None:
        """`verbose`: above 0, training shows its progress."""
        super().__init__(verbose=verbose)
        TrainingConfig(**settings)  # raises an error if a name or value is wrong
        self.settings = settings

    def _get_config(self) -> MidpointModelConfig:
        return MidpointModelConfig(cls=type(self), verbose=self.verbose, settings=self.settings)

    @classmethod
    def _from_config(cls, config: MidpointModelConfig) -> Self:
        return cls(verbose=config.verbose, **config.settings)

    def _fit(self, dataset: Any) -> None:
        config = TrainingConfig(**self.settings)
        self.model = train(_interactions(dataset), config, progress=None if self.verbose else False)

    def _recommend_u2i(
        self,
        user_ids: NDArray[Any],
        dataset: Any,
        k: int,
        filter_viewed: bool,
        sorted_item_ids_to_recommend: NDArray[Any] | None,
    ) -> tuple[list[Any], list[Any], list[float]]:
        histories = _interactions(dataset)
        rows = histories.users.rows(dataset.user_id_map.convert_to_external(user_ids).tolist())
        spans = [slice(*histories.offsets[row : row + 2]) for row in rows]
        assert histories.weights is not None
        found = self.model.recommend_many(
            [histories.items.ids(histories.item_rows[span]) for span in spans],
            weights=[histories.weights[span].tolist() for span in spans],
            k=k,
            exclude_seen=filter_viewed,
            allow=_allowed(sorted_item_ids_to_recommend, dataset, self.model),
        )
        return _triplet(user_ids, found, dataset)

    def _recommend_cold(
        self, target_ids: NDArray[Any], dataset: Any, k: int, sorted_item_ids_to_recommend: NDArray[Any] | None
    ) -> tuple[list[Any], list[Any], list[float]]:
        """The popular items, for users without a history in the dataset."""
        allowed = _allowed(sorted_item_ids_to_recommend, dataset, self.model)
        return _triplet(target_ids, [self.model.recommend([], k=k, allow=allowed)] * len(target_ids), dataset)

    def _recommend_i2i(
        self, target_ids: NDArray[Any], dataset: Any, k: int, sorted_item_ids_to_recommend: NDArray[Any] | None
    ) -> tuple[list[Any], list[Any], list[float]]:
        targets = dataset.item_id_map.convert_to_external(target_ids).tolist()
        allowed = _allowed(sorted_item_ids_to_recommend, dataset, self.model)
        return _triplet(target_ids, self.model.similar_items_many(targets, k, allow=allowed), dataset)


def _interactions(dataset: Any) -> Interactions:
    """The interactions of a RecTools dataset, with external ids."""
    table = dataset.get_raw_interactions()
    return Interactions.from_frame(table, Columns.User, Columns.Item, Columns.Datetime, Columns.Weight)


def _allowed(item_ids: NDArray[Any] | None, dataset: Any, model: Model) -> list[Any] | None:
    """The items that may be recommended, all those of the dataset by default; None if these are all of the model."""
    external = (
        dataset.item_id_map.external_ids if item_ids is None else dataset.item_id_map.convert_to_external(item_ids)
    )
    allowed = [item for item in external.tolist() if item in model.items]
    return None if len(allowed) == len(model.items) else allowed


def _triplet(
    targets: NDArray[Any], found: list[Recommendations], dataset: Any
) -> tuple[list[Any], list[Any], list[float]]:
    """Targets, items and scores of all recommendations, with RecTools's internal ids."""
    items = [item for one in found for item in one.ids]
    return (
        np.repeat(targets, [len(one) for one in found]).tolist(),
        dataset.item_id_map.convert_to_internal(items).tolist() if items else [],
        [score for one in found for score in one.scores.tolist()],
    )
