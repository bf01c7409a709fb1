"""The page explains itself: a key, labels, a tour, stable colours, and layouts for laptops and phones."""

# ruff: noqa: F811 - fixtures are imported, and used by their names

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.serving.accessibility import needs_axe, serious_findings
from tests.serving.page_visit import OWN_LINES, Shop, Visit, browser, expect, pytestmark, shop, visit  # noqa: F401
from tests.serving.running_service import wait_until

LAPTOP = {"viewport": {"width": 1024, "height": 768}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DARK = {"color_scheme": "dark"}
NOT_AUTOMATED = "Object.defineProperty(Navigator.prototype, 'webdriver', { get: () => false })"


def box_of(visit: Visit, selector: str) -> dict[str, float]:
    box: dict[str, float] = visit.page.locator(selector).first.bounding_box()
    return box


def test_one_sentence_and_a_key_say_what_is_seen(visit: Visit) -> None:
    visit.open()
    expect(visit.page.locator(".intro")).to_contain_text("items chosen by the same customers are close together")
    expect(visit.page.locator("#picture-key li")).to_contain_text(
        ["item, larger if more popular", "in the history", "the customer", "recommended", "shortest path"]
    )
    expect(visit.page.locator("footer #model-facts")).to_contain_text("200 items")


def test_a_category_keeps_its_colour_until_another_one_needs_it(visit: Visit) -> None:
    """What is filtered by, listed or in the history has a colour of its own; the others keep theirs if they can."""
    visit.open()
    grey = "rgb(127, 134, 145)"
    colours = """() => Object.fromEntries([...document.querySelectorAll("#legend button")].map(
      button => [button.textContent, getComputedStyle(button.firstChild).backgroundColor]))"""
    first = visit.page.evaluate(colours)
    assert len(set(first.values())) > 2
    names = visit.page.locator("#category option").evaluate_all("options => options.map(option => option.value)")
    for name in names[1:6]:
        visit.page.locator("#category").select_option(name)
        expect(visit.page.locator(f"{OWN_LINES} .facts").first).to_contain_text(name)
        visit.settled()
        now = visit.page.evaluate(colours)
        assert now[name] != grey
        coloured = [colour for colour in now.values() if colour != grey]
        assert len(coloured) == len(set(coloured)) == 8
        assert sum(now[other] != colour for other, colour in first.items()) in (0, 2), "one takes the place of another"
        first = now


def test_the_search_is_over_the_lists(visit: Visit) -> None:
    visit.open()
    before = box_of(visit, "#history-heading")
    visit.page.locator("#search").fill("jacket")
    options = visit.page.locator("#search-options")
    expect(options.locator("[role=option]").nth(3)).to_be_visible()
    assert box_of(visit, "#history-heading") == before
    assert box_of(visit, "#search-options")["y"] < before["y"]
    middle = (
        "list => { const { x, y } = list.getBoundingClientRect(); return document.elementFromPoint(x + 40, y + 60) }"
    )
    assert options.evaluate(f"list => list.contains(({middle})(list))")


def test_the_grid_is_smooth_when_zoomed(visit: Visit) -> None:
    """No step of a ring or a ray is long on the screen, and rings are at their distance from the centre."""
    visit.open()
    steps, distances = visit.page.evaluate(
        """async () => {
          const { smoothCurve } = await import("/page/curves.js");
          const poincare = await import("/page/poincare.js");
          const { ORIGIN, between, circleSeenFrom, distanceFromCentre, point, translate } = poincare;
          const { View } = await import("/page/view.js");
          const view = new View(() => {});
          view.resize(600, 600);
          view.jumpTo(point(0.8, 0.35), 12);
          const curves = [1, 2, 3, 4, 5, 6].map((radius) => {
            const ring = circleSeenFrom(view.centre, radius);
            return smoothCurve((share) => view.throughLens(ring(share)));
          });
          const ray = point(0.9999 * 0.9, 0.9999 * Math.sqrt(0.19));
          curves.push(smoothCurve((share) => view.toScreen(between(ORIGIN, ray, share))));
          const lengths = curves.flatMap((points) =>
            points.slice(1).map(({ x, y }, i) => Math.hypot(x - points[i].x, y - points[i].y)));
          const back = point(-view.centre.x, -view.centre.y);
          const ring = circleSeenFrom(view.centre, 2);
          return [lengths, [0, 0.3, 0.6].map((share) => distanceFromCentre(translate(ring(share), back)))];
        }"""
    )
    assert max(steps) <= 8
    np.testing.assert_allclose(distances, 2, atol=1e-9)


def test_scores_have_a_name(visit: Visit) -> None:
    visit.open()
    score = visit.page.locator(f"{OWN_LINES} >> nth=0 >> .facts span[title]")
    expect(score).to_have_text(re.compile(r"^(distance|score) \u2212?\d\.\d{3}$"))
    texts = visit.page.evaluate(
        """async () => {
          const { scoreOf } = await import("/page/notices.js");
          return [scoreOf(-1.5, "distance").text, scoreOf(-1.5, "inner").text, scoreOf(1, "count").text];
        }"""
    )
    assert texts == ["distance 1.500", "score \u22121.500", "chosen 1 time"]


def test_a_score_that_is_no_distance_is_not_called_one(visit: Visit) -> None:
    def boosted(route: Any) -> None:
        body = route.fetch().json()
        for item, kind in zip(body["items"], ("often_after", "near"), strict=False):
            item["because"] = [{"item": "x", "title": None, "share": 1.0, "kind": kind}]
        route.fulfill(json=body)

    visit.page.route("**/v1/recommend", boosted)
    visit.open()
    scores = visit.page.locator(f"{OWN_LINES} .facts span[title]")
    expect(scores.nth(0)).to_have_text(re.compile(r"^score \u2212?\d\.\d{3}$"))
    expect(scores.nth(1)).to_have_text(re.compile(r"^score \u2212?\d\.\d{3}$"))  # one word in a list


def test_a_tooltip_goes_with_the_pointer_after_a_choice_by_keyboard(visit: Visit) -> None:
    visit.open()
    stage = box_of(visit, "#stage")
    x, y = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    for step in range(200):
        visit.page.mouse.move(x + (10 + step) * np.cos(0.7 * step), y + (10 + step) * np.sin(0.7 * step))
        if "over-item" in (visit.page.locator("#stage").get_attribute("class") or ""):
            break
    tooltip = visit.page.locator("#tooltip")
    expect(tooltip).to_be_visible()
    visit.page.locator("#search").focus()
    visit.page.keyboard.type("belt")
    expect(visit.page.locator("#search-options [aria-selected=true]")).to_be_visible()
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#history li")).to_have_count(4)
    visit.settled()
    visit.page.mouse.move(stage["x"] + stage["width"] + 200, 5)
    expect(tooltip).to_be_hidden()


@pytest.mark.parametrize("visit", [LAPTOP], indirect=True)
def test_on_a_laptop_no_control_is_on_the_disk(visit: Visit) -> None:
    visit.open()
    stage = box_of(visit, "#stage")
    for button in visit.page.locator(".disk-buttons button").all():
        assert button.bounding_box()["y"] >= stage["y"] + stage["height"]
    help_text = box_of(visit, ".help")
    assert help_text["y"] + help_text["height"] <= 768
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 1024


@pytest.mark.parametrize("visit", [PHONE], indirect=True)
def test_on_a_phone_texts_are_whole_and_buttons_are_below_them(visit: Visit) -> None:
    visit.open()
    because, buttons = (box_of(visit, f"#own-results {name}") for name in (".because", ".buttons"))
    assert buttons["y"] >= because["y"] + because["height"]
    tops = [box_of(visit, name)["y"] for name in ("#options label:has(#k)", "#options label:has(#diversity)")]
    assert tops[0] == pytest.approx(tops[1], abs=20)
    assert box_of(visit, "#diversity")["x"] > box_of(visit, "#category")["x"]
    fits = """input => {
      const style = getComputedStyle(input);
      const context = document.createElement("canvas").getContext("2d");
      context.font = style.font;
      return context.measureText(input.placeholder).width < input.clientWidth - parseFloat(style.paddingLeft) * 2;
    }"""
    assert visit.page.locator("#search").evaluate(fits)
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 390


def test_buttons_have_clear_names_and_my_history_comes_back(visit: Visit) -> None:
    visit.open()
    mine = visit.history()
    expect(visit.page.locator(f"{OWN_LINES} >> nth=0 >> .buttons button")).to_have_text(["Add", "Similar", "Instead"])
    expect(visit.page.locator("#go-to-star")).to_contain_text("Customer")
    expect(visit.page.locator("#reset-view")).to_contain_text("Whole disk")
    visit.page.locator("#customer-panel summary").click()
    visit.page.locator("#customer-id").fill("grace")
    visit.page.locator("#customer-form [type=submit]").click()
    expect(visit.page.locator("#history-heading")).to_have_text("History of grace")
    visit.page.get_by_role("button", name="Back to my history").click()
    expect(visit.page.locator("#history-heading")).to_have_text("History")
    assert visit.history() == mine


def test_without_categories_nothing_mentions_them(visit: Visit, shop: Shop) -> None:
    name = shop.publish(items=None)

    def in_use(wanted: str) -> bool:
        return bool(shop.service.http.get("/v1/model").json()["model"] == wanted)

    try:
        wait_until(lambda: in_use(name))
        visit.open()
        expect(visit.page.locator("#category")).to_be_hidden()
        expect(visit.page.locator("#diversity")).to_be_visible()
        assert visit.page.get_by_text("no category").count() == 0
        expect(visit.page.locator("#examples button")).to_have_text(["Surprise me"])
    finally:
        name = shop.publish()
        wait_until(lambda: in_use(name))


@pytest.mark.parametrize("visit", [{}, LAPTOP, PHONE], indirect=True)
def test_the_tour_does_not_cover_what_it_explains(visit: Visit) -> None:
    visit.open()
    visit.page.locator("#show-tour").click()
    for _ in range(6):
        target, card = box_of(visit, ".toured"), box_of(visit, "#tour")
        below = target["y"] + target["height"] <= card["y"]
        assert below or target["x"] + target["width"] <= card["x"]
        assert target["y"] >= 0
        visit.page.locator("#tour-next").click()


def test_the_tour_is_for_first_visitors_only(visit: Visit) -> None:
    tour = visit.page.locator("#tour")
    visit.open()
    expect(tour).to_be_hidden()  # a program visits
    visit.page.add_init_script(NOT_AUTOMATED)
    visit.open("/?tour=0")
    expect(tour).to_be_hidden()
    visit.open("/?")
    expect(tour).to_be_visible()
    expect(visit.page.locator("#tour-next")).to_be_focused()
    seen = []
    for place in range(1, 7):
        expect(visit.page.locator("#tour-place")).to_have_text(f"{place} of 6")
        seen.append(visit.page.locator(".toured").get_attribute("id"))
        visit.page.locator("#tour-next").click()
    assert seen == ["stage", "search", "customer-place", "results-heading", "experiences", "other-arm"]
    expect(tour).to_be_hidden()
    assert visit.page.locator(".toured").count() == 0
    visit.page.reload()
    visit.settled()
    expect(tour).to_be_hidden()
    visit.page.locator("#show-tour").click()
    expect(tour).to_be_visible()
    visit.page.keyboard.press("Escape")
    expect(tour).to_be_hidden()
    expect(visit.page.locator("#show-tour")).to_be_focused()


def test_a_skipped_tour_does_not_return(visit: Visit) -> None:
    visit.page.add_init_script(NOT_AUTOMATED)
    visit.open()
    visit.page.locator("#tour-skip").click()
    expect(visit.page.locator("#tour")).to_be_hidden()
    visit.page.reload()
    visit.settled()
    expect(visit.page.locator("#tour")).to_be_hidden()


@needs_axe
@pytest.mark.parametrize("visit", [{}, DARK, LAPTOP, PHONE, PHONE | DARK], indirect=True)
def test_axe_finds_nothing_serious(visit: Visit) -> None:
    visit.open()
    visit.page.locator("#customer-panel summary").click()
    visit.page.locator("#reading").click()
    visit.page.locator("#other-arm").select_option("flat")
    expect(visit.page.locator("#other-results li[data-id]")).to_have_count(10)
    assert serious_findings(visit.page) == []
    visit.page.locator("#show-tour").click()
    visit.page.locator("#search").fill("jacket")
    expect(visit.page.locator("#search-options [role=option]").first).to_be_visible()
    assert serious_findings(visit.page) == []
    visit.page.goto(visit.url + "/docs")
    assert serious_findings(visit.page) == []


def test_a_version_tells_what_it_knows_about_itself(visit: Visit) -> None:
    visit.open()
    panel = visit.page.locator("#version-panel")
    panel.locator("summary").click()
    expect(panel.locator("dt")).to_have_text(["Age", "Newest event learned", "NDCG@10"])  # nothing was compared
    expect(panel.locator("dd").first).to_have_text(re.compile(r"^\d+ (minute|hour)s?, made at 20[\d: -]+ UTC$"))
    expect(panel).to_contain_text("No daily job has published this version.")
    expect(panel.locator("table")).to_be_hidden()


@needs_axe
@pytest.mark.parametrize("visit", [{}, DARK, PHONE], indirect=True)
def test_a_version_of_the_daily_job_shows_its_days(visit: Visit) -> None:
    def published(route: Any) -> None:
        body = route.fetch().json()
        check = {"ndcg": 0.2, "best_baseline": "item-knn", "best_baseline_ndcg": 0.15, "customers": 1, "events": "new"}
        days: list[dict[str, Any]] = [
            {"time": 86_400.0 * day, "ndcg": 0.1 * day, "best_baseline": 0.05} for day in (1, 2)
        ]
        unknown: dict[str, Any] = {"coverage": None, "new_item_share": 0.25}
        body["version"] |= {"check": check, "compared_with": "an-older-one", "overlap": 0.625}
        body["version"] |= {"days": [day | unknown for day in days]}
        route.fulfill(json=body)

    visit.page.route("**/v1/model", published)
    visit.open()
    panel = visit.page.locator("#version-panel")
    expect(panel.locator("table")).to_be_hidden()
    panel.locator("summary").click()
    expect(panel.locator("dd").nth(2)).to_have_text(
        "0.2000, and 0.1500 of the best baseline, item-knn, on new events of 1 customer"
    )
    expect(panel.locator("dd").nth(3)).to_have_text("0.63 with version an-older-one, which it was compared with")
    cells = panel.locator("tbody tr").first.locator("th, td")
    expect(cells).to_have_text(["1970-01-03", "0.2000", "0.0500", "\u2013", "0.250"])  # the newest day is first
    expect(panel.locator("tbody tr")).to_have_count(2)
    assert "No daily job" not in panel.inner_text()
    width = visit.page.viewport_size["width"]
    assert visit.page.evaluate("document.documentElement.scrollWidth") == width
    assert serious_findings(visit.page) == []


def test_ages_are_in_words(visit: Visit) -> None:
    visit.open()
    texts = visit.page.evaluate(
        """async () => {
          const { lengthOf } = await import("/page/version_panel.js");
          return [-5, 60, 7199, 7200, 172799, 172800, 1e8].map(lengthOf);
        }"""
    )
    assert texts == ["0 minutes", "1 minute", "119 minutes", "2 hours", "47 hours", "2 days", "1,157 days"]


def test_the_documentation_is_linked_and_works_under_the_content_security_policy(visit: Visit) -> None:
    visit.open()
    visit.page.get_by_role("link", name="API documentation").click()
    expect(visit.page.locator("h1")).to_have_text("lorentzrec API")
    visit.page.locator("nav").get_by_text("/v1/outfits").click()
    expect(visit.page.locator("section", has_text="/v1/outfits").first).to_be_in_viewport()
    assert visit.page.evaluate("getComputedStyle(document.querySelector('.docs section')).borderRadius") == "14px"
    visit.page.locator("#theme").click()
    expect(visit.page.locator("html")).to_have_attribute("data-theme", "dark")
