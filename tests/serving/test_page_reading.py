"""What the page shows: the customer's position, reasons, colours, and how touch and keys work."""

# ruff: noqa: F811 - fixtures are imported, and used by their names

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.serving.page_visit import OWN_LINES, Shop, Visit, browser, expect, pytestmark, shop, visit  # noqa: F401

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def catalogue(shop: Shop) -> tuple[NDArray[np.float64], list[str], NDArray[np.float32]]:
    """Places, categories and popularity of all rows."""
    content = shop.service.http.get("/v1/map").content
    names = shop.service.http.get("/v1/model").json()["categories"]
    count = len(content) // 16
    codes = np.frombuffer(content[8 * count : 12 * count], "<i4")
    places = np.frombuffer(content[: 8 * count], "<f4").reshape(-1, 2).astype(float)
    return places, [names[code] for code in codes], np.frombuffer(content[12 * count :], "<f4")


def test_the_neighbourhood_of_the_customer_depends_on_the_history_alone(visit: Visit, shop: Shop) -> None:
    visit.open()
    shown = visit.page.locator("#customer-place")
    places, categories, _ = catalogue(shop)
    star = np.array([float(part) for part in visit.star().split()])
    far = ((places - star) ** 2).sum(axis=1) / (1 - (places**2).sum(axis=1))
    first, second = [name for name, _ in Counter(categories[row] for row in np.argsort(far)[:15]).most_common(2)]
    sentence = shown.text_content()
    assert sentence.endswith(f", near {first} and {second}.")
    changes: list[Callable[[], Any]] = [
        lambda: visit.page.locator("#k").select_option("50"),
        lambda: visit.page.locator("#diversity").fill("0.9"),
        lambda: visit.page.locator("#category").select_option(index=3),
    ]
    for change in changes:
        before = visit.results()
        change()
        visit.page.wait_for_function(
            "before => [...document.querySelectorAll('#own-results li')].map(x => x.dataset.id).join() !== before",
            arg=",".join(before),
        )
        visit.settled()
        assert shown.text_content() == sentence


