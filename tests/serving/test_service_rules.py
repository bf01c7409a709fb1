"""Rules, named sets and conditions over HTTP."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from litestar.testing import TestClient

from lorentzrec.serving.stores.store import Store
from tests.serving.running_service import KEY, service_here, service_process, shop_store, wait_until
from tests.serving.small_shop import ITEMS, shop_table

MERCHANT = "merchant-key-0123456789"
ROUTES = {
    "recommend": ("POST", "/v1/recommend", {"history": ["i3"], "k": 5}),
    "similar": ("GET", "/v1/items/i3/similar?k=5", None),
    "alternatives": ("GET", "/v1/items/i4/alternatives?k=5", None),
    "outfits": ("POST", "/v1/outfits", {"basket": ["i3"], "k": 5}),
}


def described_shop() -> pl.DataFrame:
    """The small shop with a brand, a margin and a price for all."""
    numbers = range(ITEMS)
    return shop_table().with_columns(
        brand=pl.Series([f"brand {number % 4}" if number % 5 else None for number in numbers]),
        margin=pl.Series([float(number) for number in numbers]),
        price=pl.Series([10.0 + number for number in numbers]),
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient[Any], Store]]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "keys.txt").write_text(f"{KEY}\n{MERCHANT} name=Ann\nreading-key-0123456789 read name=Bob\n")
    store = shop_store(folder, items=described_shop())
    with service_here(store.url, api_key_file=folder / "keys.txt", poll_seconds=0.2) as service:
        service.headers["X-API-Key"] = MERCHANT
        yield service, store
    store.close()


@pytest.fixture
def service(shop: tuple[TestClient[Any], Store]) -> TestClient[Any]:
    return shop[0]


def ask(service: Any, route: str = "recommend", **changes: Any) -> dict[str, Any]:
    method, path, body = ROUTES[route]
    response = service.request(method, path, json=None if body is None else body | changes)
    assert response.status_code == 200, response.text
    return dict(response.json())


def listed(response: dict[str, Any]) -> list[str]:
    return [item["id"] for item in response["items"]]


def put_rules(service: Any, *rules: dict[str, Any], **others: Any) -> None:
    """Set rules, and wait until they are in use."""
    response = service.put("/v1/rules", json={"rules": rules, **others})
    assert response.status_code == 200, response.text
    revision = response.json()["revision"]
    wait_until(lambda: service.get("/v1/model").json()["rules"] == revision)


def test_each_action_over_http(service: TestClient[Any]) -> None:
    put_rules(service)
    plain = listed(ask(service, k=40))
    assert ask(service)["rules"] == []
    put_rules(service, {"name": "out", "select": {"ids": plain[:2]}, "exclude": True})
    assert (listed(ask(service)), ask(service)["rules"]) == (plain[2:7], ["out"])
    put_rules(service, {"name": "two", "select": {"ids": [plain[9], plain[20]]}, "only": True})
    assert (listed(ask(service)), ask(service)["rules"]) == ([plain[9], plain[20]], ["two"])
    put_rules(service, {"name": "first", "select": {"ids": [plain[30], plain[20]]}, "pin": 2})
    assert listed(ask(service)) == [plain[0], plain[30], plain[20], *plain[1:3]]
    put_rules(service, {"name": "down", "select": {"ids": plain[:1]}, "bury": 1000})
    assert listed(ask(service)) == plain[1:6]
    put_rules(service, {"name": "up", "select": {"ids": plain[-1:]}, "boost": 1000})
    assert listed(ask(service)) == [plain[-1], *plain[:4]]
    put_rules(service, {"name": "one each", "quota": {"limit": 1, "per": "category"}})
    categories = [item["category"] for item in ask(service, k=10)["items"]]
    known = [category for category in categories if category is not None]
    assert len(known) == len(set(known)) == 3

    # By hand: 39 items, of which i39 has the largest margin.
    put_rules(service)
    scores = {item["id"]: item["score"] for item in ask(service, k=40)["items"]}
    spread = (max(scores.values()) - min(scores.values())) / math.log(len(scores))
    put_rules(service, {"name": "margin", "boost": {"factor": 100, "by": "margin"}})
    lifted = {id: score + spread * math.log(100) * int(id[1:]) / 39 for id, score in scores.items()}
    assert listed(ask(service)) == sorted(lifted, key=lambda id: -lifted[id])[:5]


@pytest.mark.parametrize("route", ROUTES)
def test_a_rule_acts_on_its_routes(service: TestClient[Any], route: str) -> None:
    put_rules(service)
    plain = {name: listed(ask(service, name)) for name in ROUTES}
    put_rules(service, {"name": "out", "routes": [route], "select": {"ids": plain[route][:1]}, "exclude": True})
    for name in ROUTES:
        assert (listed(ask(service, name))[0] == plain[name][0]) == (name != route)


def test_conditions_and_sets_select_items(service: TestClient[Any]) -> None:
    where = {"brand": ["brand 1", "brand 2"], "price": {"min": 20, "max": 40}}
    expected = {number for number in range(10, 31) if number % 5 and number % 4 in (1, 2) and number != 3}
    put_rules(service, sets={"DE": ["i1", "i2", "i21", "gone"], "empty": []})
    assert {int(id[1:]) for id in listed(ask(service, k=40, where=where))} == expected
    assert set(listed(ask(service, k=40, set="DE"))) == {"i1", "i2", "i21"}
    assert set(listed(ask(service, k=40, set="DE", where=where))) == {"i21"}
    response = service.get("/v1/items/i3/similar", params={"k": 40, "set": "DE", "where": '{"price": {"max": 12}}'})
    assert set(listed(response.json())) == {"i1", "i2"}
    empty = ask(service, set="empty")
    assert (empty["items"], empty["fallback_kinds"]) == ([], ["nothing_allowed"])
    put_rules(service, {"name": "cheap", "select": {"where": {"price": {"max": 12}}}, "only": True})
    assert set(listed(ask(service))) == {"i0", "i1", "i2"}


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (
            {"where": {"colour": "red"}},
            "the items have no column 'colour': the columns are brand, category, margin, price",
        ),
        ({"where": {"brnd": "x"}}, "did you mean brand?"),
        ({"where": {"brand": {"min": 1}}}, "the column 'brand' has texts, which have no range"),
        ({"where": {"price": "cheap"}}, "the column 'price' has numbers"),
        ({"where": {"price": {"min": 2, "max": 1}}}, "`min` is larger than `max`"),
        ({"where": {"price": {}}}, "give one of them"),
        ({"where": {"price": []}}, "where"),
        ({"set": "FR"}, "there is no set 'FR' (sets: "),
    ],
)
def test_unknown_columns_and_sets_are_refused(service: TestClient[Any], sent: Any, reason: str) -> None:
    response = service.post("/v1/recommend", json={"history": ["i3"], **sent})
    assert response.status_code == 400
    assert reason in response.json()["detail"]


def test_a_condition_in_an_address_is_json(service: TestClient[Any]) -> None:
    response = service.get("/v1/items/i3/similar", params={"where": "brand"})
    assert response.status_code == 400
    assert "where: is no JSON" in response.json()["detail"]


@pytest.mark.parametrize(
    ("rules", "where", "what"),
    [
        ([{"name": "a", "pin": 1}], "rules[0].select.ids", "a pin needs the ids"),
        ([{"name": "a"}], "rules[0]", "it has 0 of only, exclude, boost, bury, pin, quota: give exactly one"),
        ([{"name": "a", "boost": 2, "bury": 2}], "rules[0]", "it has 2 of"),
        ([{"name": "a", "boost": 0.5}], "rules[0].boost", "Expected `float` >= 1.0"),
        ([{"name": "a", "exclude": True}], "rules[0].select", "it selects all items"),
        ([{"name": "a", "boost": 2}, {"name": "a", "bury": 2}], "rules[1].name", "is the name of rules[0] as well"),
        ([{"name": "a", "boost": 2, "select": {"set": "x"}}], "rules[0].select.set", "there is no set 'x'"),
        ([{"name": "a", "boost": 2, "select": {"where": {"x": 1}}}], "rules[0].select.where", "no column 'x'"),
        ([{"name": "a", "boost": {"factor": 2, "by": "brand"}}], "rules[0].boost.by", "no column 'brand' of numbers"),
        ([{"name": "a", "quota": {"limit": 1, "per": "price"}}], "rules[0].quota.per", "no column 'price' of texts"),
        ([{"name": "a", "boost": 2, "routes": ["home"]}], "rules[0].routes[0]", "Invalid enum value 'home'"),
        (
            [{"name": "a", "boost": 2, "since": "2026-12-01T00:00:00Z", "until": "2026-11-01T00:00:00Z"}],
            "rules[0].until",
            "it ends before it comes into force",
        ),
    ],
)
def test_invalid_rules_are_refused_whole(service: TestClient[Any], rules: Any, where: str, what: str) -> None:
    before = service.get("/v1/rules").json()
    good = {"name": "good", "select": {"ids": ["i1"]}, "boost": 2}
    shifted = where.replace("rules[1]", "rules[2]").replace("rules[0]", "rules[1]")
    response = service.put("/v1/rules", json={"rules": [good, *rules]})
    assert response.status_code == 400
    (error,) = response.json()["errors"]
    assert error["where"] == shifted
    assert what.replace("rules[0]", "rules[1]") in error["what"]
    assert service.get("/v1/rules").json() == before


def test_all_faults_are_reported_at_once(service: TestClient[Any]) -> None:
    rules = [{"name": "a"}, {"name": "b", "boost": 2, "select": {"set": "x"}}]
    response = service.put("/v1/rules", json={"rules": rules})
    assert [error["where"] for error in response.json()["errors"]] == ["rules[0]", "rules[1].select.set"]


def test_the_log_says_who_when_and_why(service: TestClient[Any]) -> None:
    begun = time.time()
    put_rules(service, reason="spring")
    other = service.put("/v1/rules", json={"rules": []}, headers={"X-API-Key": KEY})
    newest, before = service.get("/v1/rules/log").json()["changes"][:2]
    assert (newest["revision"], newest["who"], newest["reason"]) == (other.json()["revision"], None, "changed")
    assert (before["who"], before["reason"]) == ("Ann", "spring")
    assert begun <= before["time"] <= newest["time"] <= time.time()
    found = service.get("/v1/rules").json()
    assert (found["revision"], found["rules"], found["sets"]) == (newest["revision"], [], {})


def test_a_change_from_an_older_revision_is_refused(service: TestClient[Any]) -> None:
    put_rules(service)
    revision = service.get("/v1/rules").json()["revision"]
    put_rules(service, instead_of=revision)
    response = service.put("/v1/rules", json={"rules": [], "instead_of": revision})
    assert (response.status_code, response.json()["type"]) == (409, "urn:lorentzrec:other-rules")


def test_a_key_that_may_read_may_not_change_rules(service: TestClient[Any]) -> None:
    headers = {"X-API-Key": "reading-key-0123456789"}
    assert service.put("/v1/rules", json={"rules": []}, headers=headers).status_code == 403
    assert service.get("/v1/rules", headers=headers).status_code == 200


def test_unknown_ids_are_counted_and_kept(service: TestClient[Any]) -> None:
    rule = {"name": "a", "select": {"ids": ["i1", "later"]}, "boost": 2}
    response = service.put("/v1/rules", json={"rules": [rule], "sets": {"x": ["i1", "gone", 7]}})
    assert (response.json()["rules"], response.json()["unknown_items"]) == (1, 3)
    found = service.get("/v1/rules").json()
    assert found["rules"][0]["select"]["ids"] == ["i1", "later"]
    assert found["sets"] == {"x": ["i1", "gone", 7]}


def test_rules_have_a_schedule(service: TestClient[Any]) -> None:
    put_rules(service)
    plain = listed(ask(service))
    now = datetime.now(UTC)
    past, soon, future = (str((now + timedelta(seconds=shift)).isoformat()) for shift in (-60, 2, 3600))

    def rule(name: str, row: int, **times: str) -> dict[str, Any]:
        return {"name": name, "select": {"ids": [plain[row]]}, "exclude": True, **times}

    put_rules(
        service,
        rule("over", 0, until=past),
        rule("now", 1, since=past, until=future),
        rule("later", 2, since=future),
        rule("soon", 3, since=soon),
    )
    assert set(listed(ask(service))) & set(plain[:3]) == {plain[0], plain[2]}
    wait_until(lambda: plain[3] not in listed(ask(service)))
    assert set(ask(service)["rules"]) == {"now", "soon"}


def test_rules_act_on_new_items(service: TestClient[Any]) -> None:
    put_rules(service)
    for id, price in (("n1", 99.0), ("n2", 5.0)):
        details = {"title": "New", "category": "hats", "price": price, "like": ["i3"]}
        assert service.put(f"/v1/items/{id}", json=details).status_code == 200
    wait_until(lambda: {"n1", "n2"} <= set(listed(ask(service, k=40))))
    put_rules(service, {"name": "dear", "select": {"where": {"price": {"min": 90}}}, "exclude": True})
    found = set(listed(ask(service, k=40)))
    assert ("n1" in found, "n2" in found) == (False, True)
    assert listed(ask(service, where={"price": {"max": 6}})) == ["n2"]
    put_rules(service, {"name": "first", "select": {"ids": ["n2", "n1"]}, "pin": 1})
    assert listed(ask(service))[:2] == ["n2", "n1"]
    for id in ("n1", "n2"):
        service.delete(f"/v1/items/{id}")
    wait_until(lambda: not {"n1", "n2"} & set(listed(ask(service, k=40))))


def test_rules_act_on_popular_items(service: TestClient[Any]) -> None:
    put_rules(service, {"name": "not the first", "select": {"ids": ["i0"]}, "exclude": True})
    found = ask(service, history=[])
    assert (listed(found), found["rules"]) == ([f"i{number}" for number in range(1, 6)], ["not the first"])


def test_rules_that_leave_nothing_say_so(service: TestClient[Any]) -> None:
    put_rules(service, {"name": "none", "select": {"ids": ["gone"]}, "only": True})
    found = ask(service)
    assert (found["items"], found["rules"]) == ([], ["none"])
    assert found["fallback"] == "nothing_by_rules: the rules of the shop leave no item to recommend"


@pytest.mark.parametrize(
    "request_body",
    [
        {"recommend": {"history": ["i3"], "k": 5}},
        {"similar": {"item": "i3", "k": 5}},
        {"outfits": {"basket": ["i3"], "k": 5, "per_category": 5}},
    ],
)
def test_rules_are_tried_before_they_are_stored(service: TestClient[Any], request_body: dict[str, Any]) -> None:
    put_rules(service, {"name": "stored", "select": {"ids": ["i1"]}, "exclude": True})
    before = service.get("/v1/rules").json()
    tried = {"name": "tried", "select": {"set": "x"}, "pin": 1, "since": "2030-01-01T00:00:00Z"}
    tried["select"] = {"ids": ["i10"]}
    body = {"rules": [tried], "at": "2030-06-01T00:00:00Z", **request_body}
    found = service.post("/v1/rules/preview", json=body).json()
    assert found["rules"] == ["tried"]
    assert listed(found)[0] == "i10"
    plain = [item["id"] for item in found["without_rules"]]
    assert listed(found)[1:] == [id for id in plain if id != "i10"][:4]
    assert service.get("/v1/rules").json() == before
    assert service.post("/v1/rules/preview", json=body | {"at": "2029-06-01T00:00:00Z"}).json()["rules"] == []


def test_a_preview_has_one_request(service: TestClient[Any]) -> None:
    both: dict[str, Any] = {"recommend": {"history": []}, "outfits": {"basket": []}}
    for body in ({}, both):
        response = service.post("/v1/rules/preview", json=body)
        assert "the query is one of `recommend`, `similar`, `alternatives` and `outfits`" in response.json()["detail"]


def test_two_workers_agree_within_two_seconds_and_rules_survive_a_kill(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    body = {"history": ["i3"], "k": 3}
    with service_process(store.url, tmp_path, "--workers", "2") as service:
        first = listed(service.http.post("/v1/recommend", json=body).json())[0]
        rule = {"name": "out", "select": {"ids": [first]}, "exclude": True}
        assert service.http.put("/v1/rules", json={"rules": [rule]}).status_code == 200

        def agree() -> bool:
            # A new connection each time, so that both workers answer some of them.
            answers = [
                httpx.post(f"{service.url}/v1/recommend", json=body).json()["rules"] == ["out"] for _ in range(8)
            ]
            return all(answers)

        wait_until(agree)
        service.kill()
    with service_process(store.url, tmp_path) as service:
        assert service.http.post("/v1/recommend", json=body).json()["rules"] == ["out"]
    store.close()
