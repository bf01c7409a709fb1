"""Baselines of shops against numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.data.joining import reindex
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.shop_baselines import TIFUKNN, UPCF, OwnFrequency, RecentPopularity

DAY = 86_400
ROWS = [
    # three orders of ann, two of bob, one of cat
    ("ann", "milk", 0),
    ("ann", "bread", 0),
    ("ann", "milk", 10),
    ("ann", "milk", 20),
    ("ann", "tea", 20),
    ("bob", "tea", 5),
    ("bob", "milk", 20),
    ("cat", "rum", 20),
]


def shop() -> Interactions:
    users, items, days = zip(*ROWS, strict=True)
    return Interactions.from_pairs(list(users), list(items), [day * DAY for day in days])


def scores(system: OwnFrequency | RecentPopularity | TIFUKNN | UPCF, user: str) -> dict[str, float]:
    data = shop()
    found = system.score_histories(data, np.array([data.users.row(user)]))[0]
    return dict(zip(data.items.series.to_list(), found.tolist(), strict=True))


def test_recent_popularity_counts_the_last_days() -> None:
    found = scores(RecentPopularity(shop(), days=12), "cat")
    assert found == pytest.approx({"milk": 3, "tea": 1, "rum": 1, "bread": 0}, abs=1e-5)
    assert found["tea"] > found["rum"], "all events decide between equals"


def test_a_clock_ahead_is_not_the_newest_event() -> None:
    users, items, days = zip(*ROWS, ("cat", "bread", 30_000), strict=True)
    data = Interactions.from_pairs(users, items, np.array(days) * DAY)
    found = RecentPopularity(data, days=12).score_histories(data, np.array([0]))[0]
    found = dict(zip(data.items.series.to_list(), found.tolist(), strict=True))
    assert found == pytest.approx({"milk": 3, "tea": 1, "rum": 1, "bread": 0}, abs=1e-5)


def test_own_frequency() -> None:
    assert scores(OwnFrequency(shop()), "ann") == pytest.approx({"milk": 3, "bread": 1, "tea": 1, "rum": 0}, abs=1e-5)


def test_own_frequency_with_a_half_life() -> None:
    found = scores(OwnFrequency(shop(), half_life=10), "ann")
    assert found == pytest.approx({"milk": 1.75, "bread": 0.25, "tea": 1, "rum": 0}, abs=1e-5)


def test_tifu_knn_by_hand() -> None:
    """With groups of two orders, ann's two newest are one group and her oldest is another."""
    settings = {"group_size": 2, "within": 0.5, "between": 0.4, "own": 0.75}
    ann = {"milk": (1 + 0.5 + 0.4) / 4, "bread": 0.4 / 4, "tea": 1 / 4, "rum": 0}
    bob = {"milk": 1 / 2, "tea": 0.5 / 2, "bread": 0, "rum": 0}
    found = scores(TIFUKNN(shop(), neighbours=1, **settings), "ann")  # type: ignore[arg-type]
    assert found == pytest.approx({item: 0.75 * ann[item] + 0.25 * bob[item] for item in ann}, abs=1e-5)


def test_up_cf_by_hand() -> None:
    """Of ann's last two orders, both have milk; bob and ann have milk and tea in common."""
    found = scores(UPCF(shop(), window=2, locality=2, asymmetry=0.5, neighbours=3), "ann")
    similar = (2 / np.sqrt(3 * 2)) ** 2
    expected = {"milk": 1 + similar / 2, "tea": 1 / 2 + similar / 2, "bread": 0, "rum": 0}
    assert found == pytest.approx(expected, abs=1e-5)


def test_a_customer_who_is_not_in_the_training_data() -> None:
    train = shop()
    history = Interactions.from_pairs(["new", "new"], ["milk", "tea"], [0, DAY])
    history = reindex(history, history.users, train.items)
    for system in (TIFUKNN(train, neighbours=2), UPCF(train), OwnFrequency(train)):
        found = system.score_histories(history, np.array([0]))[0]
        assert set(np.argsort(-found)[:2].tolist()) == set(train.items.rows(["milk", "tea"]).tolist())


def test_bad_settings() -> None:
    with pytest.raises(ConfigError, match="half_life is 0"):
        OwnFrequency(shop(), half_life=0)
    with pytest.raises(ConfigError, match="decays above 0"):
        TIFUKNN(shop(), within=0)
    with pytest.raises(ConfigError, match="window=0"):
        UPCF(shop(), window=0)
    untimed = Interactions.from_pairs(["a"], ["b"])
    with pytest.raises(InputError, match="need times"):
        RecentPopularity(untimed)


def test_a_customer_is_no_neighbour_of_their_own() -> None:
    """With more neighbours than customers, ann's score has the mean of bob and cat only."""
    own = scores(TIFUKNN(shop(), neighbours=9, own=0), "ann")
    assert own["bread"] == pytest.approx(0, abs=1e-5)
    assert own["rum"] > 0.01