def test_the_page_opens_with_items_that_explain_and_are_no_top_sellers(visit: Visit, shop: Shop) -> None:
    visit.open()
    expect(visit.page.locator(f"{OWN_LINES} .because")).to_have_count(10)
    assert visit.page.locator(".because", has_text="fits the history as a whole").count() == 0
    _, categories, popularity = catalogue(shop)
    rows = shop.service.http.post("/v1/map/rows", json={"items": visit.history()}).json()["rows"]
    own = sorted(
        (popularity[row] for row in range(len(categories)) if categories[row] == categories[rows[0]]), reverse=True
    )
    assert {categories[row] for row in rows} == {categories[rows[0]]}
    assert max(popularity[row] for row in rows) == own[len(own) // 4]


def test_scores_are_explained(visit: Visit) -> None:
    visit.open()
    score = visit.page.locator(f"{OWN_LINES} >> nth=0 >> .facts span[title]")
    expect(score).to_have_attribute("title", re.compile("^score: (minus )?the distance, "))
    visit.page.locator("#reading").click()
    expect(visit.page.locator("#reading-help")).to_contain_text("Because of lists the items of the history")
    visit.page.locator("#clear").click()
    expect(score).to_have_text(re.compile(r"^chosen [\d,]+ times$"))
    expect(visit.page.locator("#because-help")).to_be_hidden()


def test_an_item_without_a_reason_is_marked(visit: Visit) -> None:
    def without_reasons(route: Any) -> None:
        body = route.fetch().json()
        route.fulfill(json=body | {"items": [item | {"because": []} for item in body["items"]]})

    visit.page.route("**/v1/recommend", without_reasons)
    visit.open()
    expect(visit.page.locator(f"{OWN_LINES} >> nth=9 >> .because")).to_have_text("fits the history as a whole")


def test_an_arm_is_shown_for_similar_items_and_in_the_address(visit: Visit, shop: Shop) -> None:
    visit.open()
    visit.page.locator("#other-arm").select_option("flat")
    expect(visit.page.locator("#other-results li[data-id]")).to_have_count(10)
    item = visit.results()[1]
    visit.page.locator(f"{OWN_LINES} >> nth=1 >> [data-action=similar]").click()
    expect(visit.page.locator("#results-heading")).to_contain_text("Similar to")
    visit.settled()
    shown = shop.service.http.get(f"/v1/items/{item}/similar", params={"arm": "flat"}).json()
    other = visit.page.locator("#other-results li").evaluate_all("lines => lines.map(line => line.dataset.id)")
    assert other == [item["id"] for item in shown["items"]]
    visit.page.reload()
    visit.settled()
    expect(visit.page.locator("#other-arm")).to_have_value("flat")
    expect(visit.page.locator("#other-results li[data-id]")).to_have_count(10)


def test_a_title_brings_its_item_to_the_middle(visit: Visit, shop: Shop) -> None:
    visit.open()
    place = catalogue(shop)[0][
        shop.service.http.post("/v1/map/rows", json={"items": visit.results()}).json()["rows"][4]
    ]
    visit.page.locator(f"{OWN_LINES} >> nth=4 >> [data-action=show]").click()
    expect(visit.page.locator("#stage")).to_have_attribute("data-centre", f"{place[0]:.4f} {place[1]:.4f}")


def test_a_long_history_is_shown_in_part(visit: Visit) -> None:
    visit.open()
    expect(visit.page.locator("#whole-history")).to_be_hidden()
    ids = visit.results()
    visit.page.goto("about:blank")
    visit.open("/#" + "&".join(f"history={id}" for id in ids))
    last = visit.page.locator("#history li").last
    button = visit.page.locator("#whole-history")
    expect(button).to_have_text("Show all 10")
    below = "line => line.getBoundingClientRect().bottom > line.parentElement.getBoundingClientRect().bottom"
    assert last.evaluate(below)
    button.click()
    assert not last.evaluate(below)
    button.click()
    assert last.evaluate(below)


def test_escape_closes_the_search_and_then_empties_it(visit: Visit) -> None:
    visit.open()
    box = visit.page.locator("#search")
    box.fill("belt")
    expect(visit.page.locator("#search-options")).to_be_visible()
    box.press("Escape")
    expect(visit.page.locator("#search-options")).to_be_hidden()
    expect(box).to_have_value("belt")
    box.press("Escape")
    expect(box).to_have_value("")


def test_enter_takes_the_nearest_item_or_reports_that_there_is_none(visit: Visit, shop: Shop) -> None:
    visit.open()
    wanted = visit.results()[0]  # not in the history: an item of the history would only move to its front
    (row,) = shop.service.http.post("/v1/map/rows", json={"items": [wanted]}).json()["rows"]
    x, y = catalogue(shop)[0][row]
    visit.page.locator(f"{OWN_LINES} >> nth=0 >> [data-action=show]").click()
    stage = visit.page.locator("#stage")
    expect(stage).to_have_attribute("data-centre", f"{x:.4f} {y:.4f}")  # drawn, not only requested
    stage.focus()
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#history li")).to_have_count(4)
    assert visit.history()[-1] == wanted
    visit.settled()
    for _ in range(12):
        visit.page.keyboard.press("Shift+ArrowUp")
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#tooltip")).to_contain_text("No item here")
    expect(visit.page.locator("#announcement")).to_contain_text("No item here")
    expect(visit.page.locator("#history li")).to_have_count(4)


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_one_finger_scrolls_past_the_disk_and_two_move_it(visit: Visit) -> None:
    visit.open()
    box = visit.page.locator("#search").bounding_box()
    assert box["y"] + box["height"] < 200
    expect(visit.page.locator(".help")).to_contain_text("Move and zoom with two fingers")
    expect(visit.page.locator(".for-mouse")).to_be_hidden()
    stage = visit.page.locator("#stage").bounding_box()
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    touch = visit.page.context.new_cdp_session(visit.page)

    def drag(*fingers: tuple[float, float, float, float]) -> None:
        """Fingers that go from one place to another in ten steps."""
        for step in range(11):
            points = [
                {"id": finger, "x": x + x0 + (x1 - x0) * step / 10, "y": y + y0 + (y1 - y0) * step / 10}
                for finger, (x0, y0, x1, y1) in enumerate(fingers)
            ]
            kind = "touchMove" if step else "touchStart"
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    seen = visit.page.locator("#stage")
    zoom, centre = float(seen.get_attribute("data-zoom")), seen.get_attribute("data-centre")
    drag((-60, 0, 20, 0))
    expect(visit.page.locator("#tooltip")).to_contain_text("Two fingers move the disk")
    assert seen.get_attribute("data-centre") == centre
    drag((-40, 0, -80, 0), (40, 0, 80, 0))
    assert float(seen.get_attribute("data-zoom")) == pytest.approx(2 * zoom, rel=0.1)
    drag((-40, 0, -40, -60), (40, 0, 40, -60))
    assert float(seen.get_attribute("data-centre").split()[1]) < -0.05
    assert visit.page.evaluate("[scrollY, visualViewport.scale]") == [0, 1]
    centre = seen.get_attribute("data-centre")
    drag((0, 0, 0, -200))
    visit.page.wait_for_function("scrollY > 100")
    assert seen.get_attribute("data-centre") == centre


def test_numbers_do_not_overlap_inside_the_disk(visit: Visit) -> None:
    visit.open()
    spots = visit.page.evaluate(
        """async () => {
          const { freeSpot } = await import("/page/placement.js");
          const disk = { x: 300, y: 300, radius: 294 };
          const taken = [];
          for (let number = 0; number < 8; number++)
            taken.push({ ...freeSpot({ x: 300 + number, y: 580 }, 10, taken, disk, disk), radius: 10 });
          return taken.map(({ x, y }) => [x, y]);
        }"""
    )
    places = np.array(spots)
    apart = np.hypot(*(places[:, None] - places[None]).T)[np.triu_indices(8, 1)]
    assert spots[0] == [300, 580]
    assert apart.min() >= 20 - 1e-9
    assert np.hypot(*(places[1:] - 300).T).max() + 10 < 294


def test_a_label_is_next_to_its_point_over_the_fewest_marks(visit: Visit) -> None:
    visit.open()
    put = """async (marks) => {
      const { placeNextTo } = await import("/page/placement.js");
      const obstacles = marks.map(([x, y]) => ({ x, y, radius: 8 }));
      const { x, y } = placeNextTo({ x: 100, y: 100 }, { width: 80, height: 20 }, obstacles, { x: 150, y: 150 }, 12);
      return [x, y];
    }"""
    assert visit.page.evaluate(put, []) == [100, 77]  # above: 12 + 1 from the point, and half of its height
    assert visit.page.evaluate(put, [[100, 80]]) == [100, 123]
    assert visit.page.evaluate(put, [[100, 80], [100, 120]]) == [153, 100]
