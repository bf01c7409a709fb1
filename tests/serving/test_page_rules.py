"""The page: three kinds of lists, prices and pictures, and a rule that is tried before it is saved."""

# ruff: noqa: F811 - fixtures are imported, and used by their names

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from tests.serving.accessibility import needs_axe, serious_findings
from tests.serving.page_visit import (  # noqa: F401
    OWN_LINES,
    Shop,
    Visit,
    browser,
    expect,
    pytestmark,
    shop,
    visit,
)
from tests.serving.running_service import wait_until

SELECTED = "#experiences [aria-selected=true]"
PICTURE = "https://shop.example/picture.svg"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="56" height="72"><rect width="56" height="72" fill="#888"/></svg>'


@pytest.fixture
def without_rules(shop: Shop) -> Iterator[None]:
    yield
    assert shop.service.http.put("/v1/rules", json={"rules": []}).status_code == 200


def tab(visit: Visit, name: str) -> Any:
    return visit.page.get_by_role("tab", name=name, exact=True)


def test_each_kind_of_list_has_its_tab(visit: Visit, shop: Shop) -> None:
    visit.open()
    expect(visit.page.locator(SELECTED)).to_have_text("For you")
    personal, history = visit.results(), visit.history()
    tab(visit, "Similar").click()
    expect(visit.page.locator("#results-heading")).to_contain_text("Similar to")
    visit.settled()
    expect(visit.page.locator(SELECTED)).to_have_text("Similar")
    assert history[-1] not in visit.results()
    tab(visit, "Instead of").click()
    expect(visit.page.locator("#results-heading")).to_contain_text("Instead of")
    visit.settled()
    found = shop.service.http.get(f"/v1/items/{history[-1]}/alternatives").json()["items"]
    assert visit.results() == [item["id"] for item in found]
    tab(visit, "Goes with").click()
    expect(visit.page.locator("#results-heading")).to_have_text("Goes with the history")
    visit.settled()
    tab(visit, "For you").click()
    expect(visit.page.locator("#results-heading")).to_have_text("Recommended")
    visit.settled()
    assert visit.results() == personal
    visit.page.keyboard.press("ArrowRight")
    expect(visit.page.locator("#results-heading")).to_contain_text("Similar to")
    expect(tab(visit, "Similar")).to_be_focused()
    visit.page.locator("#clear").click()
    expect(tab(visit, "Goes with")).to_be_disabled()


def test_an_item_of_the_list_has_alternatives(visit: Visit, shop: Shop) -> None:
    visit.open()
    item = visit.results()[2]
    visit.page.locator(f"{OWN_LINES} >> nth=2 >> [data-action=alternatives]").click()
    expect(visit.page.locator("#results-heading")).to_contain_text("Instead of")
    expect(visit.page.locator("#customer-place")).to_contain_text("The list is about")
    expect(visit.page.locator("#go-to-star")).to_be_hidden()
    visit.settled()
    assert item not in visit.results()
    tab(visit, "Similar").click()
    expect(visit.page.locator("#results-heading")).to_contain_text("Similar to")
    visit.settled()
    found = shop.service.http.get(f"/v1/items/{item}/similar").json()["items"]
    assert visit.results() == [one["id"] for one in found], "the same item, and not the newest of the history"
    visit.page.locator("#leave-item").click()
    expect(visit.page.locator(SELECTED)).to_have_text("For you")
    expect(visit.page.locator("#go-to-star")).to_be_visible()


