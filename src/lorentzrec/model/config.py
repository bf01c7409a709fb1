"""The hyper-parameters: the only place where one is named, typed, defaulted and checked."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from lorentzrec.errors import ConfigError
from lorentzrec.threads import available_cores

if TYPE_CHECKING:
    from lorentzrec.data.interactions import Interactions


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train. `None` means: decided from the data when training starts, printed, and recorded with the model.

    config = TrainingConfig(dimension=64, loss="softmax", seed=7)
    twin = config.replace(geometry="euclidean")
    """

    geometry: Literal["hyperboloid", "euclidean"] = "hyperboloid"
    """Space of the points; `euclidean` is the twin that runs through the same code."""
    model: Literal["asymmetric", "symmetric"] = "asymmetric"
    """`asymmetric`: a customer is the midpoint of a history. `symmetric`: every customer has a point of their own."""
    loss: Literal["bpr", "wmrb", "softmax"] | None = None
    score: Literal["inner", "distance"] | None = None
    """`inner`: <u, v>. `distance`: minus the distance."""
    optimiser: Literal["rsgd", "adagrad", "adam"] = "adagrad"
    dimension: int = 50
    epochs: int | None = None
    learning_rate: float | None = None
    learning_rate_decay: float | None = None
    """See `schedule`."""
    schedule: Literal["inverse", "linear"] = "linear"
    """Rate in epoch e of E, from 0: `inverse`: rate / (1 + decay e), `linear`: rate (1 - decay e / E). A decay of 0
    keeps it constant."""
    warmup_epochs: int = 0
    """First epochs, in which the rate rises in equal steps to that of the schedule."""
    negative_count: int | None = None
    """Negatives that each positive is compared with. Symmetric BPR draws them for each positive; otherwise a block of
    customers shares them."""
    margin: float = 1.0
    """WMRB's slack epsilon."""
    scale: float | None = None
    """Multiplies the score inside the loss: an inverse temperature."""
    regularisation: float = 0.0
    """Times the squared distance to the origin, for every point that a step moves."""
    clip_norm: float | None = None
    """Longest tangent gradient; longer ones are shortened and counted. None: no limit."""
    initialisation: Literal["cube", "ball", "frequency"] = "ball"
    initial_width: float | None = None
    """Side of the cube, or radius of the ball in Poincare coordinates."""
    targets: Literal["shared", "separate"] | None = None
    """`separate`: an item has one point as part of a history and another as a recommendation."""
    history: Literal["causal", "leave_one_out"] | None = None
    """What a target is predicted from. `causal`: the items before it. `leave_one_out`: all the others, or with longer
    histories those of other `folds`."""
    folds: int = 3
    """Parts that a history without order is cut into, anew in every epoch; the items of a part are predicted together,
    from all the others. As many as the longest history has items leave out one at a time."""
    recency: float | None = None
    """Weight of a history item per step back from the target; 1 weighs all alike."""
    sampler: Literal["uniform", "popularity"] = "uniform"
    validation: float = 0.0
    """Share of customers (below 1) or number of them (from 1) whose last event is held out to choose the best epoch;
    0: none."""
    patience: int = 5
    """Epochs without a better validation NDCG@10 before training stops."""
    blocks_per_step: int | None = None
    """Blocks whose gradients are computed from the same points, and then applied in order. Also the number of threads
    that can work at once. Not used by symmetric BPR, which makes a step per triplet."""
    threads: int | None = None
    """None: all cores this process may use."""
    deterministic: bool | None = None
    """Whether one seed gives the same bits for any number of threads. Always true except for symmetric BPR, whose
    threads share points without locks unless this is set to true: it then runs on one thread."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            _check_type(name, value)
        _check_range("dimension", self.dimension, 1, 4096)
        _check_range("epochs", self.epochs, 0)
        _check_range("learning_rate", self.learning_rate, 0)
        _check_range("learning_rate_decay", self.learning_rate_decay, 0, 1 if self.schedule == "linear" else math.inf)
        _check_range("warmup_epochs", self.warmup_epochs, 0)
        _check_range("negative_count", self.negative_count, 1)
        _check_range("margin", self.margin, 0)
        _check_range("scale", self.scale, 0, exclusive=True)
        _check_range("regularisation", self.regularisation, 0)
        _check_range("clip_norm", self.clip_norm, 0, exclusive=True)
        _check_range(
            "initial_width", self.initial_width, 0, 0.9 if self.initialisation != "cube" else math.inf, exclusive=True
        )
        _check_range("recency", self.recency, 0, 1, exclusive=True)
        _check_range("folds", self.folds, 2, 2**31 - 1)
        _check_range("validation", self.validation, 0)
        _check_range("patience", self.patience, 1)
        _check_range("blocks_per_step", self.blocks_per_step, 1, 4096)
        _check_range("threads", self.threads, 1)
        _check_range("seed", self.seed, 0, 2**63 - 1)
        if self.history == "leave_one_out" and self.recency not in (None, 1.0):
            raise ConfigError(
                f"recency is {self.recency} but history is leave_one_out, which has no order: "
                "set recency=1 or history=causal"
            )
        if self.model == "symmetric" and self.targets == "separate":
            raise ConfigError(
                "targets=separate with model=symmetric: customers have points of their own there, leave targets out"
            )

    def replace(self, **changes: Any) -> TrainingConfig:
        """A copy with some fields changed."""
        _check_names(changes)
        return replace(self, **changes)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> TrainingConfig:
        """From a dictionary, such as a manifest's; unknown names are errors."""
        _check_names(values)
        return cls(**{name: _as_field(name, value) for name, value in values.items()})

    @classmethod
    def from_toml(cls, path: str | Path) -> TrainingConfig:
        """From a TOML file of `name = value` lines, at the top or under `[training]`."""
        try:
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read ({error}): check the path") from None
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not TOML ({error}): mend that place") from None
        try:
            return cls.from_mapping(values.get("training", values))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def with_settings(self, settings: list[str]) -> TrainingConfig:
        """A copy with `name=value` texts applied, as the command line's --set takes them."""
        changes: dict[str, Any] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            name = name.strip()
            if not equals:
                raise ConfigError(f"--set {setting!r} has no '=': write name=value")
            _check_names([name])
            changes[name] = _parse(name, text.strip())
        return self.replace(**changes)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def resolve_for(self, data: Interactions) -> TrainingConfig:
        """A copy in which everything is decided for these data, as training on them will."""
        return self.resolve(ordered=data.ordered, events=len(data), users=len(data.users), items=len(data.items))

    def resolve(self, *, ordered: bool, events: int, users: int, items: int) -> TrainingConfig:
        """A copy in which everything that depends on the data is decided; `docs/quality.md` has the measurements
        behind it."""
        if not ordered and (self.history == "causal" or self.recency not in (None, 1.0)):
            given = "history=causal" if self.history == "causal" else f"recency={self.recency}"
            raise ConfigError(
                f"{given} needs the order of events, and these have no times: give times, or leave it out"
            )
        causal = ordered if self.history is None else self.history == "causal"
        sequence = self.model == "asymmetric" and causal
        triplets = self.model == "symmetric" and self.loss == "bpr"
        adaptive = self.optimiser != "rsgd"
        # RSGD is the paper's optimiser and gets the paper's loss and score, except for BPR triplets; these and the
        # other optimisers do better on distances, and with midpoints by a softmax over many negatives.
        distance = adaptive or triplets if self.score is None else self.score == "distance"
        loss = self.loss or ("softmax" if adaptive and self.model == "asymmetric" else "wmrb")
        sharp = loss == "softmax" and self.model == "asymmetric"
        # Sparse items overfit quickly.
        gentle = min(1.0, math.sqrt(events / max(items, 1) / 100))
        rate = (round(0.6 * gentle, 3) if sequence else 0.8) if sharp else 0.3
        # Without order, overfitting comes later: as long as it takes minutes, more epochs are better.
        patient = sharp and not sequence and events < 2_000_000
        many = 1024 if sequence else 2048  # folds share the scores of their negatives, so more of them cost less
        choices: dict[str, Any] = {
            "loss": loss,
            "score": "distance" if distance else "inner",
            "epochs": 40 if patient else 20,
            "learning_rate": {"rsgd": 0.03 if triplets and distance else 0.05, "adagrad": rate, "adam": 0.02}[
                self.optimiser
            ],
            "learning_rate_decay": 0.9 if (adaptive or triplets) and self.schedule == "linear" else 0.0,
            "negative_count": 1 if triplets else (many if items > 30_000 else 512) if sharp else 128,
            "scale": 6.0 if triplets and distance else (16.0 if sharp else 12.0) if adaptive and distance else 1.0,
            "initial_width": 0.1,
            "targets": "separate" if sequence else "shared",
            "history": "causal" if causal else "leave_one_out",
            "recency": 0.7 if sequence else 1.0,
            # Gradients at points that are a few blocks old cost some quality, more so where an epoch has few blocks,
            # and with the larger blocks of folds.
            "blocks_per_step": 1 if triplets else min(8 if sequence else 4, max(1, events // 25_000)),
            "threads": available_cores(),
            "deterministic": not triplets,
        }
        return replace(self, **{name: value for name, value in choices.items() if getattr(self, name) is None})


_HINTS = get_type_hints(TrainingConfig)
_NAMES = [field.name for field in fields(TrainingConfig)]


def _check_names(names: Any) -> None:
    for name in names:
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(_NAMES)}"
            raise ConfigError(f"there is no hyper-parameter {name!r}: {meant}")


def _kinds(name: str) -> tuple[Any, ...]:
    """The types or literals that a field takes, None among them where it may be left to the data."""
    hint = _HINTS[name]
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(kind for part in parts for kind in (get_args(part) if get_origin(part) is Literal else (part,)))


def _check_type(name: str, value: Any) -> None:
    kinds = _kinds(name)
    words = [kind for kind in kinds if isinstance(kind, str)]
    if words and value is not None:
        if value not in words:
            raise ConfigError(f"{name} is {value!r}: choose one of {', '.join(words)}")
        return
    if value is None and type(None) in kinds:
        return
    if bool in kinds:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} is {value!r}: give true or false")
        return
    wanted = "a whole number" if int in kinds else "a finite number"
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not (whole or (float in kinds and isinstance(value, float) and math.isfinite(value))):
        raise ConfigError(f"{name} is {value!r}: give {wanted}")


def _check_range(
    name: str, value: float | None, low: float, high: float = math.inf, *, exclusive: bool = False
) -> None:
    if value is not None and not (low < value <= high or (value == low and not exclusive)):
        least = f"above {low}" if exclusive else f"at least {low}"
        most = f" and at most {high}" if high < math.inf else ""
        raise ConfigError(f"{name} is {value}: it must be {least}{most}")


def _as_field(name: str, value: Any) -> Any:
    return float(value) if float in _kinds(name) and isinstance(value, int) and not isinstance(value, bool) else value


def _parse(name: str, text: str) -> Any:
    kinds = _kinds(name)
    if text.lower() == "none" and type(None) in kinds:
        return None
    if bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(text)
            except ValueError:
                raise ConfigError(f"{name} is {text!r}: give {'a whole' if kind is int else 'a'} number") from None
    return text
