"""Health: is the process alive, can it answer, and how is it doing?"""

from __future__ import annotations

from litestar import MediaType, Response, get

from lorentzrec.errors import StoreUnavailable
from lorentzrec.serving.http.messages import Alive, Ready
from lorentzrec.serving.http.problems import described
from lorentzrec.serving.http.routes.worker import TheWorker


@get("/healthz", sync_to_thread=False)
def get_liveness() -> Alive:
    """The process runs. Restart it if this does not answer; whether the store is there is not asked."""
    return Alive()


@get("/readyz", sync_to_thread=False, responses=described())
def get_readiness(worker: TheWorker) -> Ready:
    """There is a version, and the store can be read. If not, 503 gives the reason; `warnings` report everything else.

    A worker that is not ready still answers what it can, so take it out of rotation only if others are better off.
    """
    serving = worker.current.serving
    if worker.store.trouble is not None:
        raise StoreUnavailable(worker.store.trouble)
    return Ready(True, serving.version.name, [*worker.current.warnings, *worker.store.warnings])


@get("/metrics", sync_to_thread=True, media_type=MediaType.TEXT)
def get_metrics(worker: TheWorker) -> Response[bytes]:
    """Counters of all workers, in the text format of Prometheus."""
    return Response(worker.metrics.text(), media_type="text/plain; version=0.0.4")
