"""The TypeScript client and the shop in examples/shop, with a real service; both are compiled first."""

from __future__ import annotations

import fcntl
import http.server
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from threading import Thread

import httpx
import pytest

from tests.serving.accessibility import needs_axe, serious_findings
from tests.serving.running_service import KEY, PATIENCE, Service, service_process, shop_store, wait_until
from tests.serving.small_shop import shop_model

pytestmark = pytest.mark.node

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
SHOP = ROOT / "examples" / "shop"


def npm(*arguments: str, folder: Path = CLIENT, **environment: str) -> str:
    """The output of npm, which must succeed."""
    ended = subprocess.run(
        ["npm", *arguments],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the client and the shop, in one process at a time."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    for folder in (CLIENT, SHOP):
        if not (folder / "node_modules").is_dir():
            pytest.skip(f"the packages are not installed: npm ci --prefix {folder.relative_to(ROOT)}")
    with (CLIENT / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        npm("run", "build", folder=SHOP)


@pytest.fixture(scope="module")
def shop(keyed_service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """The shop as a process, visited by the customer ann."""
    log = tmp_path_factory.mktemp("node") / "shop.log"
    environment = os.environ | {"SERVICE": keyed_service.url, "API_KEY": KEY, "PORT": "0"}
    with log.open("w") as errors:
        process = subprocess.Popen(
            ["node", SHOP / "dist" / "server.js"], env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    with process, process.stdout:
        started = re.search(r"http://\S+", process.stdout.readline())
        assert started, log.read_text()
        with httpx.Client(base_url=started[0], cookies={"customer": "ann"}, timeout=PATIENCE) as visitor:
            yield visitor
        process.terminate()


@pytest.fixture
def service(keyed_service: Service) -> httpx.Client:
    keyed_service.http.headers["Authorization"] = f"Bearer {KEY}"
    return keyed_service.http


def shelves(page: httpx.Response) -> dict[str, list[str]]:
    """The ids of the products on each shelf, by its heading."""
    sections = re.findall(r'<section aria-label="([^"]+)">(.*?)</section>', page.text, re.DOTALL)
    return {unescape(heading): re.findall(r'href="/products/([^"]+)"', text) for heading, text in sections}


@contextmanager
def out_of_stock(service: httpx.Client, item: str) -> Iterator[None]:
    """Remove an item from the live items for a while, of which the service learns soon, and not at once."""

    def offered() -> list[str]:
        found = service.post("/v1/recommend", json={"history": [], "k": len(shop_model().items)}).json()
        return [item["id"] for item in found["items"]]

    service.patch("/v1/live", json={"remove": [item]})
    wait_until(lambda: item not in offered())
    yield
    service.put("/v1/live", json={"items": None})
    wait_until(lambda: item in offered())


def test_types_are_current(keyed_service: Service, tmp_path: Path) -> None:
    npm("run", "schema", SERVICE=keyed_service.url, OUT=str(tmp_path / "schema.ts"))
    current = (CLIENT / "src" / "schema.ts").read_text() == (tmp_path / "schema.ts").read_text()
    assert current, "the types are outdated: start the service and run npm run schema --prefix clients/typescript"


def test_the_client(keyed_service: Service) -> None:
    expected = ",".join(map(str, shop_model().recommend(["i3", "i7"], k=5).ids))
    assert "# pass 12" in npm("test", SERVICE=keyed_service.url, API_KEY=KEY, EXPECTED=expected)


def test_a_visit_counts_on_the_personal_page(shop: httpx.Client, service: httpx.Client) -> None:
    (heading,) = shelves(shop.get("/"))
    assert heading == "Popular right now"
    query = {"history": ["i3"], "exclude": ["i3"], "k": 6}

    def is_as_expected() -> bool:
        """Each worker learns by itself of items that another test may have added."""
        expected = [item["id"] for item in service.post("/v1/recommend", json=query).json()["items"]]
        near = [item["id"] for item in service.get("/v1/items/i3/similar", params={"k": 6}).json()["items"]]
        also = [item["id"] for item in service.post("/v1/outfits", json={"basket": ["i3"], "k": 4}).json()["items"]]
        wanted = {"Similar products": near, "Goes with it": also, "You might also like": expected}
        return shelves(shop.get("/products/i3")) == wanted

    wait_until(is_as_expected)
    wait_until(lambda: "Picked for you" in shelves(shop.get("/")))  # the event is sent after the page
    page = shop.get("/")
    assert "i3" not in shelves(page)["Picked for you"]
    assert "Because of Piece number 3" in page.text


def test_alternatives_to_what_is_out_of_stock(shop: httpx.Client, service: httpx.Client) -> None:
    assert "Out of stock" not in shop.get("/products/i5").text
    with out_of_stock(service, "i5"):
        page = shop.get("/products/i5")
        instead = service.get("/v1/items/i5/alternatives", params={"k": 6}).json()["items"]
    assert "Out of stock" in page.text
    assert list(shelves(page)) == ["In stock instead", "Goes with it", "You might also like"]
    assert shelves(page)["In stock instead"] == [item["id"] for item in instead]
    assert {item["category"] for item in instead} == {"hats"}


def test_an_outfit_is_completed(shop: httpx.Client, service: httpx.Client) -> None:
    page = shop.get("/outfit?items=i1,i2")
    query = {"basket": ["i1", "i2"], "k": 6}
    expected = [item["id"] for item in service.post("/v1/outfits", json=query).json()["items"]]
    assert shelves(page) == {"Complete the outfit": expected}
    assert f'href="/outfit?items=i1,i2,{expected[0]}"' in page.text
    assert "Nothing yet" in shop.get("/outfit").text
    cheap = shop.get("/outfit?items=i1,i2&budget=10")
    assert (shelves(cheap), "Together 9.50" in cheap.text) == ({"Complete the outfit": ["i0"]}, True)
    assert shelves(shop.get("/outfit?items=i1,i2&budget=5")) == {}
    assert shop.get(f"/outfit?items={','.join(['i1'] * 20)}").status_code == 200
    many = shop.get(f"/outfit?items={','.join(['i1'] * 21)}")
    assert (many.status_code, "An outfit has at most 20 items" in many.text) == (400, True)


def test_the_personal_page_is_filtered(shop: httpx.Client) -> None:
    page = shop.get("/?most=9.5")
    assert list(shelves(page).values()) == [["i0"]], "the others have no price"
    assert '<span class="price">9.50</span>' in page.text
    assert "Nothing fits these filters" in shop.get("/?most=1").text
    assert "Nothing fits these filters" in shop.get("/?brand=Acme").text, "the items have no column of brands"
    assert len(shelves(shop.get("/?most=nonsense"))) == 1


def test_addresses_that_do_not_exist(shop: httpx.Client) -> None:
    assert [shop.get(path).status_code for path in ("/products/none", "/outfit?items=none", "/nowhere")] == [404] * 3
    assert "<script>" not in shop.get("/", params={"customer": "<script>"}).text


def test_emails(keyed_service: Service, service: httpx.Client, tmp_path: Path) -> None:
    batch = tmp_path / "batch.jsonl"
    shop_model().recommend_many([["i3"], ["i7"]], k=3).to_frame().rename({"query": "user"}).write_ndjson(batch)
    first = [str(item) for item in shop_model().recommend(["i3"], k=3).ids]
    environment = {"SERVICE": keyed_service.url, "API_KEY": KEY}
    with out_of_stock(service, first[0]):
        output = npm("run", "emails", "--", str(batch), str(tmp_path / "emails"), folder=SHOP, **environment)
    assert "2 e-mails are in" in output
    text = (tmp_path / "emails" / "0.html").read_text()
    assert re.findall(r"/products/(\w+)", text) == first[1:]
    assert "Piece number" in text
    assert len(list((tmp_path / "emails").iterdir())) == 2


@pytest.mark.browser
def test_in_a_browser(tmp_path: Path) -> None:
    """A page of another site uses the client itself, with a service that allows that site."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    store = shop_store(tmp_path)
    (tmp_path / "index.html").write_text("<!doctype html><title>A shop</title>")
    shutil.copy(CLIENT / "dist" / "client.js", tmp_path)
    files = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{site.server_port}"
        with (
            service_process(store.url, tmp_path, "--allow-origin", origin) as service,
            playwright.sync_playwright() as run,
        ):
            page = run.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]).new_page()
            page.goto(origin)
            found = page.evaluate(
                """async (service) => {
                    const { Client } = await import("/client.js");
                    return new Client(service).recommend({ history: ["i3", "i7"] }, { k: 5 });
                }""",
                service.url,
            )
        site.shutdown()
    store.close()
    assert [item["id"] for item in found["items"]] == shop_model().recommend(["i3", "i7"], k=5).ids


@needs_axe
@pytest.mark.browser
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_pages_fit_the_screen_and_are_accessible(shop: httpx.Client, width: int, colours: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
        faults: list[str] = []
        page.on("console", lambda message: faults.append(message.text))
        for path in ("/", "/products/i5", "/outfit?items=i1,i2"):
            page.goto(f"{shop.base_url}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") == width, path
            assert page.locator(".shelf li").first.is_visible(), path
            assert serious_findings(page) == [], path
        assert faults == []
