"""The OpenAPI document of the service, at /schema."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, Reference, SecurityScheme

from lorentzrec._version import __version__
from lorentzrec.serving.http import messages

SCHEMES: dict[str, SecurityScheme | Reference] = {
    "bearer": SecurityScheme(type="http", scheme="bearer"),
    "key": SecurityScheme(type="apiKey", name="X-API-Key", security_scheme_in="header"),
}


class _WholeSchema(JsonRenderPlugin):
    """Describes messages by msgspec's own account of them: Litestar's loses the limits of what is in a union."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        components = openapi_schema["components"]
        structures = [one for one in vars(messages).values() if isinstance(one, msgspec.StructMeta)]
        _, exact = msgspec.json.schema_components(structures, ref_template="#/components/schemas/{name}")
        schemas = {name: exact.get(name, schema) for name, schema in components["schemas"].items()}
        return self.render_json(request, openapi_schema | {"components": components | {"schemas": schemas}})


def openapi_config(*, keyed: bool) -> OpenAPIConfig:
    """`keyed`: whether requests need an API key."""
    return OpenAPIConfig(
        title="lorentzrec",
        version=__version__,
        description="Recommendations from points of hyperbolic space.",
        use_handler_docstrings=True,
        path="/schema",
        render_plugins=[_WholeSchema(path=["/", "/openapi.json"])],
        components=Components(security_schemes=SCHEMES) if keyed else Components(),
        security=[{"bearer": []}, {"key": []}] if keyed else None,
    )
