"""The page in a real browser, against the real service and a small model that was really trained."""

# ruff: noqa: F811 - fixtures are imported, and used by their names

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from tests.serving.colour_sight import SIGHTS, contrast, seen
from tests.serving.page_visit import OWN_LINES, Shop, Visit, browser, expect, pytestmark, shop, visit  # noqa: F401
from tests.serving.running_service import wait_until

PHONE = {"viewport": {"width": 375, "height": 740}, "has_touch": True, "is_mobile": True}


def test_first_visitor_sees_an_example_with_recommendations(visit: Visit, shop: Shop) -> None:
    visit.open()
    assert len(visit.history()) == 3
    assert len(visit.results()) == 10
    query = {"history": visit.history(), "k": 10}
    expected = shop.service.http.post("/v1/recommend", json=query).json()
    assert visit.results() == [item["id"] for item in expected["items"]]
    expect(visit.page.locator("#stage")).to_have_attribute("data-renderer", "webgl2")
    expect(visit.page.locator("#model-facts")).to_contain_text(expected["model"])
    assert "ms" in str(visit.page.locator("#milliseconds").text_content())
    expect(visit.page.locator(OWN_LINES).first).to_contain_text("because of")


def test_search_finds_items_and_each_choice_moves_the_star_and_the_results(visit: Visit) -> None:
    visit.open()
    visit.page.locator("#clear").click()
    expect(visit.page.locator("#notice")).to_contain_text("most popular items")
    expect(visit.page.locator("#customer-place")).to_contain_text("no position on the disk yet")
    stars, results = [visit.star()], [visit.results()]
    for place, word in enumerate(("jacket", "belt", "polo"), start=1):
        visit.page.locator("#search").fill(word)
        option = visit.page.locator("#search-options [role=option]").first
        expect(option).to_contain_text(re.compile(word, re.IGNORECASE))
        option.click()
        expect(visit.page.locator("#history li")).to_have_count(place)
        expect(visit.page.locator("#customer-place")).not_to_have_attribute("data-star", stars[-1])
        visit.settled()
        stars.append(visit.star())
        results.append(visit.results())
    assert len(set(stars)) == 4
    assert len({tuple(result) for result in results}) == 4
    place = visit.page.locator("#customer-place").text_content()
    assert re.search("On this map, the customer is (close to|away from) the centre", place)
    visit.page.locator("#history button").first.click()
    expect(visit.page.locator("#customer-place")).to_have_attribute("data-star", stars[-2])
    assert visit.results() == results[-2]


