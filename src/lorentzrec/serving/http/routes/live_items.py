"""Live items: those that may be recommended now, whatever the version holds."""

from __future__ import annotations

from litestar import get, patch, put
from litestar.params import JSONBody

from lorentzrec.serving.http.current import Current
from lorentzrec.serving.http.identifiers import texts
from lorentzrec.serving.http.messages import LiveChange, LiveChanged, LiveItems, LiveRequest
from lorentzrec.serving.http.problems import described
from lorentzrec.serving.http.routes.worker import TheWorker

LIVE_SECONDS = 8.0
"""There may be a million, and a store that sends them is not to be taken for away."""


@get("/live", sync_to_thread=True, responses=described(400, 401, 403, 421))
def get_live_items(worker: TheWorker) -> LiveItems:
    """The items that are live, by the store."""
    return LiveItems(worker.store.call(lambda opened: opened.live_items(), seconds=LIVE_SECONDS), worker.current.name)


@put("/live", sync_to_thread=True, opt={"writes": True}, responses=described(400, 401, 403, 413, 415, 421))
def set_live_items(data: JSONBody[LiveRequest], worker: TheWorker) -> LiveChanged:
    """Replace the live items; null makes every item live. Every worker follows within about a second."""
    items = None if data.items is None else texts(data.items)
    live = worker.store.call(lambda opened: opened.set_live_items(items), writes=True, seconds=LIVE_SECONDS)
    return _changed(worker.current, live, items or ())


@patch("/live", sync_to_thread=True, opt={"writes": True}, responses=described(400, 401, 403, 413, 415, 421))
def change_live_items(data: JSONBody[LiveChange], worker: TheWorker) -> LiveChanged:
    """Add items to the live ones and remove others: what comes into stock, and what is sold out."""
    add, remove = texts(data.add), texts(data.remove)
    live = worker.store.call(lambda opened: opened.change_live_items(add, remove), writes=True, seconds=LIVE_SECONDS)
    return _changed(worker.current, live, (*add, *remove))


def _changed(current: Current, live: int | None, named: tuple[str, ...]) -> LiveChanged:
    current.nudge()
    version = current.version
    unknown = len(named) if version is None else int((version.items.rows(named) < 0).sum())
    return LiveChanged(live, unknown, version.name if version else None)
