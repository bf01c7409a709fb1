"""The recommender as a `keras.Model`: customers are midpoints of their histories."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions, refuse_other_data
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.geometry import hyperboloid
from lorentzrec.keras.backend import BACKEND, Tensor, value_and_gradients
from lorentzrec.keras.blocks import Blocks
from lorentzrec.keras.layers import EinsteinMidpoint, HyperboloidEmbedding, MinkowskiRetrieval
from lorentzrec.keras.losses import BPR, MASKED, WMRB, RankingLoss, SampledSoftmax
from lorentzrec.keras.optimisers import RiemannianAdagrad, RiemannianOptimiser, RiemannianSGD
from lorentzrec.keras.points import gaps, midpoints, pair_gaps, scores_of
from lorentzrec.learning.run import initial_space, learning_rate
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.record import EpochRecord


@keras.saving.register_keras_serializable("lorentzrec")
class MidpointModel(keras.Model):  # type: ignore[misc]
    """Points of items, learned so that the midpoint of a history is near the items that follow it.

    model = MidpointModel(TrainingConfig(dimension=50))
    model.fit(interactions)
    model.to_model().recommend(history=["item 1", "item 2"])

    It is compiled from its config; `compile` replaces optimiser and loss. Called with histories, item rows of shape
    (batch, length) padded with -1, it returns the `k` best items of each as {"items": rows, "scores": ...}, where
    items of the history are not left out.
    """

    def __init__(
        self, config: TrainingConfig | dict[str, Any] | None = None, item_count: int | None = None, k: int = 10, **options: Any
    ) -> None:
        """item_count: taken from the data of `fit` if not given."""
        super().__init__(**options)
        config = TrainingConfig.from_mapping(config) if isinstance(config, dict) else config or TrainingConfig()
        refuse_unsupported(config)
        self.training_config, self.item_count, self.k = config, item_count, k
        self.data: Interactions | None = None
        self.record: list[EpochRecord] = []
        self.loss_mean = keras.metrics.Mean(name="loss")
        self.ranking_loss: RankingLoss | None = None
        if item_count is not None and isinstance(config, ResolvedConfig):
            self._make_tables()

    # --- tables

    def _make_tables(self) -> None:
        """One row more than there are items: blocks are padded with it."""
        config = self.training_config
        shape = {"input_dim": self.item_count + 1, "output_dim": config.dimension, "embeddings_initializer": "zeros"}
        self.items = HyperboloidEmbedding(**shape, name="items")
        self.items.build()
        self.histories = self.items
        if config.targets == "separate":
            self.histories = HyperboloidEmbedding(**shape, name="histories")
            self.histories.build()
        self.midpoint = EinsteinMidpoint(config.recency, name="midpoint")
        self.retrieval = MinkowskiRetrieval(self.k, config.score, name="retrieval")
        for layer in (self.midpoint, self.retrieval):
            layer.built = True
        self.built = True
        if not self.compiled:
            self.compile()

    @property
    def tables(self) -> list[Any]:
        """The variables that hold points: items, and histories if they have points of their own."""
        return [self.items.points] if self.histories is self.items else [self.items.points, self.histories.points]

    def set_points(self, items: NDArray[np.float32], histories: NDArray[np.float32] | None = None) -> None:
        """Space coordinates of all items, and of their points in histories if these are separate."""
        for table, space in zip(self.tables, (items, histories), strict=False):
            table.assign(np.append(space, np.zeros((1, space.shape[1]), np.float32), axis=0))

    def points(self) -> list[NDArray[np.float32]]:
        """The space coordinates of each of `tables`, without the spare row."""
        return [np.array(ops.convert_to_numpy(table))[:-1] for table in self.tables]

    def prepare(self, data: Interactions) -> None:
        """Decide what the config leaves open, and initialise the points, unless that was done before."""
        if self.item_count is None:
            self.item_count = len(data.items)
        if len(data.items) != self.item_count:
            raise InputError(f"the data have {len(data.items)} items and the model {self.item_count}: give its own data")
        self.data = data
        if self.built:
            return
        config = self.training_config = resolve(self.training_config, data)
        self._make_tables()
        random = np.random.default_rng(config.seed)
        self.set_points(
            *(initial_space(len(data.items), config, data.item_counts, random) for _ in self.tables)
        )

    # --- training

    def compile(self, optimizer: Any = None, loss: Any = None, **options: Any) -> None:
        """As usual; what is left out comes from the config. `loss` is one of lorentzrec.keras."""
        config = self.training_config
        if not isinstance(config, ResolvedConfig) and (optimizer is None or loss is None):
            raise ConfigError("compile needs the data to choose optimiser and loss: give both, or call fit at once")
        if loss is not None and not isinstance(loss, RankingLoss):
            raise ConfigError(f"loss is {loss!r}: give SampledSoftmax, WMRB or BPR of lorentzrec.keras")
        self._from_config = optimizer is None
        self.ranking_loss = loss or loss_of(config)
        if options.setdefault("jit_compile", "auto") == "auto" and BACKEND == "torch":
            options["jit_compile"] = False
        super().compile(optimizer=optimizer_of(config) if optimizer is None else optimizer, **options)
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def get_compile_config(self) -> dict[str, Any]:
        serialise = keras.saving.serialize_keras_object
        config = {"optimizer": serialise(self.optimizer), "loss": serialise(self.ranking_loss)}
        return config | {"from_config": self._from_config}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        read = keras.saving.deserialize_keras_object
        self.compile(read(config["optimizer"]), read(config["loss"]))
        self._from_config = config["from_config"]

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_mean]

    def fit(
        self,
        x: Any = None,
        *,
        epochs: int | None = None,
        callbacks: Sequence[Any] | None = None,
        validation_data: Interactions | None = None,
        **options: Any,
    ) -> Any:
        """Train on `Interactions` or on a dataset folder; callbacks and other options are those of Keras.

        epochs: None takes them from the config, which also has the schedule of the learning rate.
        validation_data: held-out events in the vocabularies of the data. The metrics of full ranking on them are in
        the logs as `val_ndcg@10` and `val_hr@10`.
        """
        data = Interactions.from_dataset(x) if isinstance(x, str | Path) else x
        refuse_other_data(data, "fit")
        self.prepare(data)
        epochs = self.training_config.epochs if epochs is None else epochs
        blocks = Blocks(data, self.training_config, epochs)
        own = [_Epochs(blocks, validation_data)]
        return super().fit(blocks, epochs=epochs, callbacks=[*own, *(callbacks or ())], shuffle=False, **options)

    def train_step(self, *args: Any) -> Any:
        if BACKEND != "jax":
            return self._learn(args[0])
        state, data = args
        parts = [self.trainable_variables, self.non_trainable_variables, self.optimizer.variables, self.metrics_variables]
        pairs = [pair for variables, values in zip(parts, state, strict=True) for pair in zip(variables, values, strict=True)]
        with keras.StatelessScope(state_mapping=pairs) as scope:
            logs = self._learn(data)
        return logs, tuple([scope.get_current_value(variable) for variable in variables] for variables in parts)

    def _learn(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step on a block: read its rows, and move them along their gradients."""
        names = ["item_rows", "history_rows"][: len(self.tables)]
        blocks = [ops.take(table, batch[name], axis=0) for table, name in zip(self.tables, names, strict=True)]
        loss, _, gradients = value_and_gradients(lambda points: (self.block_loss(points, batch), ()), blocks)
        optimizer = self.optimizer
        if isinstance(optimizer, RiemannianOptimiser):
            for i, (table, name) in enumerate(zip(self.tables, names, strict=True)):
                index = self._table_index(i)
                optimizer.step_rows(index, table, batch[name], blocks[i], gradients[i], optimizer.learning_rate)
            optimizer.iterations.assign_add(1)
        else:
            whole = [
                ops.scatter(batch[name][:, None], gradient, tuple(table.shape))
                for table, name, gradient in zip(self.tables, names, gradients, strict=True)
            ]
            optimizer.apply(whole, self.tables)
        count = ops.sum(ops.cast(batch["target_weights"] > 0, "float32"))
        self.loss_mean.update_state(loss / ops.maximum(count, 1.0), sample_weight=count)
        return {"loss": self.loss_mean.result()}

    def _table_index(self, table: int) -> int:
        return [id(variable) for variable in self.trainable_variables].index(id(self.tables[table]))

    def block_loss(self, blocks: list[Tensor], batch: dict[str, Tensor]) -> Tensor:
        """The summed loss of a block, given the points of its distinct rows: items, and histories if separate."""
        config, loss = self.training_config, self.ranking_loss
        events = ops.take(blocks[-1], batch["events"], axis=0)
        queries = midpoints(history_weights(batch, config), events)
        negatives = ops.take(blocks[0], batch["negatives"], axis=0)
        scores = scores_of(gaps(queries, negatives), config.score)
        seen = ops.take(batch["seen"], ops.maximum(batch["query_owners"], 0), axis=0)
        scores = ops.where(seen, MASKED, scores)
        targets = ops.take(blocks[0], batch["targets"], axis=0)
        own = queries if config.history == "causal" else ops.take(queries, batch["target_queries"], axis=0)
        positives = scores_of(pair_gaps(own, targets), config.score)
        shared = None if config.history == "causal" else batch["target_queries"]
        return ops.sum(batch["target_weights"] * loss.values(positives, scores, shared))

    # --- recommending

    def call(self, histories: Tensor) -> dict[str, Tensor]:
        points = ops.take(self.histories.points, ops.maximum(histories, 0), axis=0)
        queries = self.midpoint(points, mask=histories >= 0)
        return self.retrieval([queries, self.items.points[:-1]])

    def to_model(self, data: Interactions | None = None) -> Model:
        """The trained points as a `lorentzrec.Model`, with the histories of `data`; None: of the data of `fit`."""
        data = self.data if data is None else data
        if data is None or not self.built:
            raise InputError("the model has not been trained in this process: give to_model the data it was trained on")
        config = self.training_config
        points = [hyperboloid.lift(space) for space in self.points()]
        return Model(
            config=config,
            items=data.items,
            item_points=points[0],
            history_points=points[-1],
            item_counts=data.item_counts,
            users=data.users,
            histories=data,
            record=tuple(self.record),
            data_digest=data.digest,
        )

    @classmethod
    def from_model(cls, model: Model, **options: Any) -> MidpointModel:
        """The points of a trained model, ready to be trained further or exported."""
        made = cls(model.config, item_count=len(model.items), **options)
        spaces = [model.item_points[:, 1:], model.history_points[:, 1:]]
        made.set_points(*spaces[: len(made.tables)])
        made.data = model.histories
        made.record = list(model.record)
        return made

    def get_config(self) -> dict[str, Any]:
        config = self.training_config
        return {
            **super().get_config(),
            "config": config.to_dict(),
            "resolved": isinstance(config, ResolvedConfig),
            "item_count": self.item_count,
            "k": self.k,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> MidpointModel:
        values = dict(config)
        kind = ResolvedConfig if values.pop("resolved") else TrainingConfig
        return cls(**values | {"config": kind.from_mapping(values["config"])})


class _Epochs(keras.callbacks.Callback):  # type: ignore[misc]
    """Chooses the blocks and the rate of each epoch, validates it and records it."""

    def __init__(self, blocks: Blocks, validation: Interactions | None) -> None:
        super().__init__()
        self.blocks, self.validation = blocks, validation

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.blocks.epoch = epoch + 1
        model, config = self.model, self.blocks.config
        if model._from_config:
            model.optimizer.learning_rate = learning_rate(config, min(epoch + 1, config.epochs))
        self.started = time.perf_counter()
        self.counts = self._counts()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        from lorentzrec.evaluation.protocol import evaluate

        logs = {} if logs is None else logs
        seconds = time.perf_counter() - self.started
        metrics = None
        if self.validation is not None:
            report = evaluate(self.model.to_model(), self.validation, k=10, intervals=False)
            metrics = {name: report[name] for name in ("ndcg@10", "hr@10")}
            logs |= {f"val_{name}": value for name, value in metrics.items()}
        clipped, capped = np.subtract(self._counts(), self.counts).tolist()
        self.model.record.append(
            EpochRecord(
                epoch=len(self.model.record) + 1,
                loss=float(logs["loss"]),
                learning_rate=float(self.model.optimizer.learning_rate),
                clipped_gradients=clipped,
                capped_steps=capped,
                seconds=seconds,
                events_per_second=self.blocks.positives / max(seconds, 1e-9),
                validation=metrics,
            )
        )

    def _counts(self) -> tuple[int, int]:
        optimizer = self.model.optimizer
        if not isinstance(optimizer, RiemannianOptimiser):
            return 0, 0
        return int(optimizer.clipped_gradients), int(optimizer.capped_steps)


def history_weights(batch: dict[str, Tensor], config: ResolvedConfig) -> Tensor:
    """The weight of each event in each query: (queries, events)."""
    own = batch["query_owners"][:, None] == batch["event_owners"][None, :]
    if config.history == "folds":
        counted = own & (batch["query_steps"][:, None] != batch["event_steps"][None, :])
        return ops.where(counted, batch["event_weights"][None, :], 0.0)
    age = batch["query_steps"][:, None] - batch["event_steps"][None, :] - 1
    counted = own & (age >= 0)
    decay = ops.exp(math.log(config.recency) * ops.cast(ops.where(counted, age, 0), "float32"))
    return ops.where(counted, batch["event_weights"][None, :] * decay, 0.0)


def refuse_unsupported(config: TrainingConfig) -> None:
    """An error that names the settings which only the compiled kernels have."""
    unsupported = {"geometry": "euclidean", "model": "symmetric", "optimiser": "adam"}
    found = [f"{name}={value}" for name, value in unsupported.items() if getattr(config, name) == value]
    if not isinstance(config, ResolvedConfig):
        found += [f"{name}={getattr(config, name)}" for name in ("threads",) if getattr(config, name) is not None]
        if config.blocks_per_step not in (None, 1):
            found.append(f"blocks_per_step={config.blocks_per_step}")
    if found:
        raise ConfigError(f"the keras engine does not support {', '.join(found)}: leave it out, or use the local engine")


def resolve(config: TrainingConfig, data: Interactions) -> ResolvedConfig:
    """What training on these data decides: as for the local engine, but with one block per step."""
    refuse_unsupported(config)
    if isinstance(config, ResolvedConfig):
        return config
    return config.replace(blocks_per_step=1).resolve_for(data)


def loss_of(config: ResolvedConfig) -> RankingLoss:
    if config.loss == "wmrb":
        return WMRB(config.scale, config.margin)
    return SampledSoftmax(config.scale) if config.loss == "softmax" else BPR(config.scale)


def optimizer_of(config: ResolvedConfig) -> RiemannianOptimiser:
    kind = RiemannianSGD if config.optimiser == "rsgd" else RiemannianAdagrad
    return kind(config.learning_rate, clip_norm=config.clip_norm, regularisation=config.regularisation)
