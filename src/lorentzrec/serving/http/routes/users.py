"""Customers: their history, and its erasure."""

from __future__ import annotations

from typing import Annotated

from litestar import delete, get
from litestar.params import QueryParameter

from lorentzrec.serving.http.messages import Forgotten, History, Touched
from lorentzrec.serving.http.problems import described
from lorentzrec.serving.http.routes.path_ids import UserInPath, from_path
from lorentzrec.serving.http.routes.worker import TheWorker

Limit = Annotated[int, QueryParameter(ge=1, le=10_000, description="Most events to give: the newest.")]

ERASURE_SECONDS = 8.0
"""Files are rewritten, and others who read them are waited for."""


@get("/users/{user:str}/history", sync_to_thread=True, responses=described(400, 401, 403, 421))
def get_history(user: UserInPath, worker: TheWorker, limit: Limit = 100) -> History:
    """The newest events of a customer, oldest first. Of somebody unknown: none."""
    id, version = from_path(user), worker.current.version
    touches = worker.store.call(lambda opened: opened.history(id, limit))
    titles: dict[str, str | None] = {}
    if version is not None:
        rows = version.items.rows([touch.item for touch in touches])
        titles = {item.id: item.title for item in version.items.items(rows[rows >= 0])}
    history = [Touched(touch.item, touch.time, titles.get(touch.item), touch.weight) for touch in touches]
    return History(id, history, version.name if version else None)


@delete(
    "/users/{user:str}",
    status_code=200,
    sync_to_thread=True,
    opt={"writes": True},
    responses=described(400, 401, 403, 415, 421),
)
def forget_user(user: UserInPath, worker: TheWorker) -> Forgotten:
    """Erase all events of a customer. A hash of the id stays, so that a dataset published later leaves them out."""
    id = from_path(user)
    events = worker.store.call(lambda opened: opened.forget(id), writes=True, seconds=ERASURE_SECONDS)
    return Forgotten(id, events, worker.current.name)
