"""The daily job: days as they should be, and days on which something goes wrong."""

from __future__ import annotations

import json
import re
import signal
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec.base.atomic import locked_directory
from lorentzrec.daily import job
from lorentzrec.daily.config import read_config
from lorentzrec.daily.job import StageFailed
from lorentzrec.daily.report import draw_quality, measure_ratio
from lorentzrec.daily.state import STAGES, State, exit_code
from lorentzrec.errors import ArtifactError, ConfigError, InputError
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.learning.updating import update_with
from lorentzrec.model.model import Model
from lorentzrec.model.reality_check import OURS, CheckedSystem, RealityCheck
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.version import open_version
from tests.cli.command_line import error_of, run, run_json
from tests.daily.simulated_days import Shop


def read_metrics(shop: Shop) -> dict[str, float]:
    """The samples of the text file, whose every line must be of Prometheus' format."""
    found = {}
    for line in (shop.folder / "daily/metrics.prom").read_text().splitlines():
        sample = re.fullmatch(r'(lorentzrec_daily_[a-z_]+(?:\{[a-z]+="[a-z-]+"\})?) (\S+)', line)
        assert line.startswith(("# HELP lorentzrec_daily_", "# TYPE lorentzrec_daily_")) or sample, line
        if sample:
            found[sample[1]] = float(sample[2])
    return found


