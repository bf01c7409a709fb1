"""A request whose body is read as the type that its handler takes, and as nothing else."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import State

from lorentzrec.serving.http.costs import CostlyRequests

LARGE_BODY = 2**14
"""Bytes. Larger bodies are decoded in a thread: 10,000 ids take 5 ms, in which a worker could do nothing else."""
BYTES_A_UNIT = 10
"""Bytes of a body that are read at the cost of one unit; see `costs.py`."""


class StrictRequest(Request[Any, Any, State]):
    """Litestar reads a body as any JSON and converts it later, so that "10" would pass for 10. This one is strict.

    Reading it straight into its type is quicker, too, and stops at the first thing that is wrong.
    """

    async def json(self) -> Any:
        body = await self.body()
        field = self.route_handler.parsed_data_field
        if field is None:
            return None
        if len(body) <= LARGE_BODY:
            return msgspec.json.decode(body, type=field.annotation)
        costly: CostlyRequests = self.app.state.costly
        return await costly.run(len(body) // BYTES_A_UNIT, partial(msgspec.json.decode, body, type=field.annotation))
