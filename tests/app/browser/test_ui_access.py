"""Who sees what, on which screen, and with which aids, in a real browser."""

from __future__ import annotations

import base64
import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from app.auth import KeyStore
from tests.app import helpers
from tests.app.browser import driving
from tests.app.browser.driving import compare, keep, open_tab, shows, visit, wait_until_live

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

pytestmark = pytest.mark.browser

TABS = ("Verify", "Enroll", "Search", "Gallery", "Model")


def test_a_second_user_cannot_fetch_the_first_users_photo(
    chrome: Browser, server: driving.Running, files: dict[str, Path]
) -> None:
    photo = files["collins"].read_bytes()
    middle = len(photo) // 3 * 2 // 3 * 3
    marks = (photo[middle : middle + 48], base64.b64encode(photo[middle : middle + 48]))
    first = chrome.new_context()
    first.set_default_timeout(driving.PATIENCE)
    asked: list[str] = []
    page = visit(first, server.url)
    page.on("request", lambda request: asked.append(request.url))
    assert compare(page, files["collins"], files["hopper"])
    assert any(mark.decode() in page.content() for mark in marks[1:]), "the photo is on the page"
    addresses = {address for address in asked if address.startswith("http")}
    assert addresses
    with httpx.Client() as second:
        for address in addresses:
            # These stay open without end; of them only what comes at once is looked at.
            endless = "/queue/data" in address or "/heartbeat" in address
            patience = httpx.Timeout(30, read=2 if endless else 30)
            body = b""
            try:
                with second.stream("GET", address, timeout=patience) as answer:
                    for piece in islice(answer.iter_raw(), 50):
                        body += piece
            except httpx.ReadTimeout:
                assert endless, address
            assert not any(mark in body for mark in marks), address
    kept = [file for file in server.temporary.rglob("*") if file.is_file()]
    kept += [file for file in server.data.rglob("*") if file.is_file()]
    assert not [file for file in kept if any(mark in file.read_bytes() for mark in marks)]
    first.close()


def test_everything_comes_from_this_server(
    context: BrowserContext, server: driving.Running
) -> None:
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    page = visit(context, server.url)
    for name in TABS:
        open_tab(page, name)
    foreign = [
        address for address in asked if not address.startswith((server.url, "data:", "blob:"))
    ]
    assert not foreign


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_is_accessible_and_fits_a_phone(
    chrome: Browser, server: driving.Running, scheme: str
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no axe; pip install axe-playwright-python"
    )
    context = chrome.new_context(
        viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True
    )
    context.set_default_timeout(driving.PATIENCE)
    page = visit(context, server.url)
    page.locator(".fv-samples button").first.click()
    page.wait_for_selector("#verify-result .fv-verdict")
    for name in TABS:
        open_tab(page, name)
        if name == "Model":
            page.wait_for_selector("#model-calibration .fv-card")
        keep(page, f"phone-{scheme}-{name.lower()}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        report = axe.Axe().run(page)
        assert len(report.response["passes"]) > 10
        problems = [
            (found["id"], [node["html"][:120] for node in found["nodes"]])
            for found in report.response["violations"]
            if found["impact"] in ("serious", "critical")
        ]
        assert not problems, f"{name}: {problems}"
    page.set_viewport_size({"width": 1400, "height": 900})
    for name in TABS:
        open_tab(page, name)
        keep(page, f"wide-{scheme}-{name.lower()}")
    context.close()


def test_the_page_asks_for_a_key_where_there_is_one(
    chrome: Browser, tmp_path: Path, bundle_folder: Path
) -> None:
    secret = KeyStore(tmp_path / "data" / "keys.json").add("reader", "read")
    with driving.running(tmp_path, bundle_folder) as server:
        context = chrome.new_context()
        context.set_default_timeout(driving.PATIENCE)
        page = context.new_page()
        page.goto(server.url)
        user, password = page.get_by_label("Key name"), page.get_by_label("Key", exact=True)
        password.wait_for()
        keep(page, "login")
        user.fill("reader")
        password.fill("wrong")
        page.get_by_role("button", name=re.compile("log ?in", re.I)).click()
        page.wait_for_selector("[role=alert]:has-text('do not belong together')")
        keep(page, "login-wrong")
        assert page.locator("#verify-run").count() == 0
        user.fill("reader")
        password.fill(secret)
        page.get_by_role("button", name=re.compile("log ?in", re.I)).click()
        wait_until_live(page)
        assert page.get_by_role("tab", name="Enroll").count() == 0
        for name, admins_only in (("Gallery", "#gallery-transfer"), ("Model", "#model-own")):
            open_tab(page, name)
            page.wait_for_selector(admins_only, state="hidden")
        page.click("[data-logout]")
        page.locator("input[type=password]").wait_for()
        context.close()


def test_an_uncalibrated_model_is_called_so_with_the_command(
    context: BrowserContext, tmp_path: Path
) -> None:
    bundle = helpers.make_bare_bundle(tmp_path / "bare")
    with driving.running(tmp_path / "server", bundle) as started:
        page = driving.visit(context, started.url)
        words = shows(page, "[role=alert]", "This model is not calibrated")
        driving.keep(page, "uncalibrated")
    assert f"python -m training calibrate --bundle {bundle} --data PHOTOS" in words
