"""A request whose body is read as the type that its handler takes, and as nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import State


class StrictRequest(Request[Any, Any, State]):
    """Litestar reads a body as any JSON and converts it later, so that "10" would pass for 10. This one is strict.

    Reading it straight into its type is quicker, too, and stops at the first thing that is wrong.
    """

    async def json(self) -> Any:
        body = await self.body()
        field = self.route_handler.parsed_data_field
        return None if field is None else msgspec.json.decode(body, type=field.annotation)
