"""Numbers about a running service, for Prometheus; right with several workers, too."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client reads this once, when imported: set, each process keeps its numbers in files of that folder."""

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_PAST_VERSION = re.compile(rb"lorentzrec_version_workers\{.*\} 0\.0$")


def worker_deaths() -> Counter:
    """Counts workers that died. The parent of the workers keeps it, and `Metrics.text` finds it in the folder."""
    return Counter(
        "lorentzrec_worker_deaths_total", "Workers that ended without being told to.", registry=CollectorRegistry()
    )


class Metrics:
    """The numbers of one worker. Whichever worker is asked, it answers with those of all."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "lorentzrec_requests_total", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "lorentzrec_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS, registry=registry
        )
        self.in_flight = Gauge(
            "lorentzrec_requests_in_flight", "Requests in hand.", registry=registry, multiprocess_mode="livesum"
        )
        self.fallbacks = Counter(
            "lorentzrec_fallbacks_total", "Answers that are something else than asked.", ["kind"], registry=registry
        )
        self.degraded = Counter(
            "lorentzrec_degraded_total",
            "Answers without a customer's history, the store being away.",
            registry=registry,
        )
        self.events = Counter("lorentzrec_events_total", "Events received.", ["outcome"], registry=registry)
        self.swaps = Counter("lorentzrec_version_swaps_total", "Versions taken into use.", registry=registry)
        self.refused = Counter("lorentzrec_versions_refused_total", "Versions found damaged.", registry=registry)
        self.serving = Gauge(
            "lorentzrec_version_workers",
            "Workers that answer with this version.",
            ["version"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.store_up = Gauge(
            "lorentzrec_store_up", "1 if the store answers.", registry=registry, multiprocess_mode="livemin"
        )
        self.store_writable = Gauge(
            "lorentzrec_store_writable",
            "1 unless the last write to the store failed.",
            registry=registry,
            multiprocess_mode="livemin",
        )

    def count_fallback(self, fallback: str | None, degraded: str | None) -> None:
        for remark in fallback.split("; ") if fallback else ():
            self.fallbacks.labels(remark.partition(":")[0]).inc()
        if degraded:
            self.degraded.inc()

    def text(self) -> bytes:
        """All numbers in the format that Prometheus reads."""
        folder = os.environ.get(FOLDER_VARIABLE)
        registry = self._registry
        if folder is not None:
            _forget_the_dead(Path(folder).glob("gauge_live*.db"))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        # The files of several processes lose no label. A version that nobody answers with any more is not told, or
        # there would be one more line for every version ever published.
        lines = generate_latest(registry).splitlines(keepends=True)
        return b"".join(line for line in lines if not _PAST_VERSION.match(line))


def _forget_the_dead(files: Iterable[Path]) -> None:
    """Remove what a worker that is gone said about itself; its counts stay."""
    for file in files:
        try:
            os.kill(int(file.stem.rpartition("_")[2]), 0)
        except ProcessLookupError:
            file.unlink(missing_ok=True)
        except (ValueError, PermissionError):
            continue
