"""A stranger's tour of the page: everything it is for, once, in the order one would try it.

On a quiet machine it takes well under four minutes; a busy one may take longer, so the time is
not asserted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from index.gallery import Gallery
from tests import samples
from tests.app.browser import driving
from tests.app.browser.driving import (
    act,
    ask_api,
    choose_person,
    compare,
    enroll,
    give,
    keep,
    open_tab,
    settle,
    unfold,
    visit,
    wait_until_live,
)

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

DESK = {"width": 1366, "height": 768}
PHONE = {"width": 390, "height": 844}
WIDTH = "() => document.documentElement.scrollWidth"
IN_SIGHT = """() => {
  const place = document.querySelector("#verify-result .fv-verdict > header");
  const { top, bottom } = place?.getBoundingClientRect() ?? { top: -1 };
  return top >= 0 && bottom <= innerHeight;
}"""
PLACES = "parts => parts.map(part => part.getBoundingClientRect().toJSON())"


@pytest.fixture
def group(tmp_path: Path) -> Path:
    """Collins, Hopper, and Hopper as another camera saw her, side by side."""
    both, again = samples.pair(), samples.second_photo(samples.hopper())
    picture = np.full((600, 1024 + again.shape[1], 3), 128, np.uint8)
    picture[:, :1024] = both
    picture[: again.shape[0], 1024:] = again
    path = tmp_path / "group.png"
    Image.fromarray(picture).save(path)
    return path


def test_a_strangers_tour(
    context: BrowserContext,
    server: driving.Running,
    files: dict[str, Path],
    group: Path,
    gallery: Gallery,
    tmp_path: Path,
) -> None:
    page = visit(context, server.url)
    page.set_viewport_size(DESK)
    verify(page, server, files)
    report(page, server, files, tmp_path)
    grace, eileen, admiral = enroll_three(page, files)
    search(page, group, {grace, eileen, admiral})

    follow(page, f"{server.url}/?person={grace}", "Gallery")
    page.wait_for_selector("#gallery-details h2:text-is('Grace')")
    merge(page, admiral)
    assert listed(page) == {grace: "2 photos", eileen: "1 photo"}
    choose_person(page, "Eileen Marie Collins")
    page.click("#gallery-details .fv-danger summary")
    act(page, "#gallery-details", "ask-forget")
    keep(page, "tour-forget")
    assert gallery.reader.count() == 2, "nobody is forgotten before it is confirmed"
    act(page, "#gallery-details", "do-forget")
    page.wait_for_selector("#gallery-details .fv-who", state="detached")
    assert listed(page) == {grace: "2 photos"}

    follow(page, f"{server.url}/?person={eileen}", "Gallery")
    assert listed(page) == {grace: "2 photos"}
    follow(page, f"{server.url}/?tab=search", "Search")
    assert page.is_visible("#search-run")
    assert known(page, group) == [grace, grace]
    assert page.locator("#search-result .fv-strip article").count() == 1


def verify(page: Page, server: driving.Running, files: dict[str, Path]) -> None:
    """The answer is the API's, and on the first screen, at a desk and on a phone."""
    for viewport, second in ((DESK, "hopper"), (PHONE, "collins_again")):
        page.set_viewport_size(viewport)
        page.evaluate("scrollTo(0, 0)")
        compare(page, files["collins"], files[second])
        page.wait_for_function(IN_SIGHT)
        answer = ask_api(server.url, files["collins"], files[second])
        assert page.locator(f"#verify-result .fv-verdict.fv-{answer['decision']}").count() == 1
        assert page.locator("#verify-result .fv-crop").count() == 2
        assert page.evaluate(WIDTH) <= viewport["width"]
        keep(page, f"tour-verify-{viewport['width']}")
    page.evaluate("scrollTo(0, 0)")
    page.locator(".fv-samples button:visible").nth(1).click()
    page.wait_for_function(IN_SIGHT)
    settle(page)
    page.set_viewport_size(DESK)
    compare(page, files["collins"], files["collins_again"])


def report(page: Page, server: driving.Running, files: dict[str, Path], folder: Path) -> None:
    """The report of the pair on the page holds the answer and the note, and asks for nothing."""
    unfold(page, "#verify-result")
    page.fill("#verify-result textarea[name=note]", "Case 7/2026 <b>")
    with page.expect_download() as waiting:
        page.click("#verify-result [data-act=report]")
    saved = folder / "report.html"
    waiting.value.save_as(saved)
    settle(page)
    answer = ask_api(server.url, files["collins"], files["collins_again"])
    opened = page.context.new_page()
    asked: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(saved.as_uri())
    keep(opened, "tour-report")
    assert [address for address in asked if not address.startswith("data:")] == [saved.as_uri()]
    assert opened.locator(f".fv-verdict.fv-{answer['decision']}").count() == 1
    words = opened.inner_text("body")
    for expected in ("Case 7/2026 <b>", f"{answer['score']:.3f}", answer["model_id"][:12]):
        assert expected in words
    assert opened.locator(".fv-crop").count() == 2
    assert opened.locator(".fv-photo image").count() == 2
    assert opened.locator("button:visible").count() == 0, "nothing answers in a file"
    opened.close()


