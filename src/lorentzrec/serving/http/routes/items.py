"""Items: search, and what is known of one."""

from __future__ import annotations

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from lorentzrec.serving.http.messages import FoundItems, ItemAnswer, ItemDetails
from lorentzrec.serving.http.problems import described
from lorentzrec.serving.http.routes.path_ids import ItemInPath, from_path
from lorentzrec.serving.http.routes.worker import TheWorker
from lorentzrec.serving.recommending.recommender import UnknownItem

Words = Annotated[
    str, QueryParameter(name="query", max_length=500, description="Words of a title, or beginnings of them, or an id.")
]
Limit = Annotated[int, QueryParameter(ge=1, le=1_000, description="Most items to give.")]


@get("/items", sync_to_thread=True, responses=described(400, 401, 403, 421))
def search_items(worker: TheWorker, words: Words = "", limit: Limit = 20) -> FoundItems:
    """Items by the words of their titles, popular ones first; without a query, the most popular ones."""
    version = worker.current.serving.version
    return FoundItems([ItemDetails(**item._asdict()) for item in version.items.search(words, limit)], version.name)


@get("/items/{item:str}", sync_to_thread=True, responses=described(400, 401, 403, 404, 421))
def get_item(item: ItemInPath, worker: TheWorker) -> ItemAnswer:
    """What is known of an item."""
    version, id = worker.current.serving.version, from_path(item)
    (row,) = version.items.rows([id]).tolist()
    if row < 0:
        raise UnknownItem(f"the item {id!r} is not in version {version.name}: check the id")
    (found,) = version.items.items([row])
    return ItemAnswer(**found._asdict(), model=version.name)
