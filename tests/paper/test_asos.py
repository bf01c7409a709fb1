"""The commercial shape in tiny form: two shops from their generation to verdicts and map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lorentzrec.evaluation.report import Metric
from lorentzrec.studies.parts import PartStore
from lorentzrec.synthetic.shop import SyntheticConfig
from lorentzrec_paper import asos
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Context
from lorentzrec_paper.movielens import Quality


def test_the_parts_of_a_shop() -> None:
    shop = asos.Shop(SyntheticConfig(customers=200, items=100, interactions=2_000), 50)
    numbers = shop.numbers()
    assert [len(part) for part in shop.parts] == [numbers.train, 50, numbers.test]
    times = [np.asarray(part.times) for part in shop.parts]
    week = times[2].max() - asos.TEST_DAYS * 86_400
    assert max(times[0].max(), times[1].max()) <= week < times[2].min()
    assert min(numbers.seconds_to_generate, numbers.seconds_to_prepare, numbers.seconds_to_read) > 0
    pairs = [set(zip(part.user_rows.tolist(), part.item_rows.tolist(), strict=True)) for part in shop.parts]
    assert not pairs[0] & (pairs[1] | pairs[2])


def test_a_small_run_from_shop_to_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"CUSTOMERS": 30_000, "ITEMS": 30_000, "INTERACTIONS": 300_000, "VALIDATION": 2_000, "MAP_STARS": 5}
    for name, value in small.items():
        monkeypatch.setattr(asos, name, value)
    trials = {trial: config.replace(dimension=4, threads=1) for trial, config in asos.TRIALS.items()}
    monkeypatch.setattr(asos, "TRIALS", trials)
    monkeypatch.setattr(asos, "MAP", asos.MAP.replace(epochs=1))
    store = PartStore(tmp_path / "parts")
    found = asos.run(Context(DataFolder(), store, quick=True, say=lambda line: None))
    assert store.made == 2 * (2 + len(trials)) + 1
    quality, cost, shops, paper = found.tables
    assert [len(table.rows) for table in (quality, cost, shops, paper)] == [16, 14, 2, 2]
    assert {row[0] for row in shops.rows} == {"hyperbolic", "flat"}
    assert all("[" in cell for row in quality.rows for cell in row[4:])
    points = {row[2]: row[6] for row in cost.rows if row[:2] == ("flat", "rate 0.05 of a mean")}
    assert points["symmetric"] - points["asymmetric"] == 300 * 4
    found.figures["map"].draw(tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"


def found(**values: float) -> dict[str, asos.ShopResult]:
    """Trials of two equal shops; `seconds` is what the symmetric model needs where the asymmetric needs 1."""

    def trained(trial: asos.Trial) -> asos.Trained:
        settings, model, geometry = trial
        if model == "symmetric":
            return asos.Trained(values["seconds"], values["seconds"], 200, 0, quality(0.1))
        twin = geometry == "euclidean"
        plain = values["plain_twin"] if twin else values["plain"]
        adaptive = 0.5 if twin else values["adaptive"]
        return asos.Trained(1.0, 1.0, 10, 0, quality(adaptive if settings == asos.ADAPTED else plain))

    def quality(value: float) -> Quality:
        metric = Metric(value, value, value)
        return Quality(metric, metric, metric, metric, evaluated=1, held_out=1)

    numbers = asos.ShopNumbers(1, 1, 1, 1, 1, 1.0, 1.0, 1.0)
    shop = asos.ShopResult(numbers, quality(0.3), {trial: trained(trial) for trial in asos.TRIALS})
    return {"hyperbolic": shop, "flat": shop}


def test_verdicts_follow_the_numbers() -> None:
    as_the_paper = found(plain=0.589, plain_twin=0.639, adaptive=0.7, seconds=4.0)
    assert [one.status for one in asos._verdicts(as_the_paper)] == ["holds"] * 5
    otherwise = found(plain=0.1, plain_twin=0.09, adaptive=0.05, seconds=1.0)
    assert [one.status for one in asos._verdicts(otherwise)] == ["fails", "holds", "fails", "fails", "fails"]