def test_the_star_is_at_the_weighted_midpoint_of_the_history(visit: Visit, shop: Shop) -> None:
    visit.open()
    http = shop.service.http
    recency, content = http.get("/v1/model").json()["recency"], http.get("/v1/map").content
    places = np.frombuffer(content[: len(content) // 2], "<f4").reshape(-1, 2).astype(float)
    rows = http.post("/v1/map/rows", json={"items": visit.history()}).json()["rows"]
    # The slow way of the paper: Klein coordinates, weights gamma * recency^age, and back to the Poincaré disk.
    klein = [2 * z / (1 + z @ z) for z in places[rows]]
    weights = [recency**age / np.sqrt(1 - k @ k) for age, k in zip((2, 1, 0), klein, strict=True)]
    middle = sum(w * k for w, k in zip(weights, klein, strict=True)) / sum(weights)
    expected = middle / (1 + np.sqrt(1 - middle @ middle))
    np.testing.assert_allclose([float(part) for part in visit.star().split()], expected, atol=1e-5)


def test_a_click_on_the_disk_adds_the_item_under_the_pointer(visit: Visit) -> None:
    visit.open()
    box = visit.page.locator("#stage").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    # Somewhere along a spiral there is an item that is not in the history.
    for step in range(200):
        away = 20 + step * box["width"] / 2 / 230
        turn = 0.7 * step
        cosine, sine = visit.page.evaluate("turn => [Math.cos(turn), Math.sin(turn)]", turn)
        visit.page.mouse.move(middle[0] + away * cosine, middle[1] + away * sine)
        if "over-item" in (visit.page.locator("#stage").get_attribute("class") or ""):
            break
    expect(visit.page.locator("#tooltip")).to_be_visible()
    title = visit.page.locator("#tooltip strong").text_content()
    visit.page.mouse.down()
    visit.page.mouse.up()
    expect(visit.page.locator("#history li").first).to_contain_text(title)


def test_two_arms_are_compared_and_shared_items_are_marked(visit: Visit) -> None:
    visit.open()
    visit.page.locator("#other-arm").select_option("flat")
    lines = visit.page.locator("#other-results li[data-id]")
    expect(lines).to_have_count(10)
    expect(visit.page.locator("#own-heading")).to_have_text("main")
    expect(visit.page.locator("#other-heading")).to_have_text("flat")
    other = lines.evaluate_all("lines => lines.map(line => line.dataset.id)")
    shared = set(other) & set(visit.results())
    assert other != visit.results()
    expect(visit.page.locator("#shared")).to_have_text(f"{len(shared)} of 10 items are in both lists.")
    expect(visit.page.locator("#other-results li.shared")).to_have_count(len(shared))
    expect(visit.page.locator("#own-results li.shared")).to_have_count(len(shared))
    visit.page.locator("#arm").select_option("flat")
    visit.page.locator("#other-arm").select_option("main")
    expect(visit.page.locator("#other-heading")).to_have_text("main")
    expect(visit.page.locator("#own-heading")).to_have_text("flat")
    assert visit.results() == other


def test_similar_items_and_back(visit: Visit, shop: Shop) -> None:
    visit.open()
    recommended = visit.results()
    visit.page.locator(f"{OWN_LINES} >> nth=1 >> [data-action=similar]").click()
    expect(visit.page.locator("#results-heading")).to_contain_text("Similar to")
    expected = shop.service.http.get(f"/v1/items/{recommended[1]}/similar", params={"k": 10}).json()
    assert visit.results() == [item["id"] for item in expected["items"]]
    visit.page.locator("#leave-item").click()
    expect(visit.page.locator("#results-heading")).to_have_text("Recommended")
    assert visit.results() == recommended


def test_options_change_the_results(visit: Visit) -> None:
    visit.open()
    plain = visit.results()
    visit.page.locator("#diversity").fill("0.9")
    expect(visit.page.locator("#diversity-value")).to_have_text("0.9")
    expect(visit.page.locator(f"{OWN_LINES} >> nth=1")).not_to_have_attribute("data-id", plain[1])
    category = visit.page.locator("#category option").nth(1).get_attribute("value")
    visit.page.locator("#k").select_option("5")
    visit.page.locator("#category").select_option(category)
    expect(visit.page.locator(f"{OWN_LINES} .facts")).to_contain_text([category] * 5)
    assert len(visit.results()) == 5


def test_what_a_known_customer_adds_is_stored_and_counts(visit: Visit, shop: Shop) -> None:
    visit.open()
    visit.page.locator("#customer-panel summary").click()
    visit.page.locator("#customer-id").fill("ada / 1")
    visit.page.locator("#customer-form [type=submit]").click()
    expect(visit.page.locator("#history-heading")).to_have_text("History of ada / 1")
    expect(visit.page.locator("#notice")).to_contain_text("most popular items")
    visit.page.locator("#send-events").check()
    first = visit.results()[0]
    visit.page.locator(f"{OWN_LINES} >> nth=0 >> [data-action=add]").click()
    expect(visit.page.locator("#history li.stored")).to_have_count(1)
    visit.settled()
    assert visit.history() == [first]
    expected = shop.service.http.post("/v1/recommend", json={"user": "ada / 1"}).json()
    assert visit.results() == [item["id"] for item in expected["items"]]
    assert expected["fallback"] is None
    visit.page.locator("#leave-customer").click()
    expect(visit.page.locator("#history-heading")).to_have_text("History")


def test_what_a_customer_dislikes_is_named_and_moves_no_star(visit: Visit, shop: Shop) -> None:
    visit.open()
    liked, disliked = visit.history()[-1], visit.results()[-1]
    visit.open(f"/#history={liked}")
    visit.page.reload()
    visit.settled()
    star = visit.star()
    events = [
        {"user": "kim", "item": liked, "time": 1},
        {"user": "kim", "item": disliked, "time": 2, "kind": "dislike"},
    ]
    assert shop.service.http.post("/v1/events", json={"events": events}).status_code == 200
    visit.page.goto(f"{visit.url}/#customer=kim")
    visit.page.reload()
    visit.settled()
    expect(visit.page.locator(f'#history li[data-id="{disliked}"]')).to_contain_text("(disliked)")
    assert visit.star() == star
    assert disliked not in visit.results()
    visit.page.get_by_role("tab", name="Goes with").click()
    expect(visit.page.locator("#results-heading")).to_have_text("Goes with the history")
    visit.settled()
    expected = shop.service.http.post("/v1/outfits", json={"basket": [liked]}).json()["items"]
    assert visit.results() == [item["id"] for item in expected]


def test_everything_with_the_keyboard_alone(visit: Visit) -> None:
    visit.open()
    keys = visit.page.keyboard
    keys.press("Tab")
    assert visit.page.evaluate("document.activeElement.className") == "skip"
    keys.press("Enter")
    assert visit.page.evaluate("document.activeElement.id") == "search"
    keys.type("belt")
    expect(visit.page.locator("#search-options [aria-selected=true]")).to_have_attribute("id", "search-option-0")
    keys.press("ArrowDown")
    expect(visit.page.locator("#search")).to_have_attribute("aria-activedescendant", "search-option-1")
    keys.press("Enter")
    expect(visit.page.locator("#history li")).to_have_count(4)
    visit.settled()
    keys.press("Tab")
    assert visit.page.evaluate("document.activeElement.id") == "stage"
    stage = visit.page.locator("#stage")
    before = stage.get_attribute("data-centre")
    keys.press("ArrowRight")
    expect(stage).not_to_have_attribute("data-centre", before)
    zoom = stage.get_attribute("data-zoom")
    keys.press("+")
    expect(stage).not_to_have_attribute("data-zoom", zoom)
    keys.press("c")
    star = [float(part) for part in visit.star().split()]
    expect(stage).to_have_attribute("data-centre", f"{star[0]:.4f} {star[1]:.4f}")
    keys.press("0")
    expect(stage).to_have_attribute("data-centre", "0.0000 0.0000")
    assert visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_dragged_to_the_centre(visit: Visit) -> None:
    """The point under the hand stays under it: dragging it to the middle makes it the centre of the view."""
    visit.open()
    stage = visit.page.locator("#stage")
    box = stage.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    world = visit.page.evaluate(
        """async ([dx, zoom]) => {
          const { magnify, point } = await import("/page/poincare.js");
          const radius = document.getElementById("stage").clientWidth / 2 - 6;
          return magnify(point(dx / radius, 0), 1 / zoom).x;
        }""",
        [150, float(stage.get_attribute("data-zoom"))],
    )
    visit.page.mouse.move(x + 150, y)
    visit.page.mouse.down()
    visit.page.mouse.move(x + 60, y + 40, steps=3)
    visit.page.mouse.move(x, y, steps=3)
    visit.page.mouse.up()
    centre = [float(part) for part in stage.get_attribute("data-centre").split()]
    assert centre == pytest.approx([world, 0], abs=0.005)


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_on_a_phone_nothing_scrolls_sideways_and_a_tap_offers_to_add(visit: Visit) -> None:
    visit.open()
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 375
    disk, lists = visit.page.locator("#stage").bounding_box(), visit.page.locator(".lists").bounding_box()
    assert disk["y"] + disk["height"] < lists["y"]
    visit.page.locator("#go-to-star").tap()
    for move in range(60):
        visit.page.locator("#stage").tap(position={"x": 100 + 3 * move, "y": 120 + 2 * move})
        visit.page.wait_for_timeout(50)
        if "over-item" in (visit.page.locator("#stage").get_attribute("class") or ""):
            break
    expect(visit.page.locator("#tooltip button")).to_be_visible()
    title = visit.page.locator("#tooltip strong").text_content()
    visit.page.locator("#tooltip button").tap()
    expect(visit.page.locator("#history li").first).to_contain_text(title)


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_the_theme_follows_the_system_or_the_reader(visit: Visit) -> None:
    visit.open()
    body = "getComputedStyle(document.body).backgroundColor"
    assert visit.page.evaluate(body) == "rgb(16, 19, 26)"
    visit.page.locator("#theme").click()
    assert visit.page.evaluate(body) == "rgb(244, 242, 236)"
    visit.page.reload()
    visit.settled()
    assert visit.page.evaluate(body) == "rgb(244, 242, 236)"


def test_every_text_and_every_colour_has_enough_contrast(visit: Visit) -> None:
    """WCAG AA: 4.5 to 1 for text, 3 to 1 for the colours of categories; and distinct for any colour vision."""
    visit.open()
    for theme in ("light", "dark"):
        named, dots = visit.page.evaluate(
            """async (theme) => {
              document.documentElement.dataset.theme = theme;
              const style = getComputedStyle(document.documentElement);
              const { palette } = await import("/page/palette.js");
              const names = ["page", "paper", "ink", "muted", "star", "accent", "accent-ink", "accent-soft", "warning",
                "warning-soft", "problem", "problem-soft"];
              return [Object.fromEntries(names.map(n => [n, style.getPropertyValue("--" + n).trim()])),
                palette(theme === "dark")];
            }""",
            theme,
        )
        pairs = [(text, ground) for text in ("ink", "muted", "accent") for ground in ("page", "paper")]
        pairs += [("accent-ink", "accent"), ("warning", "warning-soft"), ("problem", "problem-soft")]
        pairs += [("ink", "accent-soft"), ("muted", "accent-soft")]
        for text, ground in pairs:
            assert contrast(named[text], named[ground]) >= 4.5, (theme, text, ground)
        for dot in dots:
            assert min(contrast(dot, named["page"]), contrast(dot, named["paper"])) >= 3, (theme, dot)
        for sight, matrix in SIGHTS.items():
            for one, other in combinations(dots, 2):
                apart = np.linalg.norm(seen(one, matrix) - seen(other, matrix))
                # The grey of all other categories, the last one, is no category of its own.
                least = 18 if sight != "normal" else 30 if other == dots[-1] else 35
                assert apart >= least, (theme, sight, one, other)
        normal = SIGHTS["normal"]
        for dot in dots[:-1]:
            for name in ("ink", "accent", "star"):
                assert np.linalg.norm(seen(dot, normal) - seen(named[name], normal)) >= 28, (theme, dot, name)


def test_legend_brings_out_a_category(visit: Visit) -> None:
    visit.open()
    button = visit.page.locator("#legend > button").first
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")


def test_drawing_without_webgl_puts_points_where_webgl_does(visit: Visit) -> None:
    """The shader and its twin on the processor, compared by their pictures: nearly all ink is in the same places."""
    ink = """() => {
      const canvas = document.querySelector("#stage .points");
      const copy = document.createElement("canvas");
      copy.width = copy.height = 120;
      const context = copy.getContext("2d");
      return new Promise((done) => {
        document.getElementById("zoom-in").click();
        requestAnimationFrame(() => {
          context.drawImage(canvas, 0, 0, 120, 120);
          const { data } = context.getImageData(0, 0, 120, 120);
          done(Array.from({ length: 14400 }, (_, pixel) => data[4 * pixel + 3]));
        });
      });
    }"""
    pictures = []
    for address, renderer in (("/", "webgl2"), ("/?canvas", "canvas")):
        visit.open(address)
        expect(visit.page.locator("#stage")).to_have_attribute("data-renderer", renderer)
        pictures.append(visit.page.evaluate(ink))
    assert min(sum(picture) for picture in pictures) > 10_000, [sum(picture) for picture in pictures]
    difference = sum(abs(one - other) for one, other in zip(*pictures, strict=True))
    assert difference < 0.1 * sum(pictures[0])


def test_text_of_the_catalogue_is_never_markup(visit: Visit) -> None:
    visit.page.route(
        "**/v1/items?*",
        lambda route: route.fulfill(
            json={"items": [{"row": 0, "id": "x", "title": "<img src=x onerror=alert(1)>", "category": "<b>"}]}
        ),
    )
    visit.open()
    visit.page.locator("#search").fill("x")
    expect(visit.page.locator("#search-options [role=option]")).to_contain_text("<img src=x onerror=alert(1)>")
    assert visit.page.locator("#search-options img, #search-options b").count() == 0


def test_another_version_without_map_is_noticed_while_the_page_is_open(visit: Visit, shop: Shop) -> None:
    visit.open()
    name = shop.publish(disk_map=None)
    try:
        wait_for_model(shop, name)
        visit.page.locator("#k").select_option("5")
        expect(visit.page.locator("#model-facts")).to_contain_text(name)
        expect(visit.page.locator("#no-map")).to_be_visible()
        expect(visit.page.locator("#disk-side")).to_be_hidden()
        expect(visit.page.locator(OWN_LINES)).to_have_count(5)
        visit.page.get_by_role("button", name="Clear").click()
        expect(visit.page.locator("#history li")).to_have_count(0)
        visit.page.get_by_role("button", name="Surprise me").click()
        expect(visit.page.locator("#history li").first).to_be_visible()
    finally:
        name = shop.publish()
        wait_for_model(shop, name)
    visit.page.locator("#k").select_option("20")
    expect(visit.page.locator("#disk-side")).to_be_visible()
    expect(visit.page.locator("#customer-place")).to_contain_text("the centre")


def wait_for_model(shop: Shop, name: str) -> None:
    wait_until(lambda: bool(shop.service.http.get("/v1/model").json()["model"] == name))


def test_new_items_are_marked_and_are_not_on_the_disk(visit: Visit, shop: Shop) -> None:
    http = shop.service.http
    visit.open()
    first = visit.results()[0]
    http.put("/v1/items/brand-new", json={"title": "Brand-new parka", "like": [first]})
    try:
        wait_until(lambda: any(item["new"] for item in http.get(f"/v1/items/{first}/similar?k=50").json()["items"]))
        visit.page.locator(f"{OWN_LINES} >> nth=0 >> [data-action=similar]").click()
        line = visit.page.locator(f'{OWN_LINES}[data-id="brand-new"]')
        expect(line.locator("em.new")).to_have_text("new")
        expect(visit.page.locator("#own-results em.new")).to_have_count(1)
        expect(line.locator("[data-action=show]")).to_have_count(0)
        line.locator("[data-action=add]").click()
        expect(visit.page.locator("#history li").first).to_contain_text("Brand-new parka")
        visit.settled()
        expect(visit.page.locator("#notice")).to_be_hidden()
    finally:
        http.delete("/v1/items/brand-new")
        wait_until(lambda: http.get("/v1/items/brand-new").status_code == 404)
