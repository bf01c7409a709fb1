"""The model that answers: what it is, and its map of all items."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from litestar import Request, Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, QueryParameter

from lorentzrec.errors import InputError
from lorentzrec.serving.http.identifiers import texts
from lorentzrec.serving.http.messages import FoundItems, ItemDetails, ModelInformation, Rows, RowsRequest
from lorentzrec.serving.http.problems import NoMap, described
from lorentzrec.serving.http.routes.worker import TheWorker

RowList = Annotated[
    str,
    QueryParameter(
        pattern=r"^[0-9]{1,9}(,[0-9]{1,9}){0,999}$", description="Rows with commas between them, up to 1,000."
    ),
]
NOT_MODIFIED = ResponseSpec(None, generate_examples=False, description="The version is still the one of If-None-Match.")


@get("/model", sync_to_thread=False, responses=described(400, 401, 403, 421))
def get_model(worker: TheWorker) -> ModelInformation:
    """The version that answers now."""
    serving = worker.current.serving
    manifest = serving.version.manifest
    return ModelInformation(
        model=serving.version.name,
        items=manifest["items"],
        geometry=manifest["geometry"],
        dimension=manifest["dimension"],
        score=manifest["score"],
        recency=manifest["recency"],
        metrics=manifest["metrics"],
        map=manifest["map"],
        twin=serving.version.twin_ranker is not None,
        categories=serving.version.categories,
        live=serving.answerer.live_count,
    )


@get(
    "/map",
    sync_to_thread=True,
    media_type="application/octet-stream",
    responses=described(400, 401, 403, 404, 421) | {304: NOT_MODIFIED},
)
def get_map(worker: TheWorker, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Where all items lie in the Poincaré disk, little-endian, in row order.

    First float32 x and y of each item, then int32 category codes (-1: none), then float32 popularity.
    """
    version = worker.current.serving.version
    if version.map is None:
        raise NoMap(f"version {version.name} has no map: publish one with a map")
    headers = {"ETag": f'"{version.name}"', "X-Items": str(len(version.map)), "Cache-Control": "no-cache"}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(b"", status_code=304, headers=headers)
    parts = (version.map.astype("<f4"), version.category_codes.astype("<i4"), version.item_counts.astype("<f4"))
    return Response(b"".join(part.tobytes() for part in parts), headers=headers)


@get("/map/items", sync_to_thread=True, responses=described(400, 401, 403, 421))
def get_items_of_rows(worker: TheWorker, rows: RowList) -> FoundItems:
    """What is known of the items in some rows of the map."""
    version = worker.current.serving.version
    asked = np.array([int(row) for row in rows.split(",")])
    if asked.max() >= len(version.items):
        raise InputError(
            f"row {asked.max()} is beyond the {len(version.items)} items of version {version.name}: check it"
        )
    return FoundItems([ItemDetails(**item._asdict()) for item in version.items.items(asked)], version.name)


@post("/map/rows", status_code=200, sync_to_thread=True, responses=described(400, 401, 403, 413, 415, 421))
def get_rows_of_items(data: JSONBody[RowsRequest], worker: TheWorker) -> Rows:
    """Where items stand on the map."""
    version = worker.current.serving.version
    rows = version.items.rows(texts(data.items)).tolist()
    return Rows([None if row < 0 else row for row in rows], version.name)
