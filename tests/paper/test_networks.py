"""The arithmetic of the network experiment."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.studies.parts import Part, PartStore
from lorentzrec_paper import networks
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Context
from lorentzrec_paper.network_statistics import NetworkStatistics, network_statistics


def test_unevenness_by_hand() -> None:
    # items 1, 2, 3 have 2, 1, 1 customers; A joins 1 and 2, B joins 1 and 3
    graph = np.array([[True, True, False], [True, False, True]])
    third = (1 / 3 * (2 / 3) ** 2 + 2 / 3 * (1 / 3) ** 2) ** 0.5 / (4 / 3)
    assert astuple(networks.unevenness(graph))[:3] == pytest.approx((third, third, third))


def test_statistics_are_read_from_disk_as_they_were(tmp_path: Path) -> None:
    users, items = zip(*[(user, item) for user in range(20) for item in range(1 + user)], strict=True)
    data = Interactions.from_pairs(users, items)

    class Found:
        title = "x"

        def interactions(self) -> Interactions:
            return data

    before = network_statistics(data, name="x", trials=3)
    context = Context(DataFolder(), PartStore(tmp_path), say=lambda line: None)
    (after,) = context.run(NetworkStatistics, [Part("x", {}, lambda: networks.measure(Found(), {}, 3))])  # type: ignore[arg-type]
    assert after == before
    np.testing.assert_array_equal(after.degrees, before.degrees)
    np.testing.assert_array_equal(after.weighted_degrees, before.weighted_degrees)


def test_filters_are_the_papers() -> None:
    assert networks.filters_of("movielens-1m") == {"minimum_rating": 4.0}
    assert networks.filters_of("amazon-toys-and-games") == {"minimum_user_events": 21}
    assert networks.filters_of("amazon-toys-and-games-5core") == {}


def test_every_item_of_a_small_graph_is_bought() -> None:
    graph = networks.simulated_graph(1)
    assert graph.any(axis=0).all()
    assert set(graph.sum(axis=1)) <= {2, 3, 4}
