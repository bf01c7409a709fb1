"""Properties of the synthetic shop: counts, degrees, order, positions, and the same shop for the same seed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorentzrec.errors import ConfigError, InputError
from lorentzrec.synthetic.hierarchy import DEARER, HIERARCHY, PRICES, STEPS, STYLES
from lorentzrec.synthetic.latent import REJECTED, HyperbolicPlane
from lorentzrec.synthetic.shop import Space, SyntheticConfig, SyntheticShop, synthesize, synthetic_shop
from lorentzrec_paper.power_law import fit_power_law

SMALL = SyntheticConfig(customers=200, items=150, interactions=2_000, exponent=3.5, seed=3)
SPACES = get_args(Space)


@given(
    customers=st.integers(1, 60),
    items=st.integers(1, 90),
    fullness=st.floats(0, 1),
    space=st.sampled_from(SPACES),
    temperature=st.floats(0.05, 0.95),
    seed=st.integers(0, 10),
)
@settings(max_examples=25, deadline=None)
def test_counts_are_exact(
    customers: int, items: int, fullness: float, space: Space, temperature: float, seed: int
) -> None:
    longest = max(1, items // 4)
    interactions = customers + int(fullness * customers * (longest - 1))
    config = SyntheticConfig(
        customers=customers,
        items=items,
        interactions=interactions,
        space=space,
        exponent=8.0,
        temperature=temperature,
        seed=seed,
    )
    shop = SyntheticShop(config)
    assert shop.events.height == interactions
    assert shop.events["user"].n_unique() == customers
    assert shop.events.n_unique(["user", "item"]) == interactions
    assert shop.events.group_by("user").len()["len"].max() <= longest  # type: ignore[operator]
    assert shop.items["item"].n_unique() == items
    assert set(shop.events["item"]) <= set(shop.items["item"])


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("exponent", [2.4, 2.8, 3.2])
def test_item_degrees_have_the_given_exponent(space: Space, exponent: float) -> None:
    """Within three standard errors of the fit, itself made of some thousand items."""
    config = SyntheticConfig(customers=60_000, items=2_000, interactions=200_000, exponent=exponent, space=space)
    degrees = SyntheticShop(config).events.group_by("item").len()["len"].cast(pl.Int64).to_numpy()
    fit = fit_power_law(degrees, trials=0)
    assert fit.tail_count > 500
    assert fit.exponent == pytest.approx(exponent, abs=3 * fit.standard_error)


def test_both_spaces_give_items_of_the_same_rank_the_same_degree() -> None:
    """The control is a control: what differs is the geometry, not the popularity."""
    config = SyntheticConfig(customers=5_000, items=500, interactions=50_000, exponent=3.0)
    ranked = {
        space: np.sort(SyntheticShop(replace(config, space=space)).events.group_by("item").len()["len"].to_numpy())
        for space in SPACES
    }
    # Sums over the most popular tenth, and over all the rest; both worlds have the same expected degrees.
    for part in (slice(-50, None), slice(-50)):
        hyperbolic, flat = (int(ranked[space][part].sum()) for space in ("hyperbolic", "flat"))
        assert hyperbolic == pytest.approx(flat, rel=0.03)


def test_in_the_plane_popular_items_reach_further_and_in_the_square_they_do_not() -> None:
    """How far from a customer's place the items of the most and of the least popular layer are found."""
    generator = np.random.default_rng(0)
    reach = {}
    for space in SPACES:
        world = SyntheticShop(SyntheticConfig(customers=50_000, items=5_000, interactions=250_000, space=space)).world
        places = generator.random((20_000, world.dimension))
        coordinates = world.coordinates()
        first = coordinates["angle"] / (2 * np.pi) if space == "hyperbolic" else coordinates["x"]
        medians = []
        for layer in (0, len(world.layers.sizes) - 1):
            items = world.draw(generator, np.full(20_000, layer), places, np.full(20_000, 5), 1.0)
            found = items != REJECTED
            gap = np.abs(first[items[found]] - places[found, 0])
            medians.append(np.median(np.minimum(gap, 1 - gap)))
        reach[space] = medians[0] / medians[1]
    assert reach["hyperbolic"] > 5
    assert reach["flat"] == pytest.approx(1, abs=0.1)


