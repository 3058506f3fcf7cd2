"""A page of another origin, in a real browser with someone logged in, gets nothing."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from app.auth import KeyStore
from tests.app.browser import driving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

NAMES = "MAP *.example 127.0.0.1"
STEAL = """async (address) => {
  const got = {};
  for (const path of ["/gradio_api/token", "/config", "/", "/v1/people", "/gradio_api/info"]) {
    try {
      const answer = await fetch(address + path, {credentials: "include"});
      got[path] = await answer.text();
    } catch (error) { got[path] = null; }
  }
  await fetch(address + "/logout", {credentials: "include", mode: "no-cors"}).catch(() => {});
  return got;
}"""


class Blank(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>evil")

    def log_message(self, *parts: object) -> None:
        pass


@pytest.fixture(scope="module")
def other_port() -> Iterator[int]:
    """A server of someone else."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank) as evil:
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        yield evil.server_address[1]
        evil.shutdown()


def log_in(page: Page, address: str, secret: str) -> None:
    page.goto(address)
    page.locator("input[type=password]").wait_for()
    page.locator("input").nth(0).fill("ann")
    page.locator("input[type=password]").fill(secret)
    page.locator("button").first.click()
    driving.wait_until_live(page)


def test_a_foreign_page_reads_nothing_of_a_login(
    tmp_path: Path, bundle_folder: Path, other_port: int
) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    secret = KeyStore(tmp_path / "data" / "keys.json").add("ann", "admin")
    flags = [*driving.FLAGS, f"--host-resolver-rules={NAMES}"]
    with (
        driving.running(tmp_path, bundle_folder) as server,
        playwright.sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=driving.chromium(), args=flags)
        port = urlsplit(server.url).port
        for own, others in (
            ("localhost", ["localhost", "127.0.0.1"]),
            ("faces.example", ["faces.example", "sibling.example", "a.faces.example"]),
        ):
            context = browser.new_context()
            context.set_default_timeout(driving.PATIENCE)
            address = f"http://{own}:{port}"
            page = context.new_page()
            log_in(page, address, secret)
            (cookie,) = context.cookies(address)
            assert (cookie["sameSite"], cookie["httpOnly"]) == ("Strict", True)
            for other in others:
                evil = context.new_page()
                evil.goto(f"http://{other}:{other_port}/")
                got = evil.evaluate(STEAL, address)
                assert set(got.values()) == {None}, (own, other)
                evil.close()
            # Whoever was logged in still is, and may follow a link to the page.
            assert page.evaluate("fetch('/config').then(answer => answer.status)") == 200
            assert page.evaluate("fetch('/gradio_api/token').then(a => a.status)") == 404
            context.close()
        browser.close()
