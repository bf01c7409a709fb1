"""The hyper-parameters: the only place where one is named, typed, defaulted and checked."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from lorentzrec.base.field_checks import (
    PositiveInt,
    Prefix,
    Range,
    check_fields,
    check_names,
    check_value,
    convert,
    field_hints,
    parse,
)
from lorentzrec.base.threads import available_cores
from lorentzrec.errors import ConfigError
from lorentzrec.points.space import Space

if TYPE_CHECKING:
    from lorentzrec.data.interactions import Interactions

OWN = "own:"
"""Before the name of a loss that `register_loss` has registered."""

Loss: TypeAlias = Literal["bpr", "wmrb", "softmax"] | Annotated[str, Prefix(OWN)]
Score: TypeAlias = Literal["inner", "distance"]
Targets: TypeAlias = Literal["shared", "separate"]
History: TypeAlias = Literal["causal", "orders", "folds"]
MemoryChoice: TypeAlias = Literal["auto", "none"]
MassChoice: TypeAlias = Literal["auto", "on", "off"]
NotNegative: TypeAlias = Annotated[float, Range(0)]
Positive: TypeAlias = Annotated[float, Range(above=0)]
Epochs: TypeAlias = Annotated[int, Range(0)]
Recency: TypeAlias = Annotated[float, Range(above=0, most=1)]
BlocksPerStep: TypeAlias = Annotated[int, Range(1, 4096)]

LOW_DIMENSION = 32
"""Up to this many, points need room, which curvature gives."""
MAIN_SETTINGS = ("geometry", "dimension", "history", "epochs", "learning_rate")
"""Printed in every training."""
FEWEST_USERS_FOR_MEMORY = 500
"""With fewer, too few events can be held out to choose its weight."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingConfig:
    """How to train. `None` means: chosen from the data when training starts, printed, and recorded with the model.

    config = TrainingConfig(dimension=64, loss="softmax", seed=7)
    twin = config.replace(geometry="euclidean")
    """

    geometry: Literal["hyperboloid", "euclidean"] = "hyperboloid"
    """Space of the points; `euclidean` is the twin that runs through the same code.

    Change it to `euclidean` to measure what curvature contributes, or if `lorentzrec compare` shows that the twin is
    better on your data.
    """
    model: Literal["asymmetric", "symmetric"] = "asymmetric"
    """`asymmetric`: a customer is the midpoint of a history. `symmetric`: every customer has a point of their own.

    Change it to `symmetric` to compare with matrix factorisation; such models have no memory, and recommend to new
    customers by a midpoint that they were not trained for.
    """
    loss: Loss | None = None
    """How the score of a positive is compared with those of its negatives; `docs/math.md` has the formulas.

    Change it to `wmrb` or `bpr` to reproduce the paper or another library; `docs/lab/quality-experiments.md` compares
    them. `own:NAME` is a loss of your own: see `docs/extend.md`.
    """
    score: Score | None = None
    """`inner`: <u, v>. `distance`: minus the distance.

    Change it if you reproduce the paper (`inner`), or let `lorentzrec tune` choose.
    """
    optimiser: Literal["rsgd", "adagrad", "adam"] = "adagrad"
    """`rsgd`: plain Riemannian gradient steps, as in the paper. `adagrad`, `adam`: adaptive, one rate per point.

    Change it to `rsgd` to reproduce the paper. `adam` needs an extra number per coordinate, was level on MovieLens 1M
    and behind on gowalla, where most items are rare.
    """
    dimension: Annotated[int, Range(1, 4096)] = 50
    """Number of dimensions of the space.

    Change it to 128 for a few per cent more quality at twice the time and size, to 8 or 16 for small models.
    """
    epochs: Epochs | None = None
    """Passes over all events.

    Change it if the validation metric still rises at the end (more), or for a quick try (fewer).
    """
    learning_rate: NotNegative | None = None
    """Learning rate of the first epoch after the warm-up.

    Change it if the loss rises or jumps (smaller), or hardly falls (larger); `lorentzrec tune` searches it. Rare items
    overfit at high rates, which the default takes into account.
    """
    learning_rate_decay: NotNegative | None = None
    """See `schedule`.

    Change it together with `schedule`; 0 for a constant rate.
    """
    schedule: Literal["inverse", "linear"] = "linear"
    """Rate in epoch e of E, from 0: `inverse`: rate / (1 + decay e), `linear`: rate (1 - decay e / E), with a decay of
    at most 1. A decay of 0 keeps it constant.

    Change it to `inverse` to train for a number of epochs that is not known in advance.
    """
    warmup_epochs: Epochs = 0
    """Number of first epochs in which the rate rises in equal steps to that of the schedule.

    Change it to 1 or 2 if the first epochs diverge at a high rate.
    """
    negative_count: PositiveInt | None = None
    """Negatives that each positive is compared with. Symmetric BPR draws them for each positive; otherwise a block of
    customers shares them.

    Change it to more for large catalogues, if training may take longer; to fewer for speed.
    """
    margin: NotNegative = 1.0
    """WMRB's slack epsilon.

    Change it only with the loss `wmrb`, if you tune it.
    """
    scale: Positive | None = None
    """Multiplies the score inside the loss: an inverse temperature.

    Change it together with `learning_rate`, in the opposite direction: half the rate with twice the scale is a flatter
    space.
    """
    curvature: Positive | None = None
    """How curved the space of the hyperboloid is, for scores by distance: it decides `learning_rate`, `scale` and
    `initial_width` where these are not set. Points are stored with curvature -1, and are farther out in a space that is
    more curved. None: 1, or 0.25 with times and more than 32 dimensions.

    Change it to measure what curvature contributes: 0.01 is almost flat, and 4 has distances of twice the length.
    """
    regularisation: NotNegative = 0.0
    """Penalty: this times the squared distance to the origin, for every point that a step moves.

    Change it to 0.01 to 0.3 if points of rare items move far out and the model overfits.
    """
    clip_norm: Positive | None = None
    """Longest tangent gradient; longer ones are shortened and counted. None: no limit.

    Change it to 1 or so if training fails because a number is not finite.
    """
    memory: MemoryChoice | None = None
    """`auto`: what was bought after what, or together with it, is stored with the model and raises scores by a weight
    that is chosen on held-out events; 0 if it does not help. `none`: points alone; the default for symmetric models,
    the optimiser rsgd and fewer than 500 customers.

    Change it to `none` for points alone: a smaller model, no events held out to choose its weight, or a pure comparison
    of geometries.
    """
    memory_neighbours: PositiveInt | None = None
    """Neighbours that the memory stores of each item, 8 bytes each. None: 100; without order, up to 400 in catalogues
    of fewer than 200,000 items.

    Change it to fewer to save space, to more if histories have no order and are long.
    """
    masses: MassChoice = "auto"
    """`on`: every item learns a number, its mass, that is added to all of its scores. `off`: its point alone says how
    popular it is. `auto`: on up to 32 dimensions with the optimiser adagrad, where points have little room.

    Change it to `off` for a pure comparison of geometries, to `on` to try masses in more dimensions.
    """
    attribute_weight: Positive = 4.0
    """Weight of all attributes of an item together in its point; its own vector has weight 1. Used with attributes.

    Change it to less if attributes are unreliable, to more if most items have few events.
    """
    item_dropout: Annotated[float, Range(0, 1)] = 0.3
    """Probability that an item goes without its own vector in a step, so that its attributes learn to place items
    without events. Used with attributes.

    Change it to more if items without events matter most, to 0 if there are none.
    """
    initialisation: Literal["cube", "ball", "frequency"] = "ball"
    """Where points start: in a cube or a ball at the origin, or nearer to it the more events an item has.

    Change it to `cube` to reproduce the paper.
    """
    initial_width: Positive | None = None
    """Side of the cube, or radius of the ball in Poincare coordinates, which is at most 0.9.

    Change it together with `scale`: points should start about as far out as they will end.
    """
    targets: Targets | None = None
    """`separate`: an item has one point as part of a history and another as a recommendation.

    Change it to `shared` to halve the size of a model of sequences; on MovieLens 1M that costs 16 % of the NDCG.
    """
    history: History | None = None
    """What a target is predicted from. `causal`: the items before it. `orders`: the items of the orders before its own;
    the default if most events have an order with several items. `folds`: all items outside its fold, for
    histories without order.

    Change it to `folds` if times exist but carry no meaning, such as the date of an import.
    """
    folds: Annotated[int, Range(2, 2**31 - 1)] = 3
    """Number of parts that a history without order is divided into, differently in every epoch; the items of a part are
    predicted together, from all the others. With as many folds as items, one item is left out at a time.

    Change it to 2 for speed if histories are long, to more if most have fewer than five items.
    """
    recency: Recency | None = None
    """Factor on the weight of a history item per step back from the target; 1: all equal. With orders, it is per order,
    and the items of an order count alike. By default 0.7 with times and 1 without; with orders it is chosen on held-out
    orders, and 1 unless another value is better.

    Change it to 0.5 if only the last items count, to 1 if all count alike; on MovieLens 1M, 1 halves the NDCG.
    """
    validation: NotNegative = 0.0
    """Share (below 1) or number (from 1) of customers whose last event is held out to choose the best epoch; 0: none.

    Change it to 0.1 or 1000 to stop at the best epoch if the dataset has no validation part.
    """
    patience: PositiveInt = 5
    """Epochs without a better validation metric before training stops.

    Change it to more if the validation metric is noisy.
    """
    blocks_per_step: BlocksPerStep | None = None
    """Blocks whose gradients are computed from the same points, and then applied in order. Also the number of threads
    that can work at once. Not used by symmetric BPR, which makes a step per triplet.

    Change it to the number of cores, if there are more of them than blocks; results differ, and stay the same for any
    number of threads.
    """
    threads: PositiveInt | None = None
    """None: all cores this process may use.

    Change it if other work shares the machine. Results do not depend on it.
    """
    deterministic: bool | None = None
    """Whether one seed gives the same bits for any number of threads. Always true except for symmetric BPR, whose
    threads share points without locks unless this is set to true: it then runs on one thread.

    Change it to true if runs of symmetric BPR must be repeatable.
    """
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    """Random seed, for the initial points, the order of events and the negatives.

    Change it to see how much of a difference between two runs is noise: use three or more.
    """

    def __new__(cls, *values: Any, **settings: Any) -> Self:
        """The checks that come before those of Python, whose error for an unknown name has no suggestion."""
        if values:
            raise ConfigError(f"{values[0]!r} is given without a name: write {cls.__name__}(dimension=20, ...)")
        check_names(TrainingConfig, settings, "hyper-parameter")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.schedule == "linear":
            decay = Annotated[float, Range(0, 1)] | None
            check_value("learning_rate_decay", self.learning_rate_decay, decay)
        if self.initialisation != "cube":
            check_value("initial_width", self.initial_width, Annotated[float, Range(above=0, most=0.9)] | None)
        if self.history == "folds" and self.recency not in (None, 1.0):
            raise ConfigError(
                f"recency is {self.recency} but history is folds, which has no order: set recency=1 or history=causal"
            )
        if self.model == "symmetric" and self.history == "orders":
            raise ConfigError(
                "history=orders with model=symmetric: customers have points of their own, leave history out"
            )
        if self.model == "symmetric" and self.targets == "separate":
            raise ConfigError(
                "targets=separate with model=symmetric: customers have points of their own there, leave targets out"
            )

        if self.curvature is not None and not self.hyperbolic:
            raise ConfigError(f"curvature={self.curvature} with geometry=euclidean: flat space has none, leave it out")
        if self.masses == "on" and self.optimiser == "adam":
            raise ConfigError("masses=on with optimiser=adam: masses have steps of adagrad or rsgd, set one of them")
        if self.model == "symmetric" and self.memory == "auto":
            raise ConfigError("memory=auto with model=symmetric: only asymmetric models have a memory, leave it out")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainingConfig) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.to_dict().values()))

    def replace(self, **changes: Any) -> TrainingConfig:
        """A copy with some fields changed."""
        return TrainingConfig(**self.to_dict() | changes)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """From a dictionary, such as a manifest's; unknown names are errors."""
        check_names(cls, values, "hyper-parameter")
        hints = field_hints(cls)
        return cls(**{name: convert(value, hints[name]) for name, value in values.items()})

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """From a TOML file of `name = value` lines, at the top or under `[training]`."""
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read ({error}): check the path") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not TOML ({error}): fix that line") from None
        try:
            return cls.from_mapping(values.get("training", values))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def with_settings(self, settings: list[str]) -> TrainingConfig:
        """A copy with `name=value` texts applied, as the command line's --set takes them."""
        changes: dict[str, Any] = {}
        for setting in settings:
            name, equals, text = (part.strip() for part in setting.partition("="))
            if not equals:
                raise ConfigError(f"--set {setting!r} has no '=': write name=value")
            check_names(TrainingConfig, [name], "hyper-parameter")
            changes[name] = parse(text, field_hints(TrainingConfig)[name])
        return self.replace(**changes)

    @property
    def hyperbolic(self) -> bool:
        return self.geometry == "hyperboloid"

    @property
    def learns_masses_by_default(self) -> bool:
        """What `masses=auto` means."""
        return self.optimiser == "adagrad" and self.dimension <= LOW_DIMENSION

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def resolve_for(self, data: Interactions, *, attributes: bool = False) -> ResolvedConfig:
        """A copy in which everything is decided for these data, as training on them will; `attributes`: whether it
        uses those of items."""
        counts = {"events": len(data), "users": len(data.users), "items": len(data.items)}
        return self.resolve(ordered=data.ordered, orders=data.in_orders, attributes=attributes, **counts)

    def resolve(
        self,
        *,
        ordered: bool,
        events: int,
        users: int,
        items: int,
        orders: bool = False,
        attributes: bool = False,
    ) -> ResolvedConfig:
        """A copy in which everything that depends on the data is decided; `docs/lab/quality.md` has the measurements
        behind it. `orders`: whether most events have an order with several items."""
        if self.history == "orders" and not ordered:
            raise ConfigError("history=orders needs times, and these events have none: give times, or leave it out")
        if not ordered and (self.history == "causal" or self.recency not in (None, 1.0)):
            given = "history=causal" if self.history == "causal" else f"recency={self.recency}"
            raise ConfigError(
                f"{given} needs the order of events, and these have no times: give times, or leave it out"
            )
        history = self.history or ("causal" if ordered else "folds")
        if self.history is None and ordered and orders and self.model == "asymmetric":
            history = "orders"
        causal = self.model == "asymmetric" and history == "causal"
        sequence = self.model == "asymmetric" and history != "folds"
        triplets = self.model == "symmetric" and self.loss == "bpr"
        adaptive = self.optimiser != "rsgd"
        # RSGD is the paper's optimiser and gets the paper's loss and score, except for BPR triplets; these and the
        # other optimisers do better on distances, and with midpoints by a softmax over many negatives.
        distance = adaptive or triplets if self.score is None else self.score == "distance"
        loss = self.loss or ("softmax" if adaptive and self.model == "asymmetric" else "wmrb")
        sharp = loss == "softmax" and self.model == "asymmetric"
        # Sparse items overfit quickly.
        gentle = min(1.0, math.sqrt(events / max(items, 1) / 100))
        if self.curvature is not None and not distance:
            raise ConfigError(f"curvature={self.curvature} with score=inner: set score=distance, or leave it out")
        # With many dimensions, sequences need little curvature. Points that are smaller by half, with a score that is
        # multiplied by twice as much, are the same model in a space of a quarter of the curvature.
        many_dimensions = self.hyperbolic and self.dimension > LOW_DIMENSION
        flat = sharp and adaptive and distance and sequence and many_dimensions
        curvature = self.curvature or (0.25 if flat else 1.0)
        length = math.sqrt(curvature)
        """Of a unit of the space with this curvature, in the space of the points."""
        rate = ((round(0.6 * gentle, 3) if sequence else 0.8) if sharp else 0.3) * length
        # A step of one vector moves a point that is composed of several by less.
        rate *= 2 if attributes else 1
        # Without order, overfitting comes later: as long as it takes minutes, more epochs are better.
        patient = sharp and not sequence and events < 2_000_000
        many = 1024 if sequence else 2048  # folds share the scores of their negatives, so more of them cost less
        choices: dict[str, Any] = {
            "loss": loss,
            "score": "distance" if distance else "inner",
            "epochs": 40 if patient else 20,
            "learning_rate": {
                # Gradients are longer by the scale, and adaptive steps are not.
                "rsgd": (0.03 if triplets and distance else 0.05) * curvature,
                "adagrad": rate,
                "adam": 0.02 * math.sqrt(self.curvature or 1.0),
            }[self.optimiser],
            "learning_rate_decay": 0.9 if (adaptive or triplets) and self.schedule == "linear" else 0.0,
            "negative_count": 1 if triplets else (many if items > 30_000 else 512) if sharp else 128,
            "scale": (6.0 if triplets and distance else (16.0 if sharp else 12.0) if adaptive and distance else 1.0)
            / length,
            "memory": "auto"
            if self.model == "asymmetric" and adaptive and users >= FEWEST_USERS_FOR_MEMORY
            else "none",
            # Without order every item of a history counts, so more neighbours help: as long as they fit into 160 MB.
            "memory_neighbours": 100 if causal else min(400, max(100, 20_000_000 // max(items, 1))),
            "initial_width": 0.1 * length if self.initialisation == "cube" else min(0.9, 0.1 * length),
            "targets": "separate" if sequence else "shared",
            "history": history,
            "recency": 0.7 if causal else 1.0,
            # Gradients at points that are a few blocks old cost some quality, more so where an epoch has few blocks.
            "blocks_per_step": 1 if triplets else min(4, max(1, events // 25_000)),
            "threads": available_cores(),
            "deterministic": not triplets,
        }
        chosen = {name: value for name, value in self.to_dict().items() if value is not None}
        if self.masses == "auto":
            chosen["masses"] = "on" if self.learns_masses_by_default else "off"
        return ResolvedConfig(**choices | chosen)


@dataclass(frozen=True, kw_only=True, eq=False)
class ResolvedConfig(TrainingConfig):
    """A config in which everything is decided: what training, and a trained model, have."""

    loss: Loss
    score: Score
    epochs: Epochs
    learning_rate: NotNegative
    learning_rate_decay: NotNegative
    negative_count: PositiveInt
    scale: Positive
    memory: MemoryChoice
    memory_neighbours: PositiveInt
    masses: Literal["on", "off"]
    initial_width: Positive
    targets: Targets
    history: History
    recency: Recency
    blocks_per_step: BlocksPerStep
    threads: PositiveInt
    deterministic: bool

    def with_recency(self, recency: float) -> ResolvedConfig:
        """A copy with another recency."""
        return ResolvedConfig(**self.to_dict() | {"recency": recency})

    @property
    def massive(self) -> bool:
        """Whether items have masses."""
        return self.masses == "on"

    @property
    def space(self) -> Space:
        """The space of the points of a model with this config."""
        return Space(self.geometry, self.score, self.recency, self.history == "orders")

    def summary(self, given: TrainingConfig) -> str:
        """The settings that matter most, and all that `given` changes."""
        default = TrainingConfig().to_dict()
        changed = [name for name, value in given.to_dict().items() if value != default[name]]
        names = dict.fromkeys([*MAIN_SETTINGS, *changed])
        return ", ".join(f"{name}={value}" for name, value in self.to_dict().items() if name in names)

    def rate_in(self, epoch: int) -> float:
        """The learning rate in an epoch; the first is 1."""
        rate = self.learning_rate * min(1.0, epoch / (self.warmup_epochs + 1))
        if self.schedule == "inverse":
            return rate / (1 + self.learning_rate_decay * (epoch - 1))
        return rate * (1 - self.learning_rate_decay * (epoch - 1) / self.epochs)

    @property
    def triplets(self) -> bool:
        """Whether training makes a step per triplet: the symmetric model with BPR."""
        return self.model == "symmetric" and self.loss == "bpr"
