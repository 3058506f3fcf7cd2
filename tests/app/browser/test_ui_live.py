"""The live camera of the Search tab, with a film in the place of a camera."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from index.gallery import Gallery
from tests import samples
from tests.app.browser import driving
from tests.app.browser.driving import enroll, keep, open_tab, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.browser

NAME = "Eileen Marie Collins"
REMEMBER = """
const plain = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
window.tracks = [];
navigator.mediaDevices.getUserMedia = async (...asked) => {
  const given = await plain(...asked);
  window.tracks.push(...given.getTracks());
  return given;
};"""
IN_SIGHT = """() => {
  const { top, bottom } = document.querySelector("#search-live canvas").getBoundingClientRect();
  return top >= 0 && bottom <= innerHeight;
}"""
AT_REST = "() => window.tracks.length && window.tracks.every((each) => each.readyState === 'ended')"


@pytest.fixture
def filmed(chrome: Browser, tmp_path: Path) -> Iterator[BrowserContext]:
    """A browser whose camera shows nobody and Collins by turns, two seconds each."""
    empty = Image.new("RGB", (640, 480), "grey")
    person = empty.copy()
    person.paste(Image.fromarray(samples.collins()).crop((0, 0, 512, 480)), (64, 0))
    film = tmp_path / "film.mjpeg"
    with film.open("wb") as file:
        for frame in [empty] * 60 + [person] * 60:
            encoded = io.BytesIO()
            frame.save(encoded, "JPEG", quality=90)
            file.write(encoded.getvalue())
    started = chrome.browser_type.launch(
        executable_path=driving.chromium(),
        args=[*driving.FLAGS, f"--use-file-for-fake-video-capture={film}"],
    )
    context = started.new_context(viewport={"width": 1366, "height": 900})
    context.set_default_timeout(driving.PATIENCE)
    context.add_init_script(REMEMBER)
    yield context
    started.close()


def test_faces_are_named_as_they_appear_and_nothing_is_kept(
    filmed: BrowserContext, server: driving.Running, files: dict[str, Path], gallery: Gallery
) -> None:
    page = visit(filmed, server.url)
    enroll(page, NAME, files["collins"])
    kept = stored(server)
    looks = Looks(page)
    open_tab(page, "Search")
    page.click("#search-live [data-part=start]")
    for _ in range(2):
        wait_for(page, NAME)
        assert page.evaluate(IN_SIGHT), "started, the picture is in sight"
        assert page.locator("#search-live .fv-at-desk text").all_text_contents() == [f"1 {NAME}"]
        wait_for(page, "No face in sight.")
        assert page.locator("#search-live .fv-found").count() == 0
    wait_for(page, NAME)
    keep(page, "live-1366")
    page.set_viewport_size({"width": 390, "height": 844})
    keep(page, "live-390")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not page.is_visible("#search-live [data-part=start]")
    assert looks.begun >= 3
    assert looks.most_at_once == 1, "one picture in flight at a time"
    page.click("#search-live [data-part=stop]")
    page.wait_for_function(AT_REST)
    assert stored(server) == kept


def test_the_camera_stops_when_its_tab_is_left_or_the_page_hidden(
    filmed: BrowserContext, server: driving.Running
) -> None:
    page = visit(filmed, server.url)
    looks = Looks(page)
    open_tab(page, "Search")
    page.click("#search-live [data-part=start]")
    page.wait_for_selector("#search-live .fv-found", state="attached")
    open_tab(page, "Gallery")
    page.wait_for_function(AT_REST)
    begun = looks.begun
    page.wait_for_timeout(1500)
    assert looks.begun == begun, "nothing is sent any more"

    open_tab(page, "Search")
    assert page.is_visible("#search-live [data-part=start]"), "it waits to be started again"
    assert not page.is_visible("#search-live canvas")
    page.click("#search-live [data-part=start]")
    page.wait_for_selector("#search-live .fv-found", state="attached")
    page.evaluate("""() => {
      Object.defineProperty(document, "hidden", { configurable: true, value: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }""")
    page.wait_for_function(AT_REST)
    assert "the page was hidden" in page.inner_text("#search-live [data-part=said]")


def test_the_camera_for_a_photo_stops_too_when_its_tab_is_left(
    filmed: BrowserContext, server: driving.Running
) -> None:
    page = visit(filmed, server.url)
    page.click("#verify-first [data-part=camera]")
    page.wait_for_selector("#verify-first .fv-picker[data-live=yes]")
    open_tab(page, "Search")
    page.wait_for_function(AT_REST)


def wait_for(page: Page, said: str) -> None:
    page.wait_for_function(
        "said => document.querySelector('#search-live [data-part=said]').innerText === said",
        arg=said,
    )


def stored(server: driving.Running) -> set[Path]:
    """Every file of the server but the audit log, which tells of each search."""
    return {
        each
        for folder in (server.data, server.temporary)
        for each in folder.rglob("*")
        if each.is_file() and "audit" not in each.name
    }


class Looks:
    """Counts the pictures a page sends."""

    def __init__(self, page: Page) -> None:
        self.begun = self.open = self.most_at_once = 0
        page.on("request", lambda request: self._count(request.url, 1))
        page.on("requestfinished", lambda request: self._count(request.url, -1))
        page.on("requestfailed", lambda request: self._count(request.url, -1))

    def _count(self, address: str, change: int) -> None:
        if not address.endswith("/page/look"):
            return
        self.begun += change > 0
        self.open += change
        self.most_at_once = max(self.most_at_once, self.open)