def test_links_follow_the_linking_curve() -> None:
    """Against the slow twin: the curve, written out, at the distance of every item from one place, thinned by slots."""
    config = SyntheticConfig(customers=5_000, items=64, interactions=20_000, exponent=20.0, temperature=0.4)
    world = SyntheticShop(config).world
    assert isinstance(world, HyperbolicPlane)
    draws, activity = 200_000, 100
    generator = np.random.default_rng(1)
    items = world.draw(generator, np.zeros(draws, int), np.full((draws, 1), 0.5), np.full(draws, activity), 1.0)
    found = np.bincount(items[items != REJECTED], minlength=64)
    c = np.sin(np.pi * 0.4) / (0.4 * 20_000)
    # The average of the curve over each item's slot, a sixty-fourth of the circle, by the midpoint rule.
    turns = (np.arange(64)[:, None] + (np.arange(200) + 0.5) / 200) / 64
    angle = 2 * np.pi * np.abs(turns - 0.5)
    curve = 1 / (1 + (angle / (c * world.layers.degrees[:, None] * activity)) ** (1 / 0.4))
    expected = curve.mean(axis=1)
    expected *= found.sum() / expected.sum()
    assert np.abs(found - expected).max() < 5 * np.sqrt(expected.max())


def test_a_lower_temperature_means_more_clustering() -> None:
    """Neighbours in a history share a style more often the colder it is."""
    together = []
    for temperature in (0.1, 0.5, 0.9):
        shop = SyntheticShop(replace(SMALL, temperature=temperature, customers=1_000, interactions=10_000))
        styles = shop.events.join(shop.items, on="item", maintain_order="left")
        same = styles.select(
            (pl.col("department") == pl.col("department").shift()) & (pl.col("user") == pl.col("user").shift())
        )
        together.append(int(same.to_series().sum()))
    assert together[0] > 1.2 * together[1] > 1.2 * 1.2 * together[2]


def test_the_latest_event_is_the_best_predictor_of_the_next() -> None:
    shop = SyntheticShop(SyntheticConfig(customers=1_000, items=800, interactions=20_000, drift=0.1))
    events = shop.events.join(shop.items.select("item", "angle"), on="item", maintain_order="left")
    turns = events["angle"].to_numpy() / (2 * np.pi)
    last = np.flatnonzero(
        events.select(pl.col("user") != pl.col("user").shift(-1)).to_series().fill_null(True).to_numpy()
    )

    def median_gap(steps_back: int) -> float:
        """Of the angle between a customer's last item and the one `steps_back` before (histories have 10 or more)."""
        gap = np.abs(turns[last] - turns[last - steps_back])
        return float(np.median(np.minimum(gap, 1 - gap)))

    assert median_gap(1) < 0.7 * median_gap(9)


def test_times_rise_within_a_customer_and_stay_within_the_days() -> None:
    config = replace(SMALL, days=30, start=1_000_000)
    events = SyntheticShop(config).events
    assert events.equals(events.sort("user", "time", maintain_order=True))
    assert events["time"].min() >= 1_000_000  # type: ignore[operator]
    assert events["time"].max() <= 1_000_000 + 30 * 86_400  # type: ignore[operator]
    interactions = SyntheticShop(config).interactions()
    assert interactions.ordered
    assert interactions.tied_share < 0.01


@pytest.mark.parametrize("space", SPACES)
def test_the_hierarchy_follows_the_latent_position(space: Space) -> None:
    """Items of one style are in one sector of the circle, or in one cluster of the square."""
    items = SyntheticShop(replace(SMALL, items=1_000, space=space)).items
    assert set(items["department"]) == set(HIERARCHY)
    place = items.select("department", "category", "style").rows()
    if space == "hyperbolic":
        sector = (items["angle"].to_numpy() / (2 * np.pi) * len(STYLES)).astype(int)
        assert [STYLES[number] for number in sector] == place
    else:
        # A cluster is a sixteenth of the side wide; its items scatter around it, the edges being glued.
        for _, cluster in items.group_by("department", "category", "style"):
            for axis, width in (("x", 1 / 16), ("y", 1 / 8)):
                offset = (cluster[axis].to_numpy() - cluster[axis][0] + 0.5) % 1 - 0.5
                assert np.abs(offset).max() < 1.5 * width
    title, item, category, style = items.select("title", "item", "category", "style").row(0)
    assert title == f"{style} {category} {item[1:]}"


def test_prices_follow_from_department_style_and_number() -> None:
    items = SyntheticShop(SMALL).items
    for department, style, item, price in items.select("department", "style", "item", "price").rows():
        steps = HIERARCHY[department][1].index(style) + int(item[1:]) % STEPS
        assert price == pytest.approx(round(PRICES[department] * (1 + DEARER * steps)) - 0.05, abs=0.011)


