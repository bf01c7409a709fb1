"""The page where something is not as usual: a failure, two versions at once, forbidden storage, odd ids."""

# ruff: noqa: F811 - fixtures are imported, and used by their names

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.serving.page_visit import OWN_LINES, Shop, Visit, browser, expect, pytestmark, shop, visit  # noqa: F401


def test_light_and_dark_where_storage_is_forbidden(visit: Visit) -> None:
    visit.page.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('forbidden') } })"
    )
    visit.open()
    button = visit.page.locator("#theme")
    for theme, other in (("dark", "Light"), ("light", "Dark")):
        button.click()
        expect(visit.page.locator("html")).to_have_attribute("data-theme", theme)
        expect(button).to_have_text(other)


def test_an_address_holds_ids_with_commas(visit: Visit) -> None:
    visit.open("/#history=a%2Cb&history=c%26d")
    assert visit.history() == ["a,b", "c&d"]
    visit.page.reload()
    visit.settled()
    assert visit.history() == ["a,b", "c&d"]
    # The browser itself logs that the shop does not know these items; nothing else may be there.
    assert all("404" in fault for fault in visit.faults)
    visit.faults.clear()


def test_a_surprise_is_an_item_and_its_nearest_neighbours(visit: Visit, shop: Shop) -> None:
    visit.open()
    places = np.frombuffer(shop.service.http.get("/v1/map").content, "<f4")[: 2 * 200].reshape(200, 2).astype(float)
    squares = (places**2).sum(axis=1)
    # The distance in the disk grows with this.
    far = ((places - places[100]) ** 2).sum(axis=1) / ((1 - squares) * (1 - squares[100]))
    surprise = """async () => {
        const { CatalogueMap } = await import("/page/catalogue_map.js");
        const { examplesOfMap } = await import("/page/examples.js");
        Math.random = () => 0.5;
        const map = new CatalogueMap(await (await fetch("/v1/map")).arrayBuffer(), []);
        return examplesOfMap(map, { ofRows: async (rows) => rows }).at(-1).items();
    }"""
    assert visit.page.evaluate(surprise) == np.argsort(far, kind="stable")[:3].tolist()


def test_a_response_without_the_history_is_reported_once(visit: Visit) -> None:
    def degraded(route: Any) -> None:
        body = route.fetch().json()
        route.fulfill(json=body | {"degraded": "the history of the customer could not be read: try again"})

    visit.page.route("**/v1/recommend", degraded)
    visit.open()
    expect(visit.page.locator("#notice")).to_have_text("The history of the customer could not be read: try again.")


def replace_first(visit: Visit, pattern: str, response: Callable[[str], dict[str, Any]]) -> list[str]:
    """Respond to the first request of a kind, and let the service respond to all others; returns the URLs requested."""
    requested: list[str] = []

    def late(route: Any) -> None:
        requested.append(route.request.url)
        if len(requested) > 1:
            route.continue_()
        else:
            route.fulfill(**response(route.request.url))

    visit.page.route(pattern, late)
    return requested


def test_items_of_another_version_than_the_model_are_not_cached(visit: Visit) -> None:
    """While the page loads, a worker that still uses another version responds with the items of its own rows."""

    def older(url: str) -> dict[str, Any]:
        rows = url.partition("rows=")[2].split(",")
        items = [{"row": int(row), "id": f"older-{row}", "title": None, "category": None} for row in rows]
        return {"json": {"items": items, "model": "older"}}

    requested = replace_first(visit, "**/v1/map/items?*", older)
    visit.open()
    assert requested
    visit.page.locator("#examples button").first.click()
    expect(visit.page.locator("#history li")).to_have_count(3)
    assert not [id for id in visit.history() if id.startswith("older")]


def test_a_map_of_another_version_than_the_model_is_not_shown(visit: Visit) -> None:
    """Two workers may respond, one of which does not use the new version yet."""
    requested = replace_first(visit, "**/v1/map", lambda _: {"body": b"\0" * 16, "headers": {"ETag": '"older"'}})
    visit.open()
    assert len(requested) == 2
    expect(visit.page.locator("#legend button").first).to_be_visible()


def test_a_failure_is_one_line_and_can_be_retried(visit: Visit) -> None:
    visit.open()
    results = visit.results()
    problem = {"title": "Busy", "status": 503, "detail": "Too many requests at once: come back in a second."}
    visit.page.route("**/v1/recommend", lambda route: route.fulfill(status=503, json=problem))
    visit.page.locator("#k").select_option("5")
    expect(visit.page.locator("#problem p")).to_have_text(problem["detail"])
    assert visit.results() == results
    visit.page.unroute("**/v1/recommend")
    visit.page.locator("#problem button").click()
    expect(visit.page.locator(OWN_LINES)).to_have_count(5)
    expect(visit.page.locator("#problem")).to_be_hidden()
    # The browser itself logs a response with an error status; nothing else may be there.
    assert all("503" in fault for fault in visit.faults)
    visit.faults.clear()
