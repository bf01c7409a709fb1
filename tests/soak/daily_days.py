"""Thirty days of the daily job with kills, a damaged file, a file delivered twice and a junk model, next to thirty calm
days: both end with the same points, histories, live items and rules."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from lorentzrec.daily import job
from lorentzrec.daily.job import StageFailed
from lorentzrec.daily.state import STAGES, exit_code
from lorentzrec.learning.updating import update_with
from lorentzrec.model.model import Model
from lorentzrec.serving.stores.address import open_store
from tests.daily.simulated_days import Shop
from tests.soak.outcome import Outcome

DAYS, SHUFFLED, DAMAGED, TWICE, JUNK = 30, 20, 12, 14, 16
KILLS = {2 + 3 * number: stage for number, stage in enumerate(STAGES)}
"""Day -> the stage that is killed, both in its middle and at its end. Of pruning this is moved to a day on which
deliveries are compacted: on others nothing happens in its middle."""
KILLS[24] = KILLS.pop(2 + 3 * STAGES.index("prune"))
RULES_CHANGED = (6, 18)
RULES = "full_every = 10"
LIMITS = {"store/versions/*": 4, "daily/models/*": 4, "shop/deliveries/*": 4}
"""Folders -> how many there may be after a day. The histories of the store and the dataset grow with the events."""
EXTRA_DISK = 1.1
"""Bytes that the disturbed shop may have at the end, as a multiple of the other's."""


def daily_days(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    """One round is all the days of two shops."""
    for number in rounds:
        calm, disturbed = (Shop(folder / f"{name}-{number}", RULES) for name in ("calm", "disturbed"))
        for day in range(DAYS):
            for shop in (calm, disturbed):
                shop.deliver(day, shuffled=day == SHUFFLED)
            entry = calm.run()
            again = _disturb(outcome, disturbed, day)
            outcome.fault(f"day {day}: {again} instead of {entry}", other_quality=int(not _alike(entry, again)))
            ratio = entry["quality_ratio"]
            fires = ratio is not None and ratio < 0.8
            # On the day after, the model has learned the shuffled events.
            wrong = day != SHUFFLED + 1 and fires != (day == SHUFFLED)
            outcome.fault(f"day {day}: quality ratio {ratio}", wrong_alerts=int(wrong))
            for pattern, limit in LIMITS.items():
                found = len([*disturbed.folder.glob(pattern)])
                outcome.fault(f"day {day}: {found} of {pattern}", left_over=int(found > limit))
            if day == 5:
                for shop in (calm, disturbed):
                    with closing(open_store(f"file:{shop.folder / 'store'}")) as store:
                        store.change_live_items([], ["i7", "i8"])
            if day in RULES_CHANGED:
                document = json.dumps({"rules": [{"name": "old", "select": {"ids": [f"i{day}"]}, "exclude": True}]})
                for shop in (calm, disturbed):
                    with closing(open_store(f"file:{shop.folder / 'store'}")) as store:
                        store.set_rules(document, reason=f"day {day}")
            outcome.count(days=1)
        ours, theirs = calm.outcome(), disturbed.outcome()
        for name in ours:
            outcome.fault(f"{name} differ", **{f"other_{name}": int(ours[name] != theirs[name])})
        disk, more = calm.measure_disk(), disturbed.measure_disk()
        outcome.fault(f"{more:,} bytes instead of {disk:,}", more_disk=int(more > EXTRA_DISK * disk))
        outcome.count(events=len(ours["events"]), kilobytes=more // 1000, kilobytes_undisturbed=disk // 1000)
        outcome.done += 1


def _alike(entry: dict[str, Any], again: dict[str, Any]) -> bool:
    return all(entry[name] == again[name] for name in ("ndcg@10", "coverage@10", "training", "late"))


def _disturb(outcome: Outcome, shop: Shop, day: int) -> dict[str, Any]:
    """The day with what goes wrong on it; returns the entry of the run that ended well."""
    if day in KILLS:
        for moment in ("middle", "end"):
            stage = KILLS[day]
            code = shop.run_killed(stage, moment)
            outcome.count(kills=int(code == -9))
            outcome.fault(f"day {day}: {stage} was not killed: exit code {code}", not_killed=int(code != -9))
            if code == 0:
                return shop.days()[-1]
    if day == DAMAGED:
        good = shop.deliver(day).read_text()
        shop.deliver(day).write_text(good[: len(good) // 2] + "\nu1\n")
        outcome.fault("a damaged file was taken", damage_taken=int(not shop.run()["refused_files"]))
        shop.deliver(day)
    if day == TWICE:
        shop.deliver(day - 1, name=f"day-{day - 1:03d}-again.csv")
    if day == JUNK:

        def make_junk(*args: Any, **options: Any) -> Model:
            made = update_with(*args, **options)
            mixed = np.random.default_rng(0).permutation(len(made.items))
            return made.with_points(
                item_points=made.item_points[mixed],
                history_points=made.history_points[mixed],
                memory=None,
                repeats=None,
            )

        with patch.object(job, "update_with", make_junk):
            try:
                shop.run()
            except StageFailed as failed:
                outcome.fault(str(failed), junk_published=int(failed.exit_code != exit_code("publish")))
            else:
                outcome.fault("the gate did not refuse a junk model", junk_published=1)
        measured = shop.days()[-1]
        return {**shop.run(), **{name: measured[name] for name in ("ndcg@10", "coverage@10", "late")}}
    return shop.run()
