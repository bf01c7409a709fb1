"""The gate of a publish: what it refuses, what it cannot check, and what a refusal leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import Interactions, TrainingConfig, train, update
from lorentzrec._version import __version__
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.model.model import Model
from lorentzrec.model.reality_check import CheckedSystem, RealityCheck
from lorentzrec.points.points import Points
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.versions import LONGEST_REASON
from lorentzrec.serving.versions.comparison import VersionRecommender, measure_overlap
from lorentzrec.serving.versions.gate import (
    DEFAULTS,
    FIRST_VERSION,
    HeldOutEvents,
    PublishRefused,
    Result,
    parse_requirements,
)
from lorentzrec.serving.versions.measured_days import MeasuredDay
from lorentzrec.serving.versions.publish import publish
from lorentzrec.serving.versions.version import open_version
from lorentzrec.synthetic.shop import synthetic_shop
from tests.serving.small_shop import shop_model, shop_points, shop_version

ITEMS, OVERLAP = DEFAULTS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as opened:
        yield opened


def other_points(model: Model, seed: int = 77) -> Model:
    """The same items at other places."""
    points = shop_points(len(model.items), "hyperboloid", seed)
    return model.with_points(item_points=points, history_points=points)


def statuses(results: Sequence[Result]) -> dict[str, str]:
    return {result.requirement: result.status for result in results}


@pytest.mark.parametrize(
    ("given", "all_of_them"),
    [
        ([], [ITEMS, OVERLAP]),
        (["items >= 5"], [OVERLAP, "items>=5"]),
        (["overlap@20>=.5"], [ITEMS, "overlap@20>=0.5"]),
        (["items>=current"], [OVERLAP, "items>=1*current"]),
        (["check", "check >= item-knn"], [ITEMS, OVERLAP, "check", "check>=item-knn"]),
        (["ndcg@10>=0.95*current", "hr@5>=0.1"], [ITEMS, OVERLAP, "ndcg@10>=0.95*current", "hr@5>=0.1"]),
    ],
)
def test_requirements_as_text(given: list[str], all_of_them: list[str]) -> None:
    assert [str(requirement) for requirement in parse_requirements(given)] == all_of_them


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("items", "is not MEASURE>=NUMBER or MEASURE>=NUMBER*current"),
        ("items<=5", "measures are items, overlap, ndcg, hr, recall, mrr"),
        ("clicks>=5", "measures are items, overlap, ndcg"),
        ("items>=five", "is not MEASURE>=NUMBER"),
        ("items>=0.9*last", "is not MEASURE>=NUMBER"),
        ("items>=-1", "is not MEASURE>=NUMBER"),
        ("ndcg@0>=0.1", "is not MEASURE>=NUMBER"),
        ("items@10>=5", "has a length of lists: leave @ out"),
        ("ndcg>=0.1", "has no length of lists: give a length of the lists, such as ndcg@10"),
        ("check>=0.1", "is not MEASURE>=NUMBER"),
        ("check>=chance", "give one of popularity, recent-popularity, own-frequency, item-knn"),
        ("overlap@10>=0.5*current", "compares with the current version twice"),
    ],
)
def test_texts_that_are_no_requirement(store: Store, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        publish(shop_model(), store, require=[text])
    assert message in str(refused.value)
    assert store.versions() == []


def test_a_first_version_has_nothing_to_be_compared_with(store: Store) -> None:
    given = ["ndcg@10>=0.95*current", "items>=40"]
    results = publish(shop_model(), store, require=given).gate
    assert statuses(results) == {OVERLAP: "not checked", given[0]: "not checked", given[1]: "met"}
    assert {result.measured for result in results[:2]} == {FIRST_VERSION}
    assert store.activations()[-1].reason == "published"


@pytest.mark.parametrize(("items", "met"), [(36, True), (35, False)])
def test_a_tenth_of_the_items_may_go(store: Store, tmp_path: Path, items: int, met: bool) -> None:
    first = publish(shop_model(), store).name
    fewer = shop_model(items=items)
    if met:
        assert publish(fewer, store).gate[0].status == "met"
        return
    log = store.activations()
    with pytest.raises(PublishRefused) as refused:
        publish(fewer, store, histories=fewer.histories)
    assert str(refused.value) == (
        f"nothing is published to {store.url}, since {ITEMS} is missed: 35 items, and the current version {first} has "
        "40: train again on the right data, give another requirement, or publish with `force`"
    )
    assert refused.value.exit_code == 2
    assert (store.versions(), store.activations()) == ([first], log)
    assert [path.name for path in (tmp_path / "store" / "versions").iterdir()] == [first]
    assert store.history("u0") == [], "no histories of a version that was refused"
    assert publish(fewer, store, require=["items>=0.5*current"]).gate[-1].status == "met"


def test_other_recommendations_are_refused(store: Store) -> None:
    """Random points: about k / candidates of each list is the same."""
    model = shop_model(items=300)
    assert model.histories is not None
    few = model.histories.select(np.random.default_rng(0).random(len(model.histories)) < 0.005)
    model = replace(model, histories=few)
    first = publish(model, store).name
    with pytest.raises(PublishRefused) as refused:
        publish(other_points(model), store)
    met, missed = refused.value.results
    assert (met.status, missed.status) == ("met", "missed")
    assert missed.value is not None
    assert 0 < missed.value < 0.15
    assert missed.measured == f"{missed.value:.3f} over 50 histories and 300 items of both versions"
    assert store.versions() == [first]


def test_force_is_logged_with_what_it_overrode(store: Store) -> None:
    publish(shop_model(), store, force=True, reason="the first")
    assert store.activations()[-1].reason == "the first", "nothing was overridden"
    forced = publish(other_points(shop_model(items=4)), store, force=True, reason="a new catalogue")
    reason = store.activations()[-1].reason
    assert reason.startswith(f"a new catalogue; forced, although these are not met: {ITEMS} (4 items, and the current ")
    assert statuses(forced.gate)[ITEMS] == "missed"
    publish(shop_model(items=2), store, force=True, reason="x" * LONGEST_REASON)
    assert store.activations()[-1].reason == "x" * (LONGEST_REASON - 3) + "..."


def test_a_damaged_current_version_does_not_prevent_its_repair(store: Store, tmp_path: Path) -> None:
    first = publish(shop_model(), store).name
    points = tmp_path / "store" / "versions" / first / "points.safetensors"
    points.write_bytes(points.read_bytes()[:-1])
    with pytest.raises(PublishRefused, match=r"items>=1\*current is not checked: .*points.safetensors is damaged"):
        publish(shop_model(), store, require=["items>=current"])
    results = publish(shop_model(), store).gate
    assert statuses(results) == {ITEMS: "not checked", OVERLAP: "not checked"}
    assert all("points.safetensors is damaged" in result.measured for result in results)


def test_customers_who_have_nearly_everything(store: Store) -> None:
    """For them any two versions list the same."""
    publish(shop_model(items=10), store)
    reason = "no history leaves more than 10 of the items that both versions have to rank"
    results = publish(other_points(shop_model(items=10)), store).gate
    assert (results[1].status, results[1].measured) == ("not checked", reason)


def test_no_common_item(store: Store) -> None:
    publish(shop_model(), store)
    with pytest.raises(PublishRefused, match=r"overlap@10>=0.27 is missed: 0.000 over 0 histories and 0 items of both"):
        publish(shop_model(strings=False), store)


def test_the_overlap_goes_with_the_version(store: Store, tmp_path: Path) -> None:
    def compared(name: str) -> tuple[str | None, float | None]:
        opened = open_version(store.fetch(name, tmp_path / name))
        opened.items.close()
        return opened.compared

    first, second = (publish(shop_model(), store).name for _ in range(2))
    third = publish(replace(shop_model(), histories=None), store).name
    other = publish(other_points(shop_model()), store, force=True, keep=4)
    assert [compared(name) for name in (first, second, third)] == [(None, None), (first, 1.0), (second, None)]
    measured = next(one.value for one in other.gate if one.requirement == OVERLAP)
    assert compared(other.name) == (third, measured)


@pytest.mark.parametrize(
    ("days", "reason"),
    [
        ([MeasuredDay(time=0.0)] * 31, "31 days are too many for a version: give the last 30"),
        ([MeasuredDay(time=0.0, ndcg=float("inf"))], "ndcg is inf: give a number"),
        ([MeasuredDay(time="now")], "time is 'now'"),  # type: ignore[arg-type]
    ],
)
def test_days_that_are_not_measured_days(store: Store, days: list[MeasuredDay], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        publish(shop_model(), store, days=days)
    assert store.versions() == []


def test_a_model_without_histories(store: Store) -> None:
    publish(shop_model(), store)
    bare = replace(shop_model(), histories=None)
    results = publish(bare, store).gate
    assert (results[1].status, results[1].measured) == ("not checked", "the model was saved without histories")
    with pytest.raises(PublishRefused, match="the model was saved without histories"):
        publish(bare, store, require=["overlap@10>=0.1"])


def test_overlap_by_hand(tmp_path: Path) -> None:
    """Of items on a line, the nearest to the last one of the history; the second version has them in other rows, and
    one that moved to the end of the line."""

    def line(ids: str, places: dict[str, float]) -> Model:
        data = Interactions.from_pairs([f"u{item}" for item in ids] + ["x", "y"], [*ids, "a", "z"], times=None)
        space = np.array([[places[str(item)]] for item in data.items.series.to_list()], np.float32)
        points = np.concatenate([np.sqrt(1 + space**2), space], axis=1)
        config = TrainingConfig(
            geometry="hyperboloid", model="asymmetric", score="distance", recency=1.0, targets="shared", dimension=1
        ).resolve_for(data)
        return Model(
            config, data.items, Points(points, points, data.item_counts, config.space), data.users, histories=data
        )

    places = {"a": 0.0, "b": 0.1, "c": 0.2, "d": 0.3, "e": 0.4, "z": 9.0}
    first = shop_version(tmp_path / "1", line("abcdz", places), items=None)
    moved = line("ebdcaz", places | {"b": 5.0})
    second = shop_version(tmp_path / "2", moved, items=None)
    assert moved.histories is not None
    found = measure_overlap(first, second, moved.histories, k=2)
    # e is not in the first version, so its customer has no history. Best two of a, b, c, d and z in each version:
    # a: bc and cd, half. b: ac and zd, none. c: bd and da, half. d: cb and ca, half. z: dc and bd, half.
    assert (found.histories, found.items) == (7, 5)
    assert found.value == pytest.approx((0.5 + 0 + 0.5 + 0.5 + 0.5 + 0.5 + 0.5) / 7)


@pytest.mark.parametrize("memory", ["auto", "none"])
def test_a_version_scores_as_its_model(tmp_path: Path, memory: str) -> None:
    data = small_data()
    config = TrainingConfig.from_mapping({"dimension": 3, "epochs": 1, "seed": 1} | ({"memory": memory}))
    model = train(data, config)
    version = shop_version(tmp_path / "version", model, items=None)
    rows = np.arange(30)
    scores = VersionRecommender(version).score_histories(data, rows)
    np.testing.assert_allclose(scores, model.score_histories(data, rows), rtol=1e-6)


def small_data(seed: int = 3) -> Interactions:
    return synthetic_shop(600, 150, 6_000, seed=seed).interactions()


def split_by_time(data: Interactions, share: float) -> tuple[Interactions, Interactions]:
    assert data.times is not None
    early = data.times <= np.quantile(data.times, share)
    return data.select(early), data.select(~early)


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    """A model of the first half of a shop's events, one of the next fifth as well, and a bad one of the same."""
    data = small_data()
    half, _ = split_by_time(data, 0.5)
    training, test = split_by_time(data, 0.7)
    config = TrainingConfig(dimension=8, seed=0)
    return {
        "first": train(half, config),
        "second": train(training, config.replace(seed=1)),
        "bad": other_points_of(train(training, config.replace(memory="none", epochs=1))),
        "held_out": HeldOutEvents(test, training),
        "early": HeldOutEvents(half, half),
    }


