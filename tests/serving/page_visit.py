"""A visit to the page: a real browser, the real service, and a small trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.learning.trainer import train
from lorentzrec.maps.disk_map import disk_map
from lorentzrec.model.config import TrainingConfig
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.version import write_version
from lorentzrec.synthetic.shop import SyntheticConfig, synthesize
from tests.serving.running_service import Service, service_process

playwright_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright_api.expect

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed: apt install chromium"),
]
SOFTWARE_WEBGL = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
OWN_LINES = "#own-results li[data-id]"
PATIENCE = 60_000


@dataclass(frozen=True)
class Shop:
    """A trained shop with its service; `publish` puts another version in the place of the current one."""

    service: Service
    publish: Callable[..., str]


@dataclass
class Visit:
    """An open page, and all that a clean page must not have."""

    page: Any
    url: str
    faults: list[str] = field(default_factory=list)

    def open(self, address: str = "/") -> None:
        self.page.goto(self.url + address)
        self.settled()

    def settled(self) -> None:
        """The last request is complete."""
        expect(self.page.locator(OWN_LINES).first).to_be_visible()
        expect(self.page.locator("#results")).to_have_attribute("aria-busy", "false")

    def results(self) -> list[str]:
        return self.page.locator(OWN_LINES).evaluate_all("lines => lines.map(line => line.dataset.id)")  # type: ignore[no-any-return]

    def history(self) -> list[str]:
        """Oldest first; the page shows the newest first."""
        return self.page.locator("#history li").evaluate_all("lines => lines.map(line => line.dataset.id).reverse()")  # type: ignore[no-any-return]

    def star(self) -> str:
        return str(self.page.locator("#customer-place").get_attribute("data-star"))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("page")
    grown = synthesize(SyntheticConfig(customers=500, items=200, interactions=8_000), folder / "raw")
    data = folder / "shop"
    prepare(PrepareConfig(events=(str(grown.events),), items=str(grown.items), split="leave_last_out"), str(data))
    train_part, _ = open_dataset(data).parts()
    config = TrainingConfig(dimension=8, epochs=5, seed=1, threads=1)  # the same every time
    model, items = train(train_part, config, progress=False), open_dataset(data).items
    drawn = disk_map(model.item_points, geometry="hyperboloid", counts=model.item_counts)
    store = open_store(f"file:{folder / 'store'}", create=True)

    def publish(**parts: Any) -> str:
        place = folder / f"version-{len(store.versions())}"
        whole: dict[str, Any] = {
            "disk_map": drawn,
            "items": items,
        } | parts
        name = str(write_version(place, model, **whole)["name"])
        store.upload(place)
        store.activate(name)
        return name

    publish()
    flat = train(train_part, config.replace(geometry="euclidean"), progress=False)
    name = str(write_version(folder / "flat", flat, items=items)["name"])
    store.upload(folder / "flat")
    store.activate(name, arm="flat", share=0.0)
    with service_process(store.url, folder, "--workers", "1") as service:
        yield Shop(service, publish)
    store.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", *SOFTWARE_WEBGL]
    with playwright_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def visit(shop: Shop, browser: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A visitor without animations. Parametrised (indirectly) with options of the browser's context."""
    options = {"viewport": {"width": 1280, "height": 860}, "reduced_motion": "reduce"} | getattr(request, "param", {})
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    visit = Visit(context.new_page(), shop.service.url)
    visit.page.on("console", lambda message: visit.faults.append(message.text) if message.type == "error" else None)
    visit.page.on("pageerror", lambda error: visit.faults.append(str(error)))
    visit.page.on("request", lambda sent: None if sent.url.startswith(visit.url) else visit.faults.append(sent.url))
    yield visit
    context.close()
    assert visit.faults == []