def test_a_rule_is_tried_saved_and_named(visit: Visit, shop: Shop, without_rules: None) -> None:
    visit.open()
    before = visit.results()
    visit.page.get_by_text("Try a rule").click()
    visit.page.locator("#rule-action").select_option("exclude")
    expect(visit.page.locator("#rule-strength")).to_be_hidden()
    visit.page.locator("#rule-items").select_option(f"item {before[0]}")
    visit.page.get_by_role("button", name="Try", exact=True).click()
    note = visit.page.locator("#rules-note")
    expect(note).to_contain_text("Only you see this list: the rule is tried, not saved. Rule that acted on this list: ")
    assert visit.results()[:9] == before[1:]
    assert shop.service.http.get("/v1/rules").json()["rules"] == []
    visit.page.get_by_role("button", name="Stop trying").click()
    expect(note).to_have_text("")
    visit.settled()
    assert visit.results() == before
    visit.page.get_by_role("button", name="Try", exact=True).click()
    visit.page.get_by_role("button", name="Save for everyone").click()
    expect(visit.page.get_by_role("button", name="Save for everyone")).to_be_hidden()
    (rule,) = shop.service.http.get("/v1/rules").json()["rules"]
    assert (rule["exclude"], rule["select"]) == (True, {"ids": [before[0]]})


def test_a_tried_rule_that_changes_nothing_says_so_next_to_one_that_acts(
    visit: Visit, shop: Shop, without_rules: None
) -> None:
    visit.open()
    before = visit.results()
    out = {"name": "Out", "select": {"ids": [before[0]]}, "exclude": True}
    assert shop.service.http.put("/v1/rules", json={"rules": [out]}).status_code == 200
    visit.open()
    expect(visit.page.locator("#rules-note")).to_have_text("Rule that acted on this list: Out.")
    visit.page.get_by_text("Try a rule").click()
    visit.page.locator("#rule-items").select_option(f"item {before[1]}")
    visit.page.get_by_role("button", name="Try", exact=True).click()
    nothing = "the rule is tried, not saved. It changes nothing here. Rule that acted on this list: Out."
    expect(visit.page.locator("#rules-note")).to_contain_text(nothing)


def test_a_rule_about_a_category_moves_it_up(visit: Visit, without_rules: None) -> None:
    visit.open()
    visit.page.get_by_text("Try a rule").click()
    category = visit.page.locator("#category option").nth(1).get_attribute("value")
    visit.page.locator("#rule-items").select_option(f"category {category}")
    visit.page.locator("#rule-factor").select_option("100")
    visit.page.get_by_role("button", name="Try", exact=True).click()
    expect(visit.page.locator("#rules-note")).to_contain_text(f"All of category {category}: up")
    expect(visit.page.locator("#own-results li >> nth=0 >> .facts")).to_contain_text(str(category))


@pytest.fixture
def pictured(shop: Shop) -> Iterator[None]:
    """A version whose items have prices and pictures, for a while."""

    def publish(**parts: Any) -> None:
        name = shop.publish(**parts)
        wait_until(lambda: shop.service.http.get("/v1/model").json()["model"] == name)

    ids = [one["id"] for one in shop.service.http.get("/v1/items?limit=200").json()["items"]]
    described = {"id": ids, "title": ids, "price": [1234.5] * len(ids), "image": [PICTURE] * len(ids)}
    publish(items=pl.DataFrame(described))
    yield
    publish()


def test_prices_and_pictures_are_shown(pictured: None, visit: Visit) -> None:
    visit.page.route(PICTURE, lambda route: route.fulfill(body=SVG, content_type="image/svg+xml"))
    visit.open()
    expect(visit.page.locator("#own-results .price").first).to_have_text("1,234.50")
    picture = visit.page.locator("#own-results img").first
    expect(picture).to_have_attribute("src", PICTURE)
    picture.scroll_into_view_if_needed()
    visit.page.wait_for_function("document.querySelector('#own-results img').naturalWidth === 56")
    box = picture.bounding_box()
    at = "([x, y]) => document.elementFromPoint(x, y).className"
    assert visit.page.evaluate(at, [box["x"] + 40, box["y"] + 60]) == "picture", "nothing covers it"
    assert visit.page.evaluate(at, [box["x"] + 8, box["y"] + 8]) == "place", "but the number of the line"
    assert set(visit.faults) == {PICTURE}, "pictures are all that comes from elsewhere"
    visit.page.goto("about:blank")
    visit.faults.clear()


