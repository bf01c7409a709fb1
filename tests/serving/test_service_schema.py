"""The OpenAPI document is complete and correct."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import one_of
from litestar.testing import TestClient
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)

from lorentzrec.maps.disk_map import DiskMap
from tests.serving.running_service import Service, service_here, service_process, shop_store
from tests.serving.small_shop import ITEMS

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
DEPENDS_ON_DATA = {
    ("/v1/recommend", "post"),
    ("/v1/outfits", "post"),
    ("/v1/users/{user}/recommendations", "get"),
    ("/v1/items/{item}/similar", "get"),
    ("/v1/items/{item}/alternatives", "get"),
    ("/v1/trending", "get"),
    ("/v1/events", "post"),
    ("/v1/items/{item}", "put"),
    ("/v1/map/items", "get"),
    ("/v1/rules", "put"),
    ("/v1/rules/preview", "post"),
}
"""Whether these accept a request depends on more than its form: which arms are live; which kinds have a weight, and
what is a day ahead; which attributes the model has; how many rows the version has; which columns and sets there are,
and whether a rule has one action. All other routes accept what the
document calls valid."""
ROUTES = {
    ("/v1/recommend", "post"),
    ("/v1/outfits", "post"),
    ("/v1/events", "post"),
    ("/v1/items", "get"),
    ("/v1/items", "delete"),
    ("/v1/items/lookup", "post"),
    ("/v1/items/{item}", "get"),
    ("/v1/items/{item}", "put"),
    ("/v1/items/{item}", "delete"),
    ("/v1/items/{item}/similar", "get"),
    ("/v1/items/{item}/alternatives", "get"),
    ("/v1/trending", "get"),
    ("/v1/users/{user}", "delete"),
    ("/v1/users/{user}/history", "get"),
    ("/v1/users/{user}/recommendations", "get"),
    ("/v1/live", "get"),
    ("/v1/live", "put"),
    ("/v1/live", "patch"),
    ("/v1/model", "get"),
    ("/v1/map", "get"),
    ("/v1/map/items", "get"),
    ("/v1/map/rows", "post"),
    ("/v1/rules", "get"),
    ("/v1/rules", "put"),
    ("/v1/rules/log", "get"),
    ("/v1/rules/preview", "post"),
    ("/healthz", "get"),
    ("/readyz", "get"),
    ("/metrics", "get"),
}


@pytest.fixture(scope="module")
def live_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("shop")
    places = DiskMap(np.zeros((ITEMS, 2), np.float32), "by hand", {})
    store = shop_store(folder, disk_map=places)
    with service_process(store.url, folder) as service:
        yield service
    store.close()


@pytest.fixture(scope="module")
def described(live_service: Service) -> Any:
    document = live_service.http.get("/schema").json()
    loaded = schemathesis.openapi.from_dict(document)
    loaded.config.update(base_url=live_service.url)
    return loaded


@pytest.mark.parametrize(("path", "method"), sorted(ROUTES))
def test_responses_are_as_described(described: Any, path: str, method: str) -> None:
    """Requests generated from the schema, valid and invalid; the seed is fixed, so that failures are reproducible."""
    operation = described[path][method.upper()]
    checks = CHECKS if (path, method) in DEPENDS_ON_DATA else [*CHECKS, positive_data_acceptance]
    strategy = one_of([operation.as_strategy(mode) for mode in GenerationMode])

    @seed(7)
    @settings(
        max_examples=20,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def check(case: Any) -> None:
        response = case.call()
        if response.status_code in (414, 431) and not response.content:
            return  # the server itself refuses an address of 64 KiB, before the application sees it
        if response.status_code == 414 and len(response.request.url or "") > 2**15:
            return  # parameters that are too long are refused before anybody looks into them
        if response.status_code == 413 and len(response.request.body or b"") > 2**20:
            return  # a body that is too long is refused before anybody looks into it
        case.validate_response(response, checks=checks)

    check()


def test_every_route_is_described(tmp_path: Any) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url) as service:
        document = _schema(service)
    store.close()
    assert {(path, method) for path, item in document["paths"].items() for method in item} == ROUTES
    schema = document["components"]["schemas"]["RecommendRequest"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["k"] | {"default": 10} == schema["properties"]["k"]
    (text, _) = schema["properties"]["exclude"]["items"]["anyOf"]
    assert (text["minLength"], text["maxLength"]) == (1, 512)


def test_every_example_is_accepted_and_every_route_is_on_the_page(tmp_path: Path) -> None:
    store = shop_store(tmp_path, disk_map=DiskMap(np.zeros((ITEMS, 2), np.float32), "by hand", {}))
    with service_here(store.url) as service:
        document, page = _schema(service), service.get("/docs")
        schemas = document["components"]["schemas"]
        sent = 0
        for path, item in document["paths"].items():
            for method, operation in item.items():
                assert f"<b>{method.upper()}</b> <code>{path}</code>" in page.text
                if body := operation.get("requestBody"):
                    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                    response = service.request(method, path, json=schemas[name]["examples"][0])
                    assert response.status_code == 200, (path, response.text)
                    assert html.escape(json.dumps(schemas[name]["examples"][0])) in page.text
                    sent += 1
    store.close()
    assert sent == 10
    for name in schemas:
        assert f'<section id="{name}">' in page.text
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert document["externalDocs"]["url"] == "/docs"
    fields = schemas["RecommendRequest"]["properties"] | schemas["RecommendedItem"]["properties"]
    assert fields["exclude"]["description"] == "Items never to recommend."  # the text of a base
    assert fields["context"]["description"].startswith("Items viewed just now")
    assert fields["diversity"]["description"].endswith("the fallback for an unknown history.")
    assert fields["row"]["description"] == "Its row on the map; -1 for a new item."
    assert "By default that of the service (<code>--explore</code>)." in page.text


def test_an_unknown_path_below_the_schema_is_a_problem(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url) as service:
        response = service.get("/schema/swagger")
        assert service.get("/favicon.ico").headers["content-type"].startswith("image/svg")
    store.close()
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


def _schema(service: TestClient[Any]) -> dict[str, Any]:
    document: dict[str, Any] = service.get("/schema").json()
    return document
