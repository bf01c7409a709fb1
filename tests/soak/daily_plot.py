"""Draw the quality of thirty days, with the alert about it: `python -m tests.soak.daily_plot docs/images/daily.svg`.

The days are those of `daily_days`, without disturbances. After each, the metrics are read as Prometheus would, and the
expression of the alert in deploy/prometheus-rules.yaml is evaluated.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from lorentzrec.base.canvas import BLUE, ORANGE, PAGE_WIDTH, VERMILION, canvas
from tests.daily.simulated_days import Shop
from tests.soak.daily_days import DAYS, RULES, SHUFFLED

ALERT = "LorentzrecQualityFell"


def read_alert(rules: Path) -> tuple[str, float]:
    """The metric of the alert, and the limit below which it fires."""
    groups = yaml.safe_load(rules.read_text())["groups"]
    (expression,) = [rule["expr"] for group in groups for rule in group["rules"] if rule["alert"] == ALERT]
    compared = re.fullmatch(r"(\w+) < ([\d.]+)", expression)
    assert compared is not None, expression
    return compared[1], float(compared[2])


def run_days(folder: Path) -> list[dict[str, float]]:
    """Day -> its metrics by name; of the baselines, the best."""
    shop, days = Shop(folder, RULES), list[dict[str, float]]()
    for day in range(DAYS):
        shop.deliver(day, shuffled=day == SHUFFLED)
        shop.run()
        metrics: dict[str, float] = {}
        for family in text_string_to_metric_families((folder / "daily/metrics.prom").read_text()):
            metrics[family.name] = max(sample.value for sample in family.samples)
        days.append(metrics)
    return days


def draw(days: list[dict[str, float]], metric: str, limit: float, path: Path) -> list[int]:
    """Draw the days, and return those on which the alert fires."""
    fires = [day for day, metrics in enumerate(days) if metric in metrics and metrics[metric] < limit]
    series = [("lorentzrec_daily_ndcg", "model", BLUE), ("lorentzrec_daily_baseline_ndcg", "best baseline", ORANGE)]
    with canvas(path, PAGE_WIDTH, 3.4) as figure:
        quality, ratio = figure.subplots(2, 1, sharex=True)
        for axes, shown in ((quality, series), (ratio, [(metric, "share of the median", BLUE)])):
            for name, label, colour in shown:
                known = [(day, metrics[name]) for day, metrics in enumerate(days) if name in metrics]
                axes.plot(*zip(*known, strict=True), "o-", color=colour, label=label, markersize=3)
            axes.set_ylim(bottom=0)
        ratio.axhline(limit, color=VERMILION, linestyle="--", label=f"{ALERT}: below {limit:g}")
        ratio.plot(fires, [days[day][metric] for day in fires], "o", color=VERMILION, markersize=8, label="it fires")
        quality.set(ylabel="NDCG@10")
        ratio.set(ylabel="share", xlabel=f"day; the events of day {SHUFFLED} are shuffled")
        for axes in (quality, ratio):
            axes.legend(loc="lower left", frameon=False)
    return fires


def main() -> None:
    parser = argparse.ArgumentParser(prog="daily_plot", description="The quality of thirty days, and its alert.")
    parser.add_argument("path", type=Path, help="the figure")
    path = parser.parse_args().path
    metric, limit = read_alert(Path("deploy/prometheus-rules.yaml"))
    with tempfile.TemporaryDirectory(prefix="lorentzrec-days-") as folder:
        days = run_days(Path(folder) / "shop")
    fires = draw(days, metric, limit, path)
    for day, metrics in enumerate(days):
        print(f"day {day}: share {metrics.get(metric, float('nan')):.3f}{': the alert fires' if day in fires else ''}")


if __name__ == "__main__":
    main()