def test_an_item_without_a_picture_has_a_drawing(visit: Visit) -> None:
    visit.open()
    assert visit.page.locator(f"{OWN_LINES} > svg.drawn[aria-hidden=true]").count() == len(visit.results())
    drawn = """async (items) => {
        const { drawingOf } = await import("/page/drawing.js");
        return items.map((item) => [...drawingOf(item).querySelectorAll(":scope > path")].map((path) =>
          path.getAttribute(path.getAttribute("fill").startsWith("hsl") ? "fill" : "d")));
    }"""
    ids = [{"id": "p1", "category": "Jeans"}, {"id": "p2", "category": "Slim jeans"}, {"id": "p1", "category": "Bag"}]
    others = [{"id": "p1", "category": None}, {"id": "p1", "category": "Jeans"}]
    jeans, slim, bag, unknown, again = visit.page.evaluate(drawn, ids + others)
    assert jeans == again
    assert (jeans[1] == slim[1], jeans[0] == slim[0]) == (True, False), (
        "the shape is of the category, the colour is not"
    )
    assert jeans[0] == bag[0] == unknown[0]
    assert len({shape for _, shape in (jeans, bag, unknown)}) == 3


def test_without_a_history_the_page_says_what_is_trending(visit: Visit) -> None:
    def answer(route: Any, change: dict[str, Any]) -> None:
        found = route.fetch(url=f"{visit.url}/v1/recommend", method="POST", post_data={"history": [], "k": 3}).json()
        route.fulfill(json=found | change)

    visit.open()
    expect(visit.page.locator("#trending")).to_be_hidden()
    visit.page.route("**/v1/recommend", lambda route: answer(route, {"fallback_kinds": ["popular", "recent"]}))
    grown = {"items": [{"id": "a", "title": "Hat", "reason": "6 customers"}, {"id": "b", "reason": "5 customers"}]}
    visit.page.route("**/v1/trending?k=3&arm=main", lambda route: answer(route, grown))
    visit.page.locator("#clear").click()
    expect(visit.page.locator("#results-heading")).to_have_text("Popular now")
    expect(visit.page.locator("#trending")).to_have_text("More popular than usual: Hat (6 customers); b (5 customers).")


def test_a_rule_and_a_new_product_are_part_of_the_tour(visit: Visit, shop: Shop, without_rules: None) -> None:
    (first,) = shop.service.http.get("/v1/items?limit=1").json()["items"]
    new = {"title": "New", "category": first["category"], "like": [first["id"]]}
    assert shop.service.http.put("/v1/items/new-1", json=new).status_code == 200
    pin = {"name": "New first", "select": {"ids": ["new-1"]}, "pin": 1}
    assert shop.service.http.put("/v1/rules", json={"rules": [pin]}).status_code == 200
    try:
        recommend = {"history": [first["id"]], "k": 1}
        wait_until(lambda: shop.service.http.post("/v1/recommend", json=recommend).json()["items"][0]["new"])
        visit.open()
        visit.page.locator("#show-tour").click()
        for _ in range(6):
            visit.page.locator("#tour-next").click()
        expect(visit.page.locator("#rules-note.toured")).to_have_text("Rule that acted on this list: New first.")
        visit.page.locator("#tour-next").click()
        expect(visit.page.locator(".new.toured")).to_have_text("new")
        expect(visit.page.locator(f"{OWN_LINES} >> nth=0 >> .because")).to_have_text("")
    finally:
        assert shop.service.http.delete("/v1/items/new-1").status_code == 200


@needs_axe
@pytest.mark.parametrize("visit", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_axe_finds_nothing_serious_while_a_rule_is_tried(visit: Visit) -> None:
    visit.open()
    visit.page.get_by_text("Try a rule").click()
    visit.page.get_by_role("button", name="Try", exact=True).click()
    expect(visit.page.locator("#rules-note")).to_contain_text("Only you see this list")
    assert serious_findings(visit.page) == []


def test_the_slider_has_a_name(visit: Visit) -> None:
    visit.open()
    slider: Any = visit.page.locator("#diversity")
    assert slider.evaluate("input => input.labels.length") == 1
