"""A real server in its own process and a real browser, for the tests that drive the page."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.paths import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

SCREENSHOTS = ROOT / "screenshots"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--use-fake-device-for-media-stream",
         "--use-fake-ui-for-media-stream")  # fmt: skip
PATIENCE = 120_000
"""Milliseconds an answer may take on a busy machine."""


def chromium() -> str:
    """The installed browser, or a skip that says how to get one."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no browser; on Debian: apt-get install chromium")


@dataclass(frozen=True)
class Running:
    """A running server."""

    url: str
    data: Path
    temporary: Path


@contextlib.contextmanager
def running(folder: Path, bundle: Path) -> Iterator[Running]:
    """Serve from ``folder`` until the block ends."""
    data, temporary = folder / "data", folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    log = (folder / "log.txt").open("w")
    environment = {
        **os.environ,
        "FACE_DATA": str(data),
        "FACE_BUNDLE": str(bundle),
        "FACE_PORT": "0",
        "TMPDIR": str(temporary),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    environment.pop("GRADIO_TEMP_DIR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "app"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        url = None
        for line in process.stdout:
            if found := re.search(r"http://[\d.:]+", line):
                url = found.group(0)
                break
        assert url, (folder / "log.txt").read_text()[-3000:]
        yield Running(url, data, temporary)
    finally:
        process.terminate()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()
    assert not list(temporary.glob("face-verification-*")), "the private folder was left behind"


def visit(context: BrowserContext, url: str) -> Page:
    """Open the page and wait until it can be used; a script error on it fails the test."""
    page = context.new_page()
    page.on("pageerror", lambda error: pytest.fail(f"script error on the page: {error}"))
    page.goto(url)
    wait_until_live(page)
    return page


def wait_until_live(page: Page) -> None:
    """Wait until every click is heard and what the page asks for by itself has arrived."""
    page.wait_for_selector("body[data-ready=yes]")
    page.wait_for_selector(".fv-samples[data-ready=yes]", state="attached")
    page.wait_for_selector("#verify-second .fv-picker[data-filled]", state="attached")
    settle(page)


def give(page: Page, picker: str, *paths: Path) -> None:
    """Choose photos; the old answer, if any, is gone when this returns."""
    page.set_input_files(f"{picker} input[type=file]", [str(path) for path in paths])
    page.wait_for_selector(f"{picker} .fv-picker[data-filled=yes]")
    page.wait_for_function(
        "selector => /ready$/.test(document.querySelector(selector).textContent)",
        arg=f"{picker} [data-part=status]",
    )
    tab = picker.removeprefix("#").split("-")[0]
    page.wait_for_selector(f"#{tab}-result .fv-empty")
    settle(page)


def settle(page: Page) -> None:
    """Wait until every call to the server is answered and the answers are shown."""
    page.wait_for_timeout(200)
    page.wait_for_function("document.documentElement.dataset.calls === '0'")
    page.wait_for_function("!document.querySelector('.html-container.pending')")
    page.wait_for_timeout(100)


def shows(page: Page, part: str, words: str) -> str:
    """Wait until a part of the page says ``words``; all it says."""
    page.wait_for_function(
        "([part, words]) => document.querySelector(part)?.innerText.includes(words)",
        arg=[part, words],
    )
    return page.inner_text(part)


def compare(page: Page, first: Path, second: Path) -> str:
    """Compare two photos; the text of the result."""
    give(page, "#verify-first", first)
    give(page, "#verify-second", second)
    page.click("#verify-run")
    page.wait_for_selector("#verify-result .fv-card")
    settle(page)
    return page.inner_text("#verify-result")


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()
    settle(page)


def keep(page: Page, name: str) -> None:
    """Keep a screenshot to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def ask_api(url: str, first: Path, second: Path) -> dict:
    with first.open("rb") as one, second.open("rb") as two:
        answer = httpx.post(
            f"{url}/v1/verify", files={"img1": one, "img2": two}, timeout=PATIENCE / 1000
        )
    assert answer.status_code == 200, answer.text
    return answer.json()


def choose_person(page: Page, name: str) -> None:
    """Choose a person on the Gallery tab."""
    settle(page)
    if page.locator("#gallery-details [data-act=close]").count():
        act(page, "#gallery-details", "close")
    page.locator("#gallery-list .fv-person", has=page.get_by_text(name, exact=True)).click()
    page.wait_for_selector(f"#gallery-details h2:text-is('{name}')")
    settle(page)


def act(page: Page, part: str, name: str) -> None:
    """Click the first button of a part that asks for ``name``, and wait for the answer."""
    page.locator(f"{part} [data-act={name}]").first.click()
    settle(page)


def unfold(page: Page, part: str) -> None:
    """Open all that is folded in a part of the page."""
    page.evaluate(
        "part => { for (const each of document.querySelectorAll(part + ' details'))"
        " each.open = true; }",
        part,
    )


def enroll(page: Page, name: str, *photos: Path) -> str:
    """Press Enroll and wait until every photo is dealt with; the text of the result."""
    open_tab(page, "Enroll")
    page.fill("#enroll-name input, #enroll-name textarea", name)
    if page.locator("#enroll-photos .fv-picker[data-filled=yes]").count():
        page.click("#enroll-photos [data-part=clear]")
    give(page, "#enroll-photos", *photos)
    page.click("#enroll-run")
    shows(page, "#enroll-result", f"{name}:")
    settle(page)
    return page.inner_text("#enroll-result")
