"""One server and one browser for all tests that drive the page."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from index.gallery import Gallery
from tests.app.browser import driving
from tests.app.helpers import Photos

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails says what the pages it had open showed."""
    report = yield
    chrome = getattr(item, "funcargs", {}).get("chrome")
    if report.failed and chrome is not None:
        for page in (page for context in chrome.contexts for page in context.pages):
            calls = page.evaluate("document.documentElement.dataset.calls")
            report.sections.append((f"{page.url}, open calls: {calls}", page.inner_text("body")))
    return report


@pytest.fixture(scope="package")
def server(
    tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path
) -> Iterator[driving.Running]:
    with driving.running(tmp_path_factory.mktemp("server"), bundle_folder) as started:
        yield started


@pytest.fixture(scope="package")
def chrome() -> Iterator[Browser]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright; pip install playwright"
    )
    path = driving.chromium()
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(driving.FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="package")
def files(tmp_path_factory: pytest.TempPathFactory, photos: Photos) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("photos")
    made = {}
    for name, data in vars(photos).items():
        made[name] = folder / f"{name}.jpg"
        made[name].write_bytes(data)
    made["text"] = folder / "notes.jpg"
    made["text"].write_text("this is no picture")
    return made


@pytest.fixture
def context(chrome: Browser) -> Iterator[BrowserContext]:
    fresh = chrome.new_context(viewport={"width": 1400, "height": 900})
    fresh.set_default_timeout(driving.PATIENCE)
    yield fresh
    fresh.close()


@pytest.fixture
def page(context: BrowserContext, server: driving.Running) -> Page:
    return driving.visit(context, server.url)


@pytest.fixture
def gallery(server: driving.Running) -> Iterator[Gallery]:
    """The server's own gallery, opened beside it; empty again afterwards."""
    with Gallery.open(server.data / "gallery") as opened:
        yield opened
        with opened.batch():
            for person in list(opened.reader.iter_people()):
                opened.forget(person.id)
