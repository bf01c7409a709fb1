"""The examples do what they say, against the real server."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from serving.running_service import KEY, PATIENCE, Service, service_process, shop_store
from serving.small_shop import shop_model

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    "command", [["sh", "ask_service.sh"], [sys.executable, "ask_service.py"]], ids=["shell", "python"]
)
def test_scripts(keyed_service: Service, command: list[str]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    ended = subprocess.run(
        [*command, keyed_service.url],
        cwd=EXAMPLES,
        env=os.environ | {"API_KEY": KEY},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Piece number" in ended.stdout


@pytest.mark.browser
def test_the_page_of_a_shop(tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    store = shop_store(tmp_path)
    files = partial(http.server.SimpleHTTPRequestHandler, directory=str(EXAMPLES))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as site:
        Thread(target=site.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{site.server_port}"
        with (
            service_process(store.url, tmp_path, "--allow-origin", origin) as service,
            playwright.sync_playwright() as run,
        ):
            browser = run.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page()
            page.goto(f"{origin}/shop_page.html?service={service.url}&history=i3,i7")
            page.wait_for_selector("li")
            shown = page.locator("li").all_text_contents()
            assert page.get_by_role("heading").is_visible()
            # A service that is away costs the shop nothing but its recommendations.
            with page.expect_console_message(lambda message: "no recommendations" in message.text):
                page.goto(f"{origin}/shop_page.html?service=http://127.0.0.1:1&history=i3")
            assert not page.get_by_role("heading").is_visible()
            browser.close()
        site.shutdown()
    expected = shop_model().recommend(["i3", "i7"], k=5).ids
    assert shown == [f"Piece number {str(item).removeprefix('i')}" for item in expected]
    store.close()