def other_points_of(model: Model) -> Model:
    shuffled = np.random.default_rng(0).permutation(len(model.items))
    points = np.ascontiguousarray(model.item_points[shuffled])
    return model.with_points(item_points=points, history_points=points)


QUALITY = "ndcg@10>=0.95*current"


def test_quality_on_events_after_those_of_the_current_version(store: Store, trained: dict[str, Any]) -> None:
    first = publish(trained["first"], store).name
    with pytest.raises(PublishRefused) as refused:
        publish(trained["bad"], store, require=[QUALITY], held_out=trained["held_out"])
    worse = refused.value.results[-1]
    assert worse.status == "missed"
    low, value, high = (float(str(number)) for number in (worse.low, worse.value, worse.high))
    assert low <= value <= high < 0.95
    assert store.state().version == first
    better = publish(trained["second"], store, require=[QUALITY, "hr@5>=0.001"], held_out=trained["held_out"])
    assert [result.status for result in better.gate[-2:]] == ["met", "met"]
    with pytest.raises(PublishRefused, match=r"hr@5>=0.9 is missed: 0\.\d+ \[0\.\d+, 0\.\d+\] for \d+ customers"):
        publish(trained["second"], store, require=["hr@5>=0.9"], held_out=trained["held_out"])


def test_quality_that_cannot_be_checked(store: Store, trained: dict[str, Any]) -> None:
    first = publish(trained["first"], store).name

    def reason(model: Model, held_out: HeldOutEvents | None) -> str:
        with pytest.raises(PublishRefused) as refused:
            publish(model, store, require=[QUALITY], held_out=held_out)
        assert refused.value.results[-1].status == "not checked"
        return refused.value.results[-1].measured

    assert reason(trained["second"], None).startswith("there are no held-out events: give `test`")
    newest = f"no held-out event is newer than the data of version {first}, which end at "
    assert reason(trained["second"], trained["early"]).startswith(newest)
    timeless = HeldOutEvents(replace(trained["held_out"].test, times=None), trained["held_out"].histories)
    assert reason(trained["second"], timeless) == "the held-out events have no times"
    unknown = publish(replace(trained["first"], newest_time=None), store, force=True).name
    expected = f"the times of the data of version {unknown} are not known"
    assert reason(trained["second"], trained["held_out"]) == expected


