"""The OpenAPI document with exact bodies and examples, and the page at /docs that is generated from it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
from litestar import Litestar
from litestar.routes import HTTPRoute

from lorentzrec.base.field_checks import field_texts
from lorentzrec.serving.http import messages
from lorentzrec.serving.http.queries import query_type

EXAMPLES: dict[str, Any] = {
    "RecommendRequest": {"history": ["i1", "i2"], "k": 5, "reasons": True},
    "OutfitRequest": {"basket": ["i1", "i2"], "k": 5},
    "EventsRequest": {"events": [{"user": "ada", "item": "i1"}]},
    "LiveItemsRequest": {"items": ["i1", "i2", "i3"]},
    "LiveItemsChange": {"add": ["i4"], "remove": ["i1"]},
    "NewItemRequest": {"title": "Winter boot", "category": "shoes", "like": ["i1", "i2"]},
    "LookupRequest": {"ids": ["i1", "i2"]},
    "RowsRequest": {"items": ["i1", "i2"]},
    "RulesRequest": {
        "rules": [{"name": "Winter week", "select": {"set": "winter"}, "boost": 2}],
        "sets": {"winter": ["i1", "i3"]},
        "reason": "winter campaign",
    },
    "PreviewRequest": {
        "rules": [{"name": "New hat first", "select": {"ids": ["i4"]}, "pin": 1}],
        "recommend": {"history": ["i1", "i2"], "k": 5},
    },
}
"""A body for each type of request."""
SCHEMAS = "#/components/schemas/"


def _given(*names: str) -> dict[str, Any]:
    """A schema: all of these fields are there, and not null."""
    return {"required": [*names], "properties": {name: {"not": {"type": "null"}} for name in names}}


REFUSED: dict[str, list[dict[str, Any]]] = {
    "RecommendRequest": [_given("history", "user"), {"not": {"anyOf": [_given("history"), _given("user")]}}],
    "NewEvent": [_given("kind", "weight")],
    "EventsRequest": [
        _given("kind", "weight"),
        {"not": {"anyOf": [_given("events"), _given("user", "item")]}},
        *(_given("events", name) for name in ("user", "item", "time", "id", "kind", "weight")),
    ],
}
"""Combinations of fields that the checks of a message refuse, as schemas."""


def exact_document(app: Litestar) -> dict[str, Any]:
    """Litestar's document, with bodies as msgspec describes them: Litestar loses the limits of types inside a union.
    Parameters are the fields of the message that a handler takes as `query`, which Litestar does not know."""
    document = app.openapi_schema.to_schema()
    components = document["components"]
    bodies = [vars(messages)[name] for name in components["schemas"] if name in vars(messages)]
    exact = _describe(bodies)
    for name, example in EXAMPLES.items():
        exact[name]["examples"] = [example]
    for name, schemas in REFUSED.items():
        exact[name]["not"] = {"anyOf": schemas}
    for route in app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
            for method in handler.http_methods if handler.resolve_include_in_schema() else ():
                operation = document["paths"][route.path_format][method.lower()]
                operation.setdefault("parameters", []).extend(_parameters(query_type(handler)))
    return document | {"components": components | {"schemas": components["schemas"] | exact}}


def _describe(kinds: Sequence[type]) -> dict[str, Any]:
    """The schemas of messages and of what is in them. The text below a field becomes its description."""
    _, schemas = msgspec.json.schema_components(kinds, ref_template=SCHEMAS + "{name}")
    classes = vars(messages) | {kind.__name__: kind for kind in kinds}
    for name, schema in schemas.items():
        for field, text in _field_descriptions(classes.get(name, object)).items():
            described = schema["properties"][field]
            described["description"] = " ".join([*filter(None, [described.get("description")]), text])
    return schemas


def _parameters(query: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """The parameters of a query string, where null is a parameter that is left out, and every id is text."""
    schema = _describe([query])[query.__name__]
    found = []
    for name, field in schema["properties"].items():
        texts = [field.pop("description", "")]
        match field.get("anyOf"):
            case (value, {"type": "null"}):
                field = value
                texts.insert(0, field.pop("description", ""))
        match field.get("items", {}).get("anyOf"):
            case ({"type": "string"} as text, {"type": "integer"}):
                field["items"] = text
        is_object = field.get("type") == "object"  # which is sent as JSON
        form = {"content": {"application/json": {"schema": field}}} if is_object else {"schema": field}
        found.append({"name": name, "in": "query", "required": name in schema.get("required", ())} | form)
        found[-1]["description"] = " ".join(filter(None, texts))
    return found


@cache
def _field_descriptions(body: type) -> dict[str, str]:
    """The text below each field of a body, those of its bases included."""
    ours = [cls for cls in reversed(body.__mro__) if cls.__module__.startswith("lorentzrec.")]
    return {name: " ".join(texts) for cls in ours for name, texts in field_texts(cls).items()}


def documentation_page(document: dict[str, Any], address: str) -> str:
    """HTML without scripts of other sites. `address`: of the service, for the examples."""
    schemas = document["components"]["schemas"]
    operations = [(path, method, op) for path, item in document["paths"].items() for method, op in item.items()]
    contents = "".join(
        f'<li><a href="#{escape(op["operationId"])}"><b>{method.upper()}</b> {escape(path)}</a></li>'
        for path, method, op in operations
    )
    routes = "".join(_route(path, method, op, schemas, address) for path, method, op in operations)
    types = "".join(
        f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{_text(schema.get("description", ""))}'
        f"{_fields(_list_rows(schema))}</section>"
        for name, schema in sorted(schemas.items())
    )
    keys = "<p>Send an API key as <code>Authorization: Bearer KEY</code> or <code>X-API-Key: KEY</code>.</p>"
    page = (files("lorentzrec.serving.http") / "documentation.html").read_text("utf-8")
    return page.format(
        version=escape(document["info"]["version"]),
        description=escape(document["info"].get("description", "")),
        keys=keys if document.get("security") else "",
        contents=contents,
        routes=routes,
        types=types,
    )


def _route(path: str, method: str, operation: dict[str, Any], schemas: dict[str, Any], address: str) -> str:
    sent = operation.get("parameters", [])
    parameters = [
        (one["name"], _schema(one) | {"description": one["description"]}, one["required"], f"(in the {one['in']})")
        for one in sent
    ]
    body = operation["requestBody"]["content"]["application/json"]["schema"] if "requestBody" in operation else None
    schema = schemas[body["$ref"].removeprefix(SCHEMAS)] if body else {}
    responses = "".join(
        f"<li><b>{status}</b> {escape(response['description']) if status != '200' else ''} {_content(response)}</li>"
        for status, response in sorted(operation["responses"].items())
    )
    return (
        f'<section id="{escape(operation["operationId"])}"><h3><b>{method.upper()}</b> <code>{escape(path)}</code></h3>'
        f"{_text(operation.get('description', ''))}{_fields(parameters)}"
        f"{f'<p>Body: {_type(body)}</p>' if body else ''}{_fields(_list_rows(schema))}"
        f"<pre tabindex='0'>{escape(_command(path, method, schema.get('examples'), address))}</pre>"
        f"<details><summary>Responses</summary><ul>{responses}</ul></details></section>"
    )


def _schema(parameter: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter, which may be sent as JSON."""
    found: dict[str, Any] = parameter.get("schema") or parameter["content"]["application/json"]["schema"]
    return found


