"""Health: is the process alive, can it answer, and how is it doing?"""

from __future__ import annotations

from litestar import MediaType, Response, get

from lorentzrec.errors import StoreUnavailable
from lorentzrec.serving.messages import Alive, Ready
from lorentzrec.serving.problems import described
from lorentzrec.serving.routes.dependencies import TheCurrent, TheMetrics, TheStore


@get("/healthz", sync_to_thread=False)
def get_liveness() -> Alive:
    """The process runs. Restart it if this does not answer; whether the store is there is not asked."""
    return Alive()


@get("/readyz", sync_to_thread=False, responses=described())
def get_readiness(current: TheCurrent, store: TheStore) -> Ready:
    """Everything works: there is a version, and the store answers. If not, 503 says why.

    A worker that is not ready still answers what it can, so take it out of rotation only if others are better off.
    """
    serving = current.serving
    if store.trouble is not None:
        raise StoreUnavailable(store.trouble)
    return Ready(True, serving.version.name, current.warnings)


@get("/metrics", sync_to_thread=True, media_type=MediaType.TEXT)
def get_metrics(metrics: TheMetrics) -> Response[bytes]:
    """Counters of all workers, in the text format of Prometheus."""
    return Response(metrics.text(), media_type="text/plain; version=0.0.4")
