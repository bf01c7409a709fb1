"""API keys: which may read, which may write, and that they stay secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from lorentzrec.errors import InputError
from lorentzrec.serving.http.keys import read_key_file
from tests.serving.running_service import service_here, shop_store

FULL, READING = "full-key-0123456789", "reading-key-0123456789"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient[Any]]:
    folder = tmp_path_factory.mktemp("shop")
    keys = folder / "keys.txt"
    keys.write_text(f"# for the shop\n{FULL}\n\n{READING} read\n")
    store = shop_store(folder)
    with service_here(store.url, api_key_file=keys) as client:
        yield client
    store.close()


def send(service: TestClient[Any], headers: dict[str, str]) -> int:
    return service.post("/v1/recommend", json={"history": ["i1"]}, headers=headers).status_code


def test_a_key_is_needed(service: TestClient[Any]) -> None:
    refused = service.post("/v1/recommend", json={"history": ["i1"]})
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert refused.headers["Content-Type"] == "application/problem+json"
    for wrong in ({"X-API-Key": "wrong"}, {"Authorization": f"Basic {FULL}"}, {"Authorization": f"Bearer {FULL}x"}):
        assert send(service, wrong) == 401
    for right in ({"X-API-Key": FULL}, {"Authorization": f"Bearer {FULL}"}, {"Authorization": f"bearer  {READING}"}):
        assert send(service, right) == 200


def test_the_key_is_checked_before_the_body_is_read(service: TestClient[Any]) -> None:
    assert service.post("/v1/recommend", content=b"not json", headers=JSON).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/events", {"user": "ann", "item": "i1"}),
        ("DELETE", "/v1/users/ann", None),
        ("PUT", "/v1/live", {"items": None}),
        ("PATCH", "/v1/live", {"add": []}),
    ],
)
def test_a_reading_key_writes_nothing(service: TestClient[Any], method: str, path: str, body: Any) -> None:
    refused = service.request(method, path, json=body, headers={"X-API-Key": READING})
    assert (refused.status_code, refused.json()["title"]) == (403, "Forbidden")
    assert service.request(method, path, json=body, headers={"X-API-Key": FULL}).status_code in (200, 400)


def test_refused_keys_are_counted(tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{FULL}\n{READING} read\n")
    store = shop_store(tmp_path)
    with service_here(store.url, api_key_file=keys) as service:
        send(service, {"X-API-Key": FULL})
        assert "lorentzrec_refused_keys_total{" not in service.get("/metrics").text
        for wrong in ({}, {"X-API-Key": "wrong"}, {"Authorization": "Bearer wrong"}):
            send(service, wrong)
        service.delete("/v1/users/ann", headers={"X-API-Key": READING})
        lines = service.get("/metrics").text.splitlines()
    store.close()
    counted = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in lines if "refused_keys_total{" in line}
    name = "lorentzrec_refused_keys_total"
    expected = {"missing": "1.0", "unknown": "2.0", "read-only": "1.0"}
    assert counted == {f'{name}{{reason="{reason}"}}': count for reason, count in expected.items()}


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics", "/schema"])
def test_page_health_and_schema_are_open(service: TestClient[Any], path: str) -> None:
    assert service.get(path).status_code == 200


def test_the_schema_describes_keys(service: TestClient[Any]) -> None:
    document = service.get("/schema").json()
    assert document["security"] == [{"bearer": []}, {"key": []}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "key"}


@pytest.mark.parametrize("content", ["", "# none\n", "short\n", f"{FULL} write\n", "\xff", "\xc3\xa4" * 16])
def test_a_file_without_good_keys_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.txt"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError) as refused:
        read_key_file(path)
    assert FULL not in str(refused.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_key_file(tmp_path / "none.txt")


def test_pages_of_allowed_sites_may_call(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url, allowed_origins=("https://shop.example",)) as service:
        preflight = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        allowed = service.options("/v1/recommend", headers={"Origin": "https://shop.example", **preflight})
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://shop.example"
        other = service.options("/v1/recommend", headers={"Origin": "https://evil.example", **preflight})
        assert "Access-Control-Allow-Origin" not in other.headers
    store.close()
