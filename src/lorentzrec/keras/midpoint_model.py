"""The recommender as a `keras.Model`: customers are midpoints of their histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from lorentzrec.data.interactions import Interactions, check_is_interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.geometry import hyperboloid
from lorentzrec.keras.backend import BACKEND, Tensor, read_rows, value_and_gradients
from lorentzrec.keras.blocks import Blocks
from lorentzrec.keras.epochs import EpochCallback, KerasRunner
from lorentzrec.keras.layers import EinsteinMidpoint, HyperboloidEmbedding, MinkowskiRetrieval
from lorentzrec.keras.losses import BPR, LEFT_OUT, MASKED, WMRB, RankingLoss, SampledSoftmax
from lorentzrec.keras.optimisers import RiemannianAdagrad, RiemannianOptimiser, RiemannianSGD
from lorentzrec.keras.points import (
    Places,
    distances,
    find_scores,
    gaps,
    midpoints,
    midpoints_before,
    pair_gaps,
    products,
)
from lorentzrec.learning.engine import VALIDATION_METRIC, TrainingRun, check_is_config, check_supported
from lorentzrec.model.config import ResolvedConfig, TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.model.notes import NoteKind


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

    built: bool

    def __init__(
        self,
        config: TrainingConfig | None = None,
        item_count: int | None = None,
        k: int = 10,
        **options: Any,
    ) -> None:
        """item_count: taken from the data of `fit` if not given."""
        super().__init__(**options)
        check_is_config(config)
        self._may_have_masses = config is None or config.masses == "auto"
        self.training_config = config = with_one_block_per_step(config or TrainingConfig())
        self.item_count, self.k = item_count, k
        self.run: TrainingRun | None = None
        self.origin: Model | None = None
        self.loss_mean = keras.metrics.Mean(name="loss")
        self._compile_arguments: dict[str, Any] = {}
        if item_count is not None and isinstance(config, ResolvedConfig):
            self.build_for(config, item_count)

    # --- tables

    def build_for(self, config: ResolvedConfig, item_count: int) -> bool:
        """Make the tables and compile the model, unless it has tables; returns whether it made them.

        A table has one row more than there are items: blocks are padded with it.
        """
        self.training_config, self.item_count = config, item_count
        if self.built:
            return False
        self.items = HyperboloidEmbedding(item_count + 1, config.dimension, "zeros", name="items")
        self.items.build()
        self.histories = self.items
        if config.targets == "separate":
            self.histories = HyperboloidEmbedding(item_count + 1, config.dimension, "zeros", name="histories")
            self.histories.build()
        self.midpoint = EinsteinMidpoint(config.recency, name="midpoint")
        self.retrieval = MinkowskiRetrieval(self.k, config.score, name="retrieval")
        for layer in (self.midpoint, self.retrieval):
            layer.built = True
        self.built = True
        self.compile(**self._compile_arguments)
        return True

    @property
    def resolved(self) -> ResolvedConfig:
        """The config, once the data or the caller have decided everything."""
        if not isinstance(self.training_config, ResolvedConfig):
            raise ConfigError("the config leaves open what the data decide: call fit first, or give a resolved config")
        return self.training_config

    @property
    def tables(self) -> list[Any]:
        """The variables that hold points: items, and histories if they have points of their own."""
        return [self.items.points] if self.histories is self.items else [self.items.points, self.histories.points]

    def optimiser_sums(self) -> list[Any]:
        """Adagrad's sums of each of `tables`; none if the optimiser has none."""
        if not isinstance(self.optimizer, RiemannianOptimiser):
            return []
        return [sums for sums in map(self.optimizer.find_squared, self.tables) if sums is not None]

    def set_points(self, *spaces: NDArray[np.float32]) -> None:
        """Space coordinates of all items, and of their points in histories if these are separate."""
        for table, space in zip(self.tables, spaces, strict=True):
            table.assign(np.pad(space, ((0, 1), (0, 0))))

    def points(self) -> list[NDArray[np.float32]]:
        """The space coordinates of each of `tables`, without the spare row."""
        return [np.array(ops.convert_to_numpy(table))[:-1] for table in self.tables]

    def prepare(
        self,
        data: Interactions,
        validation: Interactions | None = None,
        metric: str = VALIDATION_METRIC,
        validate_every: int = 1,
    ) -> TrainingRun:
        """Make a run of this model on these data. The run decides what the config leaves open, and its runner
        initialises the points unless the model has some."""
        if self.item_count not in (None, len(data.items)):
            raise InputError(
                f"the data have {len(data.items)} items and the model {self.item_count}: give its own data"
            )
        make_runner = partial(KerasRunner, self)
        self.run = TrainingRun(data, self.training_config, validation, metric, validate_every, make_runner=make_runner)
        if self.origin is not None and self.origin.attributes is not None:
            self.run.note(NoteKind.ATTRIBUTES_LEFT_OUT)
        if self._may_have_masses and self.run.config.learns_masses_by_default:
            self.run.note(NoteKind.MASSES_LEFT_OUT, dimension=self.run.config.dimension)
        return self.run

    def write_tables(self) -> None:
        """Write the points to the tables of the run."""
        if self.run is not None:
            cast(KerasRunner, self.run.runner).write_tables()

    # --- training

    def compile(self, optimizer: Any = None, loss: Any = None, **options: Any) -> None:
        """As usual; what is left out comes from the config.

        loss: one of lorentzrec.keras, any `keras.losses.Loss`, or a function of `y_true` and `y_pred` that gives a
        value per row. Each row has a positive in its first column, where `y_true` is 1, then its negatives, where it is
        0. `y_pred` has the scores times `scale` of the config. Negatives that the customer has score `LEFT_OUT`.
        """
        if loss is not None and not isinstance(loss, keras.losses.Loss) and not callable(loss):
            raise ConfigError(
                f"loss is {loss!r}: give SampledSoftmax, WMRB or BPR of lorentzrec.keras, a keras.losses.Loss, or a "
                "function of y_true and y_pred"
            )
        if isinstance(optimizer, RiemannianOptimiser):
            _refuse_options_of_tables(optimizer)
        self._compile_arguments = {"optimizer": optimizer, "loss": loss, **options}
        if not isinstance(self.training_config, ResolvedConfig):  # `build_for` compiles when the data have decided
            return
        self.follows_config = optimizer is None
        self.ranking_loss: Any = loss or make_loss(self.resolved)
        if options.setdefault("jit_compile", "auto") == "auto" and BACKEND == "torch":
            options["jit_compile"] = False
        super().compile(optimizer=make_optimizer(self.resolved) if optimizer is None else optimizer, **options)
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def get_compile_config(self) -> dict[str, Any]:
        serialise = keras.saving.serialize_keras_object
        config = {"optimizer": serialise(self.optimizer), "loss": serialise(self.ranking_loss)}
        return config | {"follows_config": self.follows_config}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        read = keras.saving.deserialize_keras_object
        self.compile(read(config["optimizer"]), read(config["loss"]))
        self.follows_config = config["follows_config"]

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
        check_is_interactions(data, "fit")
        run = self.prepare(data, validation_data)
        epochs = run.config.epochs if epochs is None else epochs
        blocks = Blocks(run.training_data, run.config, epochs)
        own = EpochCallback(blocks, run)
        return self.fit_blocks(blocks, epochs=epochs, callbacks=[own, *(callbacks or ())], **options)

    def fit_blocks(self, blocks: Blocks, **options: Any) -> Any:
        return super().fit(blocks, shuffle=False, **options)

    def train_step(self, *args: Any) -> Any:
        if BACKEND != "jax":
            return self.learn(args[0])
        state, data = args
        parts = [
            self.trainable_variables,
            self.non_trainable_variables,
            self.optimizer.variables,
            self.metrics_variables,
        ]
        pairs = [
            pair for variables, values in zip(parts, state, strict=True) for pair in zip(variables, values, strict=True)
        ]
        with keras.StatelessScope(state_mapping=pairs) as scope:
            logs = self.learn(data)
        return logs, tuple([scope.get_current_value(variable) for variable in variables] for variables in parts)

    def learn(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One step on a block: read its rows, and move them along their gradients."""
        names = ["item_rows", "history_rows"][: len(self.tables)]
        blocks = [read_rows(table, batch[name]) for table, name in zip(self.tables, names, strict=True)]
        loss, gradients = value_and_gradients(lambda points: self.block_loss(points, batch), blocks)
        optimizer = self.optimizer
        if isinstance(optimizer, RiemannianOptimiser):
            for table, name, points, gradient in zip(self.tables, names, blocks, gradients, strict=True):
                optimizer.step_rows(table, batch[name], points, gradient, optimizer.learning_rate)
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

    def block_loss(self, blocks: list[Tensor], batch: dict[str, Tensor]) -> Tensor:
        """The summed loss of a block, given the points of its distinct rows: items, and histories if separate."""
        config = self.resolved
        events = ops.take(blocks[-1], batch["events"], axis=0)
        if config.history != "folds":
            owners, shared = batch["event_owners"], None
            places = Places(*(batch[f"event_{name}"] for name in Places._fields))
            queries = midpoints_before(events, batch["event_weights"], places, config.recency)
        else:
            owners, shared = batch["query_owners"], batch["target_queries"]
            queries = midpoints(weights_outside_folds(batch), events)
        negatives = ops.take(blocks[0], batch["negatives"], axis=0)
        inner = config.score == "inner"
        scores = products(queries, negatives) if inner else -distances(gaps(queries, negatives))
        seen = ops.take(batch["seen"], ops.maximum(owners, 0), axis=0)
        scores = ops.where(seen, MASKED, scores)
        own = queries if shared is None else ops.take(queries, shared, axis=0)
        targets = ops.take(blocks[0], batch["targets"], axis=0)
        positives = find_scores(pair_gaps(own, targets), config.score)
        find_values = self.ranking_loss.values if isinstance(self.ranking_loss, RankingLoss) else self._own_values
        return ops.sum(batch["target_weights"] * find_values(positives, scores, shared))

    def _own_values(self, positives: Tensor, negatives: Tensor, queries: Tensor | None) -> Tensor:
        """What a loss of the user gives for each positive."""
        rows = negatives if queries is None else ops.take(negatives, queries, axis=0)
        rows = ops.maximum(self.resolved.scale * rows, LEFT_OUT)
        scores = ops.concatenate([self.resolved.scale * positives[:, None], rows], axis=-1)
        wanted = ops.concatenate([ops.ones_like(scores[:, :1]), ops.zeros_like(rows)], axis=-1)
        loss = self.ranking_loss
        values = loss.call(wanted, scores) if isinstance(loss, keras.losses.Loss) else loss(wanted, scores)
        if len(values.shape) != 1:
            raise ConfigError(f"the loss gives values of the shape {tuple(values.shape)}: give one value per row")
        return values

    # --- recommending

    def call(self, histories: Tensor) -> dict[str, Tensor]:
        points = ops.take(self.histories.points, ops.maximum(histories, 0), axis=0)
        queries = self.midpoint(points, mask=histories >= 0)
        found: dict[str, Tensor] = self.retrieval([queries, self.items.points[:-1]])
        return found

    def predict(self, x: Any, *args: Any, **options: Any) -> Any:
        """The best items of each history: rows of shape (batch, length), padded with -1."""
        rows = x if isinstance(x, np.ndarray) else np.empty(0)
        count = self.item_count or 0
        if rows.size and (rows.min() < -1 or rows.max() >= count):
            wrong = rows[(rows < -1) | (rows >= count)].flat[0]
            raise InputError(f"item row {wrong} is out of range: the model has the rows 0 to {count - 1}, and -1 pads")
        if rows.size and (rows.max(axis=-1) < 0).any():
            empty = int((rows.max(axis=-1) < 0).argmax())
            raise InputError(f"the history in row {empty} is empty: give every history an item")
        return super().predict(x, *args, **options)

    def export(
        self, filepath: str | Path, format: str = "tf_saved_model", *, input_signature: Any = None, **options: Any
    ) -> None:
        """As usual. Without `input_signature`, the exported graph takes any number of histories of any length: rows of
        items in int32, padded with -1."""
        if not self.built:
            raise InputError("the model has no points yet: call fit first, or make it with from_model")
        if input_signature is None:
            input_signature = [keras.InputSpec(shape=(None, None), dtype="int32", name="histories")]
        super().export(filepath, format, input_signature=input_signature, **options)

    def to_model(self, data: Interactions | None = None) -> Model:
        """The trained points as a `lorentzrec.Model`, with the histories of `data`; None: of the data of `fit`.

        Orders that were held out from `fit` are learned last, by the points of the result alone.
        """
        if data is None and self.run is None and self.origin is not None:
            points = [hyperboloid.lift(space).astype(np.float32) for space in self.points()]
            return self.origin.with_points(item_points=points[0], history_points=points[-1])
        run = self.run if data is None else self.prepare(data)
        if run is None:
            raise InputError("the model was not trained in this process: give to_model the data it was trained on")
        self.write_tables()
        variables = [*self.tables, *self.optimizer.variables]
        values = [np.array(ops.convert_to_numpy(variable)) for variable in variables]
        model = run.build_model()
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        return model

    @classmethod
    def from_model(cls, model: Model, **options: Any) -> MidpointModel:
        """The points of a trained model, ready to be exported or trained further."""
        if model.masses is not None:
            raise ConfigError("the model has masses, which Keras does not know: train it with masses=off")
        made = cls(model.config, item_count=len(model.items), **options)
        made.set_points(*(points[:, 1:] for points in (model.item_points, model.history_points)[: len(made.tables)]))
        made.origin = model
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


def _refuse_options_of_tables(optimizer: RiemannianOptimiser) -> None:
    """`step_rows` takes none of the options that Keras applies to whole variables."""
    clipping, others = ("clipnorm", "clipvalue", "global_clipnorm"), ("weight_decay", "use_ema", "loss_scale_factor")
    given = [name for name in (*clipping, *others, "gradient_accumulation_steps") if getattr(optimizer, name)]
    if given:
        raise ConfigError(
            f"MidpointModel moves single rows, without {', '.join(given)} of {type(optimizer).__name__}: "
            "leave it out, or give clip_norm or regularisation"
        )


def weights_outside_folds(batch: dict[str, Tensor]) -> Tensor:
    """The weight of each event in each query: (queries, events)."""
    own = batch["query_owners"][:, None] == batch["event_owners"][None, :]
    counted = own & (batch["query_folds"][:, None] != batch["event_steps"][None, :])
    return ops.where(counted, batch["event_weights"][None, :], 0.0)


def with_one_block_per_step(config: TrainingConfig) -> TrainingConfig:
    """The config with one block per step, the only default that differs from the local engine's. An error names the
    settings that Keras does not support."""
    unsupported: dict[str, object] = {
        "geometry": "euclidean",
        "model": "symmetric",
        "optimiser": "adam",
        "masses": "on",
    }
    if not isinstance(config, ResolvedConfig):  # a resolved config has threads and blocks of the data's choice
        if config.threads is not None:
            unsupported["threads"] = config.threads
        if config.blocks_per_step not in (None, 1):
            unsupported["blocks_per_step"] = config.blocks_per_step
    check_supported("keras", config, unsupported)
    return replace(config, blocks_per_step=1, masses="off")


def make_loss(config: ResolvedConfig) -> RankingLoss:
    if config.loss == "wmrb":
        return WMRB(config.scale, config.margin)
    return SampledSoftmax(config.scale) if config.loss == "softmax" else BPR(config.scale)


def make_optimizer(config: ResolvedConfig) -> RiemannianOptimiser:
    kind = RiemannianSGD if config.optimiser == "rsgd" else RiemannianAdagrad
    return kind(config.learning_rate, clip_norm=config.clip_norm, regularisation=config.regularisation)