def test_junk_is_refused_and_honest_models_are_not(store: Store) -> None:
    """A model of a tenth of the items with two dimensions and one epoch, against retrainings and updates."""
    data = small_data()
    early, _ = split_by_time(data, 0.9)
    config = TrainingConfig(dimension=8)
    base = train(early, config.replace(seed=0))
    publish(base, store)
    tenth = np.random.default_rng(0).random(len(data.items)) < 0.1
    some = early.select(tenth[early.item_rows])
    users, items = some.users.ids(some.user_rows), some.items.ids(some.item_rows)
    junk = train(Interactions.from_pairs(users, items, times=some.times), TrainingConfig(dimension=2, epochs=1))
    with pytest.raises(PublishRefused) as refused:
        publish(junk, store)
    assert "missed" in statuses(refused.value.results).values()
    assert statuses(refused.value.results)[ITEMS] == "missed"
    for honest in (
        train(early, config.replace(seed=1)),
        train(data, config.replace(seed=2)),
        update(base, data),
        train(early, config.replace(seed=3, dimension=12)),
    ):
        assert set(statuses(publish(honest, store).gate).values()) == {"met"}


def test_the_manifest_has_the_lineage(store: Store, tmp_path: Path) -> None:
    data = small_data()
    early, _ = split_by_time(data, 0.9)
    assert data.times is not None
    assert early.times is not None
    base = train(early, TrainingConfig(dimension=3, epochs=1))
    base.save(tmp_path / "model")
    later = update(base, data)
    later.save(tmp_path / "later")
    from lorentzrec import load

    assert (base.parent, load(tmp_path / "later").parent) == (None, load(tmp_path / "model").fingerprint)
    first = publish(base, store, force=True)
    second = publish(load(tmp_path / "later"), store, force=True)
    manifest = json.loads((tmp_path / "store" / "versions" / second.name / "manifest.json").read_text())
    assert (first.manifest["parent"], manifest["parent"]) == (None, first.name)
    assert manifest["parent_fingerprint"] == first.manifest["fingerprint"] == base.fingerprint
    assert manifest["fingerprint"] != base.fingerprint
    assert manifest["versions"]["lorentzrec"] == __version__
    assert [first.manifest[name] for name in TIMES] == [early.times.min(), early.times.max()]
    assert [manifest[name] for name in TIMES] == [data.times.min(), data.times.max()]
    timeless = publish(shop_model_without_times(), store, force=True)
    assert [timeless.manifest[name] for name in TIMES] == [None, None]