def test_a_popular_item_is_near_the_origin() -> None:
    shop = SyntheticShop(replace(SMALL, customers=2_000, interactions=20_000))
    degrees = shop.events.group_by("item").len().join(shop.items, on="item")
    assert np.corrcoef(np.log(degrees["len"].to_numpy()), degrees["radius"].to_numpy())[0, 1] < -0.9


def test_ids_do_not_reveal_popularity() -> None:
    degrees = SyntheticShop(SMALL).events.group_by("item").len().sort("item")["len"].to_numpy()
    assert abs(np.corrcoef(np.arange(len(degrees)), degrees)[0, 1]) < 0.2


def test_the_seed_decides_everything() -> None:
    shop, again = (synthetic_shop(100, 80, 900, seed=5) for _ in range(2))
    assert shop.events.equals(again.events)
    assert shop.items.equals(again.items)
    assert not shop.events.equals(synthetic_shop(100, 80, 900, seed=6).events)


def test_files_hold_the_shop_and_blocks_do_not_depend_on_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorentzrec.synthetic.config.BLOCK_EVENTS", 300)
    calls: list[tuple[int, int]] = []
    report = synthesize(SMALL, tmp_path / "shop", progress=lambda done, total: calls.append((done, total)))
    # 300 * 200 // 2000 = 30 customers a block, so 7 blocks.
    assert calls == [(done, 7) for done in range(1, 8)]
    assert sorted(path.name for path in report.events.iterdir()) == [f"part-{n:05d}.parquet" for n in range(7)]
    shop = SyntheticShop(SMALL)
    events = pl.read_parquet(report.events / "*.parquet")
    assert events.equals(shop.events)
    assert SyntheticShop(SMALL).block(4).equals(pl.read_parquet(report.events / "part-00004.parquet"))
    items = pl.read_parquet(report.items)
    assert items.equals(shop.items)
    counted = items.join(events.group_by("item").len(), on="item", how="left", maintain_order="left")["len"].fill_null(
        0
    )
    assert counted.to_list() == report.item_degrees.tolist()
    manifest = json.loads((tmp_path / "shop" / "manifest.json").read_text())
    assert (manifest["format"], manifest["format_version"]) == ("lorentzrec synthetic shop", 1)
    assert manifest["options"]["customers"] == 200
    assert manifest["items_met"] == int((counted > 0).sum())


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesize(SMALL, tmp_path / "shop", progress=interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"customers": 0}, "customers is 0"),
        ({"interactions": 199}, "199 interactions of 200 customers"),
        ({"interactions": 200 * 37 + 1}, "a quarter of the items"),
        ({"temperature": 1.0}, "temperature is 1.0"),
        ({"exponent": 1.0}, "exponent is 1.0"),
        ({"drift": float("nan")}, "drift is nan"),
        ({"session_length": 0.5}, "session_length is 0.5"),
        ({"seed": -1}, "seed is -1"),
        ({"space": "round"}, "give one of hyperbolic, flat"),
    ],
)
def test_impossible_shops_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(SMALL, **options)


def test_a_power_law_that_does_not_fit_the_customers_is_refused() -> None:
    config = SyntheticConfig(customers=2_000, items=500, interactions=60_000, exponent=2.8)
    with pytest.raises(ConfigError, match=r"most popular item needs 2,\d+ customers; .*: give exponent=2.9 or more"):
        SyntheticShop(config)
    assert SyntheticShop(replace(config, exponent=2.9)).items.height == 500


