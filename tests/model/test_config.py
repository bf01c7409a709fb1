"""Hyper-parameters: what is accepted, what is refused and how, and what the data decide."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields
from dataclasses import replace as dataclass_copy
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from lorentzrec.errors import ConfigError
from lorentzrec.model.config import ResolvedConfig, TrainingConfig


def resolved(config: TrainingConfig, *, ordered: bool = True) -> ResolvedConfig:
    return config.resolve(ordered=ordered, events=1000, users=100, items=50)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("dimension", 0, "dimension is 0: give a whole number from 1 to 4096"),
        ("dimension", 2.5, "dimension is 2.5: give a whole number"),
        ("dimension", True, "dimension is True: give a whole number"),
        ("dimension", None, "dimension is None: give a whole number"),
        ("epochs", -1, "epochs is -1: give a whole number of at least 0"),
        ("learning_rate", -0.1, "learning_rate is -0.1: give a number of at least 0"),
        ("learning_rate", float("nan"), "learning_rate is nan: give a number of at least 0"),
        ("learning_rate", float("inf"), "learning_rate is inf: give a number of at least 0"),
        ("learning_rate", "0.1", "learning_rate is '0.1': give a number of at least 0"),
        ("learning_rate_decay", 1.5, "learning_rate_decay is 1.5: give a number from 0 to 1"),
        ("negative_count", 0, "negative_count is 0: give a whole number of at least 1"),
        ("margin", -1.0, "margin is -1.0: give a number of at least 0"),
        ("curvature", 0.0, "curvature is 0.0: give a number above 0"),
        ("scale", 0.0, "scale is 0.0: give a number above 0"),
        ("regularisation", -1.0, "regularisation is -1.0: give a number of at least 0"),
        ("clip_norm", 0.0, "clip_norm is 0.0: give a number above 0"),
        ("initial_width", 0.95, "initial_width is 0.95: give a number above 0 and at most 0.9"),
        ("recency", 0.0, "recency is 0.0: give a number above 0 and at most 1"),
        ("folds", 1, "folds is 1: give a whole number from 2 to 2147483647"),
        ("recency", 1.1, "recency is 1.1: give a number above 0 and at most 1"),
        ("validation", -0.5, "validation is -0.5: give a number of at least 0"),
        ("patience", 0, "patience is 0: give a whole number of at least 1"),
        ("threads", 0, "threads is 0: give a whole number of at least 1"),
        ("seed", -1, "seed is -1: give a whole number from 0 to 9223372036854775807"),
        ("geometry", "poincare", "geometry is 'poincare': give one of hyperboloid, euclidean"),
        ("loss", "hinge", "loss is 'hinge': give one of bpr, wmrb, softmax, own:NAME"),
        ("score", 3, "score is 3: give one of inner, distance"),
    ],
)
def test_impossible_values_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingConfig(**{name: value})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"history": "folds", "recency": 0.5}, "which has no order: set recency=1 or history=causal"),
        ({"model": "symmetric", "targets": "separate"}, "points of their own there, leave targets out"),
    ],
)
def test_values_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainingConfig(**options)
    assert str(caught.value).endswith(message)


def test_a_cube_may_be_wide_and_an_inverse_decay_large() -> None:
    assert TrainingConfig(initialisation="cube", initial_width=3.0).initial_width == 3.0
    assert TrainingConfig(schedule="inverse", learning_rate_decay=2.0).learning_rate_decay == 2.0


def test_a_misspelled_name_is_guessed() -> None:
    config = TrainingConfig()
    guess = "no hyper-parameter 'learning_rat': did you mean 'learning_rate'"
    with pytest.raises(ConfigError, match=guess):
        TrainingConfig.from_mapping({"learning_rat": 0.1})
    with pytest.raises(ConfigError, match=guess):
        TrainingConfig(learning_rat=0.1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=guess):
        ResolvedConfig(**resolved(config).to_dict(), learning_rat=0.1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=guess):
        config.replace(learning_rat=0.1)
    with pytest.raises(ConfigError, match=guess):
        config.with_settings(["learning_rat=0.1"])
    with pytest.raises(ConfigError, match=r"no hyper-parameter 'xyz': the names are geometry, model, "):
        config.replace(xyz=1)


def test_a_value_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"64 is given without a name: write TrainingConfig\(dimension=20, ...\)"):
        TrainingConfig(64)  # type: ignore[call-arg, arg-type]


def test_copies_are_equal() -> None:
    config = TrainingConfig(dimension=3, memory="none")
    for twin in (copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config)), dataclass_copy(config)):
        assert (twin, type(twin)) == (config, TrainingConfig)


def test_it_is_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        TrainingConfig().dimension = 3  # type: ignore[misc]


def test_mappings_go_out_and_come_back() -> None:
    config = TrainingConfig(dimension=3, recency=0.5, clip_norm=1.0)
    assert TrainingConfig.from_mapping(config.to_dict()) == config
    assert TrainingConfig.from_mapping({"margin": 2}).margin == 2.0, "a whole number will do for a real one"


@pytest.mark.parametrize("header", ["", "[training]\n"])
def test_toml(header: str, tmp_path: Path) -> None:
    path = tmp_path / "training.toml"
    path.write_text(header + 'dimension = 7\nloss = "softmax"\nmargin = 2\n')
    assert TrainingConfig.from_toml(path) == TrainingConfig(dimension=7, loss="softmax", margin=2.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dimension = 'x", "training.toml is not TOML"),
        ("dimension = 'x'", "training.toml: dimension is 'x': give a whole number"),
        ("dimenson = 3", "training.toml: there is no hyper-parameter 'dimenson': did you mean 'dimension'?"),
    ],
)
def test_bad_toml_is_named(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "training.toml"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        TrainingConfig.from_toml(path)
    assert message in str(caught.value)
    with pytest.raises(ConfigError, match=r"gone\.toml cannot be read .*: check the path"):
        TrainingConfig.from_toml(tmp_path / "gone.toml")


def test_settings_are_texts() -> None:
    config = TrainingConfig().with_settings(
        ["dimension=8", "scale = 2.5", "loss=bpr", "recency=none", "deterministic=True"]
    )
    assert config == TrainingConfig(dimension=8, scale=2.5, loss="bpr", deterministic=True)
    for setting, message in [
        ("dimension=x", "dimension is 'x': give a whole number from 1 to 4096"),
        ("scale=x", "scale is 'x': give a number above 0"),
        ("dimension", "--set 'dimension' has no '=': write name=value"),
        ("dimension=none", "dimension is 'none': give a whole number from 1 to 4096"),
        ("deterministic=maybe", "deterministic is 'maybe': give true or false"),
        ("deterministic=1", "deterministic is '1': give true or false"),
        ("memory=None", "memory is 'None': give one of auto, none"),
        ("loss='hinge'", "loss is \"'hinge'\": give one of bpr, wmrb, softmax, own:NAME"),
    ]:
        with pytest.raises(ConfigError) as caught:
            config.with_settings([setting])
        assert str(caught.value) == message


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("model", ["asymmetric", "symmetric"])
@pytest.mark.parametrize("optimiser", ["rsgd", "adagrad", "adam"])
def test_data_decide_what_is_left_open(ordered: bool, model: str, optimiser: str) -> None:
    config = TrainingConfig.from_mapping({"model": model, "optimiser": optimiser})
    decided = resolved(config, ordered=ordered)
    undecided = [field.name for field in fields(decided) if getattr(decided, field.name) is None]
    assert sorted(undecided) == ["clip_norm", "curvature"]
    assert resolved(decided, ordered=ordered) == decided
    assert decided.history == ("causal" if ordered else "folds")
    if not ordered or model == "symmetric":
        assert (decided.recency, decided.targets) == (1.0, "shared")


@pytest.mark.parametrize(
    ("ordered", "items", "negatives"),
    [(True, 30_000, 512), (True, 30_001, 1024), (False, 30_000, 512), (False, 30_001, 2048)],
)
def test_large_catalogues_get_more_negatives(ordered: bool, items: int, negatives: int) -> None:
    decided = TrainingConfig().resolve(ordered=ordered, events=10**6, users=10**4, items=items)
    assert decided.negative_count == negatives


def test_the_papers_optimiser_gets_a_rate_that_suits_triplets() -> None:
    """Chosen on validation events of MovieLens 1M, see `docs/lab/quality.md`."""
    triplets = resolved(TrainingConfig(model="symmetric", loss="bpr", optimiser="rsgd"))
    assert (triplets.score, triplets.scale, triplets.learning_rate) == ("distance", 6.0, 0.03)
    assert triplets.learning_rate_decay == 0.9
    blocks = resolved(TrainingConfig(model="symmetric", optimiser="rsgd"))
    assert (blocks.loss, blocks.score, blocks.scale, blocks.learning_rate) == ("wmrb", "inner", 1.0, 0.05)


@pytest.mark.parametrize(("events", "blocks"), [(10, 1), (60_000, 2), (75_000, 3), (100_000, 4), (10**8, 4)])
def test_small_data_are_learned_block_by_block(events: int, blocks: int) -> None:
    decided = TrainingConfig().resolve(ordered=True, events=events, users=100, items=100)
    assert decided.blocks_per_step == blocks
    assert decided == TrainingConfig(threads=1).resolve(ordered=True, events=events, users=100, items=100).replace(
        threads=decided.threads
    ), "what is learned does not depend on the machine"


def test_only_symmetric_bpr_is_not_deterministic_by_default() -> None:
    for model, loss in product(("symmetric", "asymmetric"), ("bpr", "wmrb", "softmax")):
        decided = resolved(TrainingConfig.from_mapping({"model": model, "loss": loss}))
        assert decided.deterministic == ((model, loss) != ("symmetric", "bpr"))
    assert resolved(TrainingConfig(model="symmetric", loss="bpr", deterministic=True)).deterministic is True


def test_a_resolved_config_is_a_config_in_which_nothing_is_open() -> None:
    decided = resolved(TrainingConfig())
    assert decided == TrainingConfig.from_mapping(decided.to_dict())
    assert hash(decided) == hash(TrainingConfig.from_mapping(decided.to_dict()))
    assert type(decided.replace(loss=None)) is TrainingConfig, "what is changed may be open again"
    with pytest.raises(ConfigError, match="loss is None: give one of bpr, wmrb, softmax"):
        ResolvedConfig.from_mapping(decided.to_dict() | {"loss": None})


def test_what_is_given_stays() -> None:
    given = TrainingConfig(
        recency=1.0, targets="shared", scale=3.0, learning_rate=0.5, epochs=7, threads=1, score="inner", masses="on"
    )
    decided = resolved(given)
    for field in fields(given):
        if getattr(given, field.name) is not None:
            assert getattr(decided, field.name) == getattr(given, field.name)


@pytest.mark.parametrize("options", [{"history": "causal"}, {"recency": 0.5}])
def test_order_cannot_be_used_where_there_is_none(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="needs the order of events, and these have no times: give times, or leave"):
        resolved(TrainingConfig(**options), ordered=False)


def test_learning_rates_by_hand() -> None:
    linear = TrainingConfig(epochs=4, learning_rate=0.8, learning_rate_decay=0.5)

    def rates(config: TrainingConfig, *epochs: int) -> list[float]:
        return [resolved(config).rate_in(epoch) for epoch in epochs]

    assert rates(linear, 1, 2, 3, 4) == pytest.approx([0.8, 0.7, 0.6, 0.5])
    inverse = TrainingConfig(epochs=4, learning_rate=0.6, learning_rate_decay=0.5, schedule="inverse")
    assert rates(inverse, 1, 2, 3) == pytest.approx([0.6, 0.6 / 1.5, 0.6 / 2])
    constant = linear.replace(learning_rate_decay=0.0)
    assert rates(constant, 4) == [0.8]
    warm = constant.replace(warmup_epochs=3)
    assert rates(warm, 1, 2, 3, 4, 5) == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])


def units(config: TrainingConfig, *, ordered: bool = True) -> tuple[float, float, float]:
    """The three settings that have a unit of length."""
    found = resolved(config, ordered=ordered)
    return found.learning_rate, found.scale, found.initial_width


def test_curvature_sets_what_has_a_unit_of_length() -> None:
    rate, scale, width = units(TrainingConfig(dimension=8))
    assert units(TrainingConfig(dimension=8, curvature=1)) == (rate, scale, width)
    assert units(TrainingConfig(dimension=8, curvature=4)) == (2 * rate, scale / 2, 2 * width)
    assert units(TrainingConfig(dimension=50)) == units(TrainingConfig(dimension=50, curvature=0.25))
    assert units(TrainingConfig(dimension=8, curvature=400))[2] == 0.9


def test_plain_gradients_grow_with_the_scale() -> None:
    plain = TrainingConfig(dimension=8, optimiser="rsgd", score="distance")
    rate, scale, width = units(plain)
    assert units(plain.replace(curvature=4)) == (4 * rate, scale / 2, 2 * width)


def test_settings_that_are_given_stay_with_any_curvature() -> None:
    once = resolved(TrainingConfig(dimension=8, curvature=4, scale=5.0))
    assert once.scale == 5
    assert resolved(TrainingConfig(**once.to_dict())) == once


def test_flat_space_and_inner_products_have_no_curvature() -> None:
    with pytest.raises(ConfigError, match="curvature=2 with geometry=euclidean: flat space has none"):
        TrainingConfig(geometry="euclidean", curvature=2)
    with pytest.raises(ConfigError, match="curvature=2 with score=inner: set score=distance"):
        resolved(TrainingConfig(score="inner", curvature=2))