TIMES = ("oldest_time", "newest_time")


def shop_model_without_times() -> Model:
    data = replace(small_data(), times=None)
    return train(data, TrainingConfig(dimension=3, epochs=1))


def test_a_version_published_meanwhile_is_compared_with(store: Store) -> None:
    """Two publishers: the second one ends first, and the first one does not fit what is current then."""
    publish(shop_model(), store)
    others: list[str] = []

    def progress(what: str, share: float) -> None:
        if what == "checking what was uploaded" and not others:
            with closing(open_store(store.url)) as other:
                others.append(publish(shop_model(items=80), other, force=True).name)

    with pytest.raises(PublishRefused, match=r"40 items, and the current version .* has 80"):
        publish(shop_model(), store, progress=progress)
    assert store.state().version == others[0]
    assert len(store.versions()) == 2, "what was uploaded is removed"


def test_the_current_version_may_go_while_it_is_fetched(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(shop_model(), store)
    fetch, others = store.fetch, list[str]()

    def fetch_late(name: str, cache: Path) -> Path:
        if not others:
            others.append("")
            with closing(open_store(store.url)) as other:
                others[0] = publish(shop_model(items=44), other, keep=1).name
        return fetch(name, cache)

    monkeypatch.setattr(store, "fetch", fetch_late)
    published = publish(shop_model(), store)
    assert f"the current version {others[0]} has 44" in published.gate[0].measured


def test_results_as_json(store: Store) -> None:
    publish(shop_model(), store)
    results = publish(shop_model(), store).gate
    assert results[1].measured.startswith("1.000 over ")
    assert json.loads(json.dumps([result.to_dict() for result in results]))[1] == {
        "requirement": OVERLAP,
        "status": "met",
        "measured": results[1].measured,
        "value": 1.0,
        "low": None,
        "high": None,
        "refuses": False,
    }
    infinite = Result(QUALITY, "met", "", np.inf, 1.0, np.inf)
    assert infinite.to_dict()["value"] is None
    assert isinstance(PublishRefused("", results), InputError)


def test_the_check_of_a_model_is_part_of_its_version(store: Store) -> None:
    """popularity is level with the model, and item-kNN ahead of it. Own frequency was not compared."""
    row: dict[str, Any] = {"recall": 0.5, "standard_error": 0.01}
    check = RealityCheck(
        rows=(
            CheckedSystem(name="this model", ndcg=0.1, recall=0.5),
            CheckedSystem(name="popularity", ndcg=0.11, difference=-0.01, **row),
            CheckedSystem(name="item-knn", ndcg=0.2, difference=-0.1, significant=True, **row),
        ),
        customers=250,
        candidates="unseen",
    )
    checked = replace(shop_model(), check=check)
    published = publish(checked, store, require=["check>=popularity"])
    assert published.manifest["check"] == check.to_dict()
    assert published.gate[-1].measured == "NDCG@10 0.1000, popularity 0.1100 on held-out events of 250 customers"
    for requirement, status in (
        ("check", "missed"),
        ("check>=item-knn", "missed"),
        ("check>=own-frequency", "not checked"),
    ):
        with pytest.raises(PublishRefused) as refused:
            publish(checked, store, require=[requirement])
        assert statuses(refused.value.results)[requirement] == status
    with pytest.raises(PublishRefused, match="the model has no reality check"):
        publish(shop_model(), store, require=["check"])
    assert len(store.versions()) == 1