def test_without_an_exponent_the_usual_one_or_the_next_that_fits_is_used() -> None:
    usual = SyntheticShop(SyntheticConfig(customers=3_000, items=500, interactions=60_000))
    assert (usual.config.exponent, usual.notes) == (2.8, ())
    fitting = SyntheticShop(SyntheticConfig(customers=2_000, items=500, interactions=60_000))
    assert fitting.config.exponent == 2.9
    assert [line.partition(":")[2] for line in fitting.notes] == [" exponent=2.9 is used"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(InputError, match="choose another name"):
        synthesize(SMALL, tmp_path)
    assert (tmp_path / "diary.txt").read_text() == "mine"


def test_items_are_replaced_after_their_lifetime() -> None:
    config = SyntheticConfig(customers=300, items=40, interactions=2000, days=60, lifetime=20, seed=3)
    shop, without = SyntheticShop(config), SyntheticShop(replace(config, lifetime=None))
    events, plain = shop.events, without.events
    assert events["item"].str.split("-").list.first().equals(plain["item"]), "only the ids differ"
    assert set(events["item"]) <= set(shop.items["item"])
    assert shop.items["item"].n_unique() == len(shop.items) > 2 * config.items
    days = (
        events.with_columns((pl.col("time") - config.start) // 86_400)
        .group_by("item")
        .agg((pl.col("time").max() - pl.col("time").min()).alias("span"))
    )
    assert (days["span"] < 20).all()
    place = events.filter(pl.col("item").str.starts_with("p0007")).sort("time")["item"]
    assert place.rle().struct.field("value").is_sorted(), "one after another"


def test_orders_have_one_time_and_the_given_size() -> None:
    config = replace(SMALL, interactions=4_000, order_size=5.0)
    events = SyntheticShop(config).events
    orders = events.group_by("order").agg(pl.len(), pl.col("user", "time", "item").n_unique())
    assert events.height == 4_000
    assert (orders["user"] == 1).all()
    assert (orders["time"] == 1).all()
    assert (orders["item"] == orders["len"]).all()
    assert 2.5 < orders["len"].mean() < 5.5  # type: ignore[operator]
    assert events.group_by("user", maintain_order=True).agg(pl.col("time").diff().min() >= 0)["time"].all()
    data = SyntheticShop(config).interactions()
    assert data.in_orders
    assert SyntheticShop(config).events.equals(events)
    assert not SyntheticShop(replace(config, seed=4)).events.equals(events)


def test_items_are_repeated_with_their_own_probabilities() -> None:
    config = replace(SMALL, customers=400, interactions=6_000, order_size=3.0, repeats=0.5)
    shop = SyntheticShop(config)
    events = shop.events
    assert events.height == 6_000
    assert events.n_unique(["order", "item"]) == 6_000
    assert 0.2 < 1 - events.n_unique(["user", "item"]) / 6_000 < 0.6
    assert abs(shop.repeat_probabilities.mean() - 0.5) < 0.1
    share = events.group_by("item").agg(repeated=1 - pl.col("user").n_unique() / pl.len(), events=pl.len())
    likely = pl.DataFrame({"item": shop._items_as_drawn["item"], "likely": shop.repeat_probabilities})
    known = share.filter(pl.col("events") >= 30).join(likely, on="item")
    assert np.corrcoef(known["repeated"], known["likely"])[0, 1] > 0.6
    assert SyntheticShop(config).events.equals(events)
    alone = SyntheticShop(replace(config, order_size=None)).events
    assert alone.columns == ["user", "item", "time"]
    assert alone.n_unique(["user", "item"]) < 5_000


def test_repeats_change_nothing_else() -> None:
    plain, repeated = (SyntheticShop(replace(SMALL, order_size=3.0, repeats=share)).events for share in (0.0, 0.4))
    assert plain.drop("item").equals(repeated.drop("item"))
    assert plain.n_unique(["user", "item"]) == plain.height


def test_orders_are_written_and_recognised(tmp_path: Path) -> None:
    from lorentzrec import Interactions

    config = replace(SMALL, order_size=4.0, repeats=0.3)
    report = synthesize(config, tmp_path / "shop")
    assert Interactions.from_file(report.events).digest == SyntheticShop(config).interactions().digest


@pytest.mark.parametrize("seasons", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("space", SPACES)
def test_items_have_seasons(space: Space, seasons: float) -> None:
    """With sales of 1 + s cos x, the mean of cos x would be s / 2; who finds nothing in season takes something else."""
    shop = SyntheticShop(replace(SMALL, customers=2_000, interactions=20_000, seasons=seasons, space=space))
    best = dict(zip(shop._items_as_drawn["item"], shop.best_days, strict=True))
    days = (shop.events["time"].to_numpy() - SMALL.start) / 86_400 - [best[item] for item in shop.events["item"]]
    assert np.cos(days * 2 * np.pi / 365).mean() == pytest.approx(0.45 * seasons, abs=0.05)
    assert shop.events.n_unique(["user", "item"]) == shop.events.height == 20_000


def test_seasons_work_with_orders_repeats_and_births() -> None:
    options = replace(SMALL, customers=500, interactions=5_000, seasons=0.8, order_size=4, repeats=0.3, lifetime=90)
    first, second = (SyntheticShop(options).events for _ in range(2))
    assert first.equals(second)
    assert first.height == 5_000
    assert first["order"].n_unique() < 2_000
