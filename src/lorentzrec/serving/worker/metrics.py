"""Metrics of a running service for Prometheus, added up over its workers."""

from __future__ import annotations

import os
import re
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from lorentzrec.serving.settings import SERVICE_FOLDER

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_PAST_VERSION = re.compile(rb"lorentzrec_version_workers\{.*\} 0\.0$")


class Metrics:
    """The metrics of one worker. Each worker responds with those of all."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        total = partial(Gauge, registry=self._registry, multiprocess_mode="livesum")
        least = partial(Gauge, registry=self._registry, multiprocess_mode="livemin")
        labels = ["method", "route", "status"]
        self.requests = counter("lorentzrec_requests_total", "Requests handled.", labels)
        self.seconds = Histogram(
            "lorentzrec_request_seconds", "Response time.", ["route"], buckets=BUCKETS, registry=self._registry
        )
        self._counted: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.in_flight = total("lorentzrec_requests_in_flight", "Requests under way.")
        self.fallbacks = counter("lorentzrec_fallbacks_total", "Responses that differ from the request.", ["kind"])
        self.empty = counter("lorentzrec_empty_responses_total", "Recommendations without any item.")
        self.degraded = counter("lorentzrec_degraded_total", "Responses without a customer's stored history.")
        events = counter("lorentzrec_events_total", "Events received.", ["outcome"])
        self.event_outcomes = {name: events.labels(name) for name in ("accepted", "duplicate", "unknown_item")}
        text = "Requests without a key that allows them."
        self.refused_keys = counter("lorentzrec_refused_keys_total", text, ["reason"])
        self.arms = counter("lorentzrec_arm_responses_total", "Recommendations by the arm that made them.", ["arm"])
        self.arm_fallbacks = counter(
            "lorentzrec_arm_fallbacks_total", "Recommendations by main instead of an arm that cannot be used.", ["arm"]
        )
        self.swaps = counter("lorentzrec_version_swaps_total", "Switches to another version.")
        self.refused = counter("lorentzrec_versions_refused_total", "Versions found damaged.")
        self.serving = total("lorentzrec_version_workers", "Workers that use this version.", ["version"])
        most = partial(Gauge, registry=self._registry, multiprocess_mode="livemax")
        newest = partial(Gauge, registry=self._registry, multiprocess_mode="livemostrecent")
        self.version_age = most("lorentzrec_version_age_seconds", "Age of the oldest version in use.")
        self.live_items = newest("lorentzrec_live_items", "Items that may be recommended, new ones included.")
        self.unknown_live_items = newest("lorentzrec_unknown_live_items", "Live ids that the version does not contain.")
        self.new_items = most("lorentzrec_new_items", "Placed items that the version does not contain.")
        self.new_items_full = most("lorentzrec_new_items_full", "1 if no more new items are added.", ["origin"])
        self.new_items_left_out = counter(
            "lorentzrec_new_items_left_out_total", "New items that were not added because there are too many."
        )
        self.new_items_shown = counter("lorentzrec_new_items_shown_total", "New items in responses.")
        self.trend_on = least("lorentzrec_trend_on", "1 if customers of the last days are known.")
        self.trend_customers = newest("lorentzrec_trend_customers", "Customers of items in the last days.")
        self.trend_capped = newest("lorentzrec_trend_capped", "Those left out, of customers with too many items.")
        self.trend_ahead = newest("lorentzrec_trend_events_ahead", "Events whose time has not come.")
        self.trend_refreshed = least("lorentzrec_trend_refreshed_seconds", "When events were counted, unix time.")
        store_seconds = Histogram(
            "lorentzrec_store_seconds",
            "Time of calls to the store, waiting included.",
            ["operation"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self.store_seconds = {name: store_seconds.labels(name) for name in ("read", "write", "poll")}
        self.store_up = least("lorentzrec_store_up", "1 if the store responds.")
        self.store_writable = least("lorentzrec_store_writable", "1 unless the last write to the store failed.")

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request and its time."""
        key = method, route, status
        found = self._counted.get(key)
        if found is None:  # finding the metric by its labels takes longer than counting
            found = self._counted[key] = self.requests.labels(*key), self.seconds.labels(route)
        found[0].inc()
        found[1].observe(seconds)

    def text(self) -> bytes:
        """All metrics in the format that Prometheus reads."""
        return render_metrics() if SERVICE_FOLDER in os.environ else _render(self._registry)


def render_metrics() -> bytes:
    """The metrics of all processes of a service, in any of them."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return _render(registry)


def _render(registry: CollectorRegistry) -> bytes:
    # The files of several processes never lose a label. Versions that no worker uses any more are left out, or there
    # would be one more line for every version ever published.
    lines = generate_latest(registry).splitlines(keepends=True)
    return b"".join(line for line in lines if not _PAST_VERSION.match(line))


def worker_deaths() -> Counter:
    """Counts workers that died. Used by their parent; `Metrics.text` finds the counter among the files."""
    return Counter("lorentzrec_worker_deaths_total", "Workers that ended unexpectedly.", registry=CollectorRegistry())