def _command(path: str, method: str, examples: list[Any] | None, address: str) -> str:
    """A command line that sends the request; names in capitals are to be replaced."""
    url = address.rstrip("/") + path.replace("{item}", "ITEM").replace("{user}", "USER")
    options = "" if method == "get" else f"-X {method.upper()} "
    return f"curl {options}'{url}'" + (f" \\\n  --json '{json.dumps(examples[0])}'" if examples else "")


def _content(response: dict[str, Any]) -> str:
    contents = response.get("content", {}).items()
    return " ".join(f"{_type(content.get('schema', {}))} ({escape(media)})" for media, content in contents)


def _list_rows(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any], bool, str]]:
    required = schema.get("required", ())
    return [(name, field, name in required, "") for name, field in schema.get("properties", {}).items()]


def _fields(rows: list[tuple[str, dict[str, Any], bool, str]]) -> str:
    """A table of parameters or fields: name, schema, whether it is required, and where it is sent."""
    if not rows:
        return ""
    lines = "".join(
        f"<tr><th scope='row'><code>{escape(name)}</code></th><td>{_type(schema)}</td>"
        f"<td>{'required' if required else _default(schema)}</td>"
        f"<td>{_code(schema.get('description', ''))} {location}</td></tr>"
        for name, schema, required, location in rows
    )
    heads = "".join(f"<th scope='col'>{head}</th>" for head in ("Name", "Type", "Default", "Meaning"))
    return f"<div class='wide' tabindex='0'><table><tr>{heads}</tr>{lines}</table></div>"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _default(schema: dict[str, Any]) -> str:
    return f"<code>{escape(json.dumps(schema['default']))}</code>" if "default" in schema else "none"


def _type(schema: dict[str, Any]) -> str:
    if reference := schema.get("$ref"):
        name = escape(reference.removeprefix(SCHEMAS))
        return f'<a href="#{name}">{name}</a>'
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, choices)))
    if "enum" in schema:
        return ", ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    kind = schema.get("type", "bytes" if schema.get("format") == "binary" else "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if {"minimum", "maximum"} <= schema.keys() and schema["maximum"] < 2**53:  # not the range of 64-bit integers
        return f"{escape(kind)}, {_number(schema['minimum'])} to {_number(schema['maximum'])}"
    return escape(str(kind))


def _text(text: str) -> str:
    """Paragraphs, with `names` as code."""
    return "".join(f"<p>{part}</p>" for part in _code(text).split("\n\n") if part.strip())


def _code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
