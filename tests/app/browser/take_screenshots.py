"""Take the README's screenshots: ``python -m tests.app.browser.take_screenshots``.

Shows only the sample photos that ship with the app, which are in the public domain.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import app.ui
from model.bundle import DEFAULT
from tests.app.browser import driving

LARGEST = 200_000
"""Bytes of a picture."""

FOLDER = Path(app.ui.__file__).with_name("screenshots")


def main() -> None:
    """Serve a bundle on an empty gallery and take every picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=DEFAULT)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        driving.running(Path(folder), options.bundle.absolute()) as server,
        sync_playwright() as driver,
    ):
        chrome = driver.chromium.launch(
            executable_path=driving.chromium(), args=list(driving.FLAGS)
        )
        take_wide(_open(chrome, server.url, 1200, "light"), options.out)
        take_phone(_open(chrome, server.url, 390, "dark"), options.out)
        chrome.close()


def take_wide(page: Page, out: Path) -> None:
    """Verify, evidence, enroll, search, gallery and model at desktop width."""
    _click_sample(page, "One person", "#verify-result .fv-verdict")
    _shot(page, out / "verify.png")
    driving.unfold(page, "#verify-result")
    page.click("#verify-result [data-act=regions]")
    page.wait_for_selector("#verify-regions .fv-maps")
    page.locator("#verify-regions").scroll_into_view_if_needed()
    driving.settle(page)
    _shot(page, out / "evidence.png", "#verify-regions")
    _click_sample(page, "Several faces", "#verify-result .fv-found")
    _shot(page, out / "several.png", "#verify-result")
    page.get_by_role("tab", name="Enroll").click()
    for name in ("Eileen Collins", "Grace Hopper"):
        _click_sample(page, name, "#enroll-photos .fv-picker[data-filled=yes]")
        page.click("#enroll-run")
        page.wait_for_selector(f"#enroll-result h2:has-text('{name}: 1 photo')")
        driving.settle(page)
    _shot(page, out / "enroll.png")
    page.get_by_role("tab", name="Search").click()
    _click_sample(page, "Both in one picture", "#search-result .fv-card")
    _shot(page, out / "search.png")
    page.get_by_role("tab", name="Model").click()
    page.wait_for_selector("#model-calibration .fv-card")
    driving.settle(page)
    _shot(page, out / "model.png")


def take_phone(page: Page, out: Path) -> None:
    """Verify on a phone, dark."""
    _click_sample(page, "Two people", "#verify-result .fv-verdict")
    _shot(page, out / "phone.png")


def _open(chrome: Browser, url: str, width: int, scheme: str) -> Page:
    context = chrome.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(driving.PATIENCE)
    return driving.visit(context, url)


def _click_sample(page: Page, name: str, wanted: str) -> None:
    page.locator(f".fv-samples button:visible:has-text('{name}')").click()
    driving.settle(page)
    page.wait_for_selector(wanted)
    driving.settle(page)


def _shot(page: Page, path: Path, part: str | None = None) -> None:
    """Keep the page or a part of it, with as many colours as fit into 200 kB."""
    page.mouse.move(0, 0)
    if part:
        page.locator(part).screenshot(path=path)
    else:
        page.screenshot(path=path, full_page=True)
    taken = Image.open(path).convert("RGB")
    for colours in (256, 128, 64, 32):
        taken.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size < LARGEST:
            return


if __name__ == "__main__":
    main()