def enroll_three(page: Page, files: dict[str, Path]) -> list[str]:
    """Two people, and a third entry that is really the first: stored only when insisted on."""
    ids = []
    for name, photo in (("Grace", "hopper"), ("Eileen Marie Collins", "collins")):
        enroll(page, name, files[photo])
        ids.append(page.get_attribute("#enroll-result [data-act=open]", "data-person"))
    enroll(page, "Admiral", files["hopper_again"])
    assert page.locator("#enroll-result .fv-decide.fv-conflict").count() == 1
    act(page, "#enroll-result", "doubt")
    page.fill("#enroll-result input[name=reason]", "twins")
    keep(page, "tour-enroll")
    act(page, "#enroll-result", "insist")
    page.wait_for_selector("#enroll-result [data-act=open]")
    ids.append(page.get_attribute("#enroll-result [data-act=open]", "data-person"))
    open_tab(page, "Gallery")
    assert list(listed(page).values()) == ["1 photo"] * 3
    assert set(listed(page)) == set(ids)
    return ids


def search(page: Page, group: Path, everyone: set[str]) -> None:
    """Every face is boxed and known; the cards line up at a desk and have room on a phone."""
    open_tab(page, "Search")
    assert set(known(page, group)) == everyone
    assert page.locator("#search-result .fv-found").count() == 3
    keep(page, "tour-search-1366")
    places = page.locator("#search-result .fv-face > details").evaluate_all(PLACES)
    assert places[0]["y"] == places[1]["y"] < places[2]["y"]
    tags = page.locator("#search-result .fv-at-desk .fv-box-tag").evaluate_all(PLACES)
    words = page.locator("#search-result .fv-at-desk .fv-box-number").evaluate_all(PLACES)
    for tag, word in zip(tags, words, strict=True):
        assert tag["left"] < word["left"]
        assert word["right"] < tag["right"]
        assert tag["width"] - word["width"] < tag["height"], "the label is no wider than its words"
    page.set_viewport_size(PHONE)
    keep(page, "tour-search-390")
    assert page.evaluate(WIDTH) <= PHONE["width"]
    for place in page.locator("#search-result .fv-face .fv-acts").evaluate_all(PLACES):
        assert place["width"] > PHONE["width"] / 2
    page.set_viewport_size(DESK)


def known(page: Page, photo: Path) -> list[str]:
    """Search for a photo on the tab shown; the ids of the people found, face by face."""
    give(page, "#search-photo", photo)
    page.click("#search-run")
    page.wait_for_selector("#search-result .fv-search")
    settle(page)
    found = page.locator("#search-result .fv-face [data-act=open]")
    return found.evaluate_all("buttons => buttons.map(button => button.dataset.person)")


def follow(page: Page, address: str, tab: str) -> None:
    """Open a link to the page; it leads to a tab."""
    page.goto(address)
    wait_until_live(page)
    page.wait_for_selector(f"button[role=tab][aria-selected=true]:has-text('{tab}')")
    settle(page)


def merge(page: Page, other: str) -> None:
    """Merge another entry into the person shown, found by a part of its name."""
    page.click("#gallery-details .fv-danger summary")
    page.fill("#gallery-details input[name=query]", "admi")
    act(page, "#gallery-details", "find")
    page.click(f"#gallery-details [data-act=ask-merge][data-other='{other}']")
    page.wait_for_selector("#gallery-details .fv-sure [data-act=do-merge]")
    keep(page, "tour-merge")
    act(page, "#gallery-details", "do-merge")
    page.wait_for_selector("#gallery-notice [role=status]")
    assert page.locator("#gallery-details .fv-large figure").count() == 2
    act(page, "#gallery-details", "close")


def listed(page: Page) -> dict[str, str]:
    """The people shown on the Gallery tab: how many photos, by id."""
    page.wait_for_selector("#gallery-list .fv-person")
    settle(page)
    return dict(
        page.locator("#gallery-list .fv-person").evaluate_all(
            "all => all.map(one => [one.dataset.person, one.lastElementChild.innerText])"
        )
    )