def test_days_as_they_should_be(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a")
    items = {row.split(",")[1] for row in shop.deliver(0).read_text().splitlines()[1:]}
    first = shop.run()
    assert (first["training"], first["events"], first["ndcg@10"]) == ("full", 600, None)
    assert first["new_items"] == len(items)
    with closing(open_store(f"file:{tmp_path / 'a/store'}")) as store:
        assert [entry.arm for entry in store.activations()] == ["main"]
        shop.deliver(1)
        second = shop.run()
        assert (second["training"], second["events"], second["late"]) == ("update", 600, 5)
        assert second["ndcg@10"] > 0
        assert 0 < second["overlap@10"] <= 1
        assert [entry.arm for entry in store.activations()] == ["main", "next", "main", "next"]
        assert store.state().version == second["version"]
        assert store.measure().events == 1200
        version = open_version(store.fetch(second["version"], tmp_path / "fetched"))
        version.items.close()
        assert version.days is not None
        (day,) = version.days  # before the first one there was no version
        assert (day.ndcg, day.coverage, day.new_item_share) == (
            second["ndcg@10"],
            second["coverage@10"],
            second["new_item_share"],
        )
        assert day.best_baseline == max(second["baselines"].values())
        assert version.compared == (first["version"], second["overlap@10"])
        nothing = shop.run()
        assert (nothing["training"], nothing["version"], nothing["events"]) == ("none", None, 0)
        assert store.state().version == second["version"]
    report = json.loads((tmp_path / "a/daily/report.json").read_text())
    assert (report["run"], list(report["stages"])) == (3, list(STAGES[:-1]))
    text = (tmp_path / "a/daily/report.md").read_text()
    assert "Nothing new was delivered" in text
    assert "loses to" not in text, "there is no new model"
    assert "| ndcg@10 |" not in text, "nothing was measured"
    newest = open_dataset(tmp_path / "a/shop").interactions().times
    assert newest is not None
    assert read_metrics(shop)["lorentzrec_daily_newest_event_timestamp_seconds"] == newest.max()


def test_a_kill_in_every_stage_changes_nothing(tmp_path: Path) -> None:
    """Four days; the disturbed shop is killed once in each stage, and compacts on the last day."""
    calm, disturbed = Shop(tmp_path / "calm", "full_every = 3"), Shop(tmp_path / "disturbed", "full_every = 3")
    for shop in (calm, disturbed):
        for day in (0, 1, 2, 3, 4):
            shop.deliver(day)
            if shop is disturbed and day > 0:
                for stage in [STAGES[2 * day - 2 : 2 * day], STAGES[6:]][day == 4]:
                    moment = "end" if day % 2 else "middle"
                    assert shop.run_killed(stage, moment) == -signal.SIGKILL, (day, stage)
            entry = shop.run()
            assert entry["training"] == ("full" if day in (0, 3) else "update")
    assert disturbed.outcome() == calm.outcome()
    assert [day["ndcg@10"] for day in disturbed.days()] == [day["ndcg@10"] for day in calm.days()]
    assert not list((tmp_path / "disturbed/shop/deliveries").glob("*"))


def test_the_first_run_counts_a_dataset_that_was_there_and_what_it_appends(tmp_path: Path) -> None:
    """Two days are prepared and compacted by hand; the first run appends the third one."""
    shop = Shop(tmp_path / "a")
    first, second = shop.deliver(0), shop.deliver(1)
    run("prepare", first, "--out", tmp_path / "a/shop", "--duplicates", "exact")
    run("prepare", "--append", second, "--out", tmp_path / "a/shop")
    run("prepare", "--compact", "--out", tmp_path / "a/shop")
    shop.deliver(2)
    entry = shop.run()
    counts = open_dataset(tmp_path / "a/shop").manifest["counts"]
    assert counts["events"] == 1800
    assert (entry["events"], entry["new_users"], entry["new_items"]) == (1800, counts["users"], counts["items"])
    assert (entry["deliveries"], entry["repeated_deliveries"], entry["late"]) == (1, 0, 5)


def test_files_that_are_damaged_repeated_or_corrected(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a")
    shop.deliver(0)
    shop.run()
    good = shop.deliver(1).read_text()
    (tmp_path / "a/incoming/day-001.csv").write_text(good[:5000] + "\nu1,i1\n")
    entry = shop.run()
    assert list(entry["refused_files"]) == [str(tmp_path / "a/incoming/day-001.csv")]
    assert (entry["training"], read_metrics(shop)["lorentzrec_daily_refused_files"]) == ("none", 1)
    assert shop.run()["refused_files"] == entry["refused_files"]
    (tmp_path / "a/incoming/day-001.csv").write_text(good)
    (tmp_path / "a/incoming/day-001-again.csv").write_text(good)
    entry = shop.run()
    assert (entry["events"], entry["repeated_deliveries"], entry["refused_files"]) == (600, 1, {})
    assert shop.run()["repeated_deliveries"] == 0
    (tmp_path / "a/incoming/day-001-again.csv").unlink()
    # The correction has the name of the delivery that was taken, whichever of the two that is.
    [taken] = [one["name"] for one in open_dataset(tmp_path / "a/shop").manifest["deliveries"]]
    shop.deliver(2, name=taken)
    entry = shop.run()
    assert (entry["training"], entry["why"]) == ("full", "a delivery that the model has learned was replaced")


def test_a_damaged_file_can_stop_the_job(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a", 'damaged = "stop"')
    shop.deliver(0)
    shop.run()
    shop.deliver(1).write_text("user,item,time\nu1,i1\n")
    stopped = r"stage append: .*day-001\.csv line 2.*the next run continues here"
    with pytest.raises(StageFailed, match=stopped) as failed:
        shop.run()
    assert failed.value.exit_code == exit_code("append") == 11
    assert read_metrics(shop)["lorentzrec_daily_exit_code"] == 11
    shop.deliver(1)
    assert shop.run()["run"] == 2


def test_the_gate_refuses_a_junk_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path / "a")
    shop.deliver(0)
    before = shop.run()["version"]
    shop.deliver(1)

    def make_junk(*args: Any, **options: Any) -> Model:
        made = update_with(*args, **options)
        mixed = np.random.default_rng(0).permutation(len(made.items))
        return made.with_points(
            item_points=made.item_points[mixed],
            history_points=made.history_points[mixed],
            memory=None,
            repeats=None,
        )

    with monkeypatch.context() as patch:
        patch.setattr(job, "update_with", make_junk)
        with pytest.raises(StageFailed, match=r"stage publish: .*overlap@10>=0\.27 is missed") as failed:
            shop.run()
    assert failed.value.exit_code == 16
    with closing(open_store(f"file:{tmp_path / 'a/store'}")) as store:
        assert store.state().version == before
    assert read_metrics(shop)["lorentzrec_daily_refused_model"] == 1
    assert "The version before stays" in (tmp_path / "a/daily/report.md").read_text()
    entry = shop.run()
    assert (entry["training"], entry["refused"], entry["exit_code"]) == ("update", None, 0)


def test_a_check_that_is_lost_can_refuse_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path / "a", 'check = "refuse"')
    shop.deliver(0)
    before = shop.run()["version"]
    shop.deliver(1)
    rows = (CheckedSystem(name=OURS, ndcg=0.1, recall=0.1),)
    ahead = CheckedSystem(
        name="popularity", ndcg=0.2, recall=0.2, difference=-0.1, standard_error=0.01, significant=True
    )
    check = RealityCheck(rows=(*rows, ahead), customers=100, candidates="unseen")
    monkeypatch.setattr(
        job, "update_with", lambda *args, **options: replace(update_with(*args, **options), check=check)
    )
    with pytest.raises(StageFailed, match=r"stage check: the model is refused: .*loses to popularity") as failed:
        shop.run()
    assert failed.value.exit_code == 15
    with closing(open_store(f"file:{tmp_path / 'a/store'}")) as store:
        assert store.state().version == before


def test_quality_that_falls_is_seen_and_trains_everything(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a")
    for day in range(5):
        shop.deliver(day)
        shop.run()
    assert measure_ratio(State()) is None
    assert read_metrics(shop)["lorentzrec_daily_quality_ratio"] > 0.8
    shop.deliver(5, shuffled=True)
    entry = shop.run()
    assert entry["quality_ratio"] < 0.8
    assert entry["training"] == "full"
    assert re.fullmatch(r"NDCG@10 on the new events is 0\.\d\d of its median", entry["why"])
    assert (tmp_path / "a/daily/quality.svg").read_text().count('fill="#c00020"') == 1


def test_an_arm_waits_and_a_probe_ends_it(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a", publish='hours = 24\nprobe = ["false"]')
    shop.deliver(0)
    first = shop.run()["version"]
    shop.deliver(1)
    shop.run()
    state = json.loads((tmp_path / "a/daily/state.json").read_text())
    with closing(open_store(f"file:{tmp_path / 'a/store'}")) as store:
        assert store.state().version == first
        assert store.state().arms["next"] == (state["waiting"]["version"], 0.1)
        state["waiting"]["since"] -= 25 * 3600
        (tmp_path / "a/daily/state.json").write_text(json.dumps(state))
        with pytest.raises(StageFailed, match="the probe false failed, and arm next was ended") as failed:
            shop.run()
        assert failed.value.exit_code == 17
        assert list(store.state().arms) == ["main"]
    shop.run()


def test_two_jobs_do_not_work_at_once(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a")
    shop.deliver(0)
    (tmp_path / "a/daily").mkdir()
    lock = (tmp_path / "a/daily/.lock").resolve()
    with locked_directory(lock), pytest.raises(InputError, match="another daily job works in"):
        shop.run()
    shop.run()


def test_the_command(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a", 'damaged = "stop"')
    shop.deliver(0)
    assert run_json("daily", tmp_path / "a/daily.toml")["training"] == "full"
    shop.deliver(1).write_text("user,item,time\nu1,i1\n")
    assert "stage append" in error_of("daily", tmp_path / "a/daily.toml", code=11)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("dataset = 1", "there is no text 'dataset'"),
        ("dataset = ", "is not TOML"),
        ("datasets = 'x'", "did you mean 'dataset'"),
        ("[rules]\nfull_evry = 3", "did you mean 'full_every'"),
        ("[rules]\nfull_below = 2", "full_below is 2"),
        ("[training]\ndimensions = 2", "did you mean 'dimension'"),
        ("[prepare]\nsplit = 'x'\nfoo = 1", "there is no option of prepare 'foo'"),
        ("[prepare.source]\nuser = 'x'", "there is no option of prepare.source 'user'"),
        ("prepare = 3", "write \\[prepare\\]"),
    ],
)
def test_mistakes_in_the_configuration_are_named(tmp_path: Path, text: str, reason: str) -> None:
    given = "" if text.startswith(("dataset", "datasets =")) else "dataset = 'a'\n"
    (tmp_path / "daily.toml").write_text(f"{given}{text}" if "[" in text else f"{text}\n{given}")
    if "[" in text or text.startswith("prepare"):
        others = "deliveries = 'b'\nstore = 'file:c'\nwork = 'd'\n"
        (tmp_path / "daily.toml").write_text(f"{others}{given}{text}")
    with pytest.raises(ConfigError, match=rf"daily\.toml.*{reason}"):
        read_config(tmp_path / "daily.toml")


def test_a_state_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "a")
    (tmp_path / "a/daily").mkdir()
    (tmp_path / "a/daily/state.json").write_text("{")
    with pytest.raises(ArtifactError, match=r"state\.json is not the state of a daily job"):
        shop.run()


def test_the_plot_of_no_day_says_so() -> None:
    assert "not measured yet" in draw_quality([{"run": 1, "ndcg@10": None, "baselines": None}])
