"""Refused photos, several faces, merging, removing, and a gallery of many, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from index.gallery import Gallery
from index.types import NewPhoto
from model.types import Embedding
from tests.app.browser import driving
from tests.app.browser.driving import (
    choose_person,
    give,
    keep,
    open_tab,
    settle,
    shows,
    wait_until_live,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


@pytest.fixture
def gallery(server: driving.Running) -> Iterator[Gallery]:
    """The server's own gallery, opened beside it; empty again afterwards."""
    with Gallery.open(server.data / "gallery") as opened:
        yield opened
        with opened.batch():
            for person in list(opened.reader.iter_people()):
                opened.forget(person.id)


def enroll(page: Page, name: str, *photos: Path) -> None:
    """Press Enroll and wait until every photo is dealt with."""
    open_tab(page, "Enroll")
    page.fill("#enroll-name input, #enroll-name textarea", name)
    if page.locator("#enroll-photos .fv-picker[data-filled=yes]").count():
        page.click("#enroll-photos [data-part=clear]")
    give(page, "#enroll-photos", *photos)
    page.click("#enroll-run")
    shows(page, "#enroll-result", name)
    settle(page)


def pick(page: Page, dropdown: str, option: str) -> None:
    page.click(f"{dropdown} input")
    page.get_by_role("option", name=option).click()


def test_a_refused_photo_is_stored_with_a_reason_merged_and_removed(
    page: Page, files: dict[str, Path], gallery: Gallery
) -> None:
    enroll(page, "Grace", files["hopper"])
    enroll(page, "Admiral", files["hopper_again"])
    assert "looks like Grace" in shows(page, "#enroll-result", "no photo was stored")
    assert [person.name for person in gallery.reader.people()] == ["Grace"]
    page.click("#enroll-insist")
    page.wait_for_selector(":text('Give a reason first')")
    settle(page)
    assert "looks like Grace" in page.inner_text("#enroll-result")
    assert gallery.reader.count() == 1
    page.fill("#enroll-reason input, #enroll-reason textarea", "the same woman, in uniform")
    keep(page, "enroll-refused")
    page.click("#enroll-insist")
    shows(page, "#enroll-result", "1 photo of 1 stored")
    assert [person.name for person in gallery.reader.people()] == ["Grace", "Admiral"]

    open_tab(page, "Gallery")
    choose_person(page, "Grace")
    pick(page, "#gallery-other", "Admiral (1 photo)")
    page.click("#gallery-merge")
    page.wait_for_selector(".fv-ask:has-text('Move 1 photo of Admiral to Grace?')")
    assert gallery.reader.count() == 2
    keep(page, "gallery-merge")
    page.click("#gallery-erase")
    shows(page, "#gallery-notice", "Grace has all 2 photos now")
    settle(page)
    assert page.locator("#gallery-list tbody tr").count() == 1
    assert page.locator("#gallery-details img").count() == 2

    (person,) = gallery.reader.people()
    _, second = gallery.reader.photos(person.id)
    page.click("#gallery-remove")
    shows(page, "#gallery-notice", "Choose a photo first.")
    pick(page, "#gallery-photo", "1. hopper.jpg")
    page.click("#gallery-remove")
    page.wait_for_selector(".fv-ask:has-text('Erase photo 1 (hopper.jpg) of Grace')")
    assert page.inner_text("#gallery-notice").strip() == ""
    assert len(gallery.reader.photos(person.id)) == 2
    page.click("#gallery-erase")
    shows(page, "#gallery-notice", "Removed photo 1 (hopper.jpg) for good")
    settle(page)
    assert page.locator("#gallery-details img").count() == 1
    assert [photo.id for photo in gallery.reader.photos(person.id)] == [second.id]


def test_a_name_someone_has_is_shown_and_asked_about(
    page: Page, files: dict[str, Path], gallery: Gallery
) -> None:
    enroll(page, "Grace", files["hopper"])
    assert "New person: Grace." in shows(page, "#enroll-result", "1 photo of 1 stored")

    page.reload()
    wait_until_live(page)
    open_tab(page, "Enroll")
    page.fill("#enroll-name input, #enroll-name textarea", "grace")
    page.keyboard.press("Tab")
    assert "1 photo" in shows(page, "#enroll-namesakes", "There is somebody named grace already")
    assert page.locator("#enroll-namesakes img").count() == 1
    give(page, "#enroll-photos", files["collins"])
    page.click("#enroll-run")
    page.wait_for_selector("#enroll-result [role=alert]:has-text('Choose under the name')")
    settle(page)
    keep(page, "enroll-namesake")
    assert [person.photos for person in gallery.reader.people()] == [1]
    page.get_by_role("radio", name="Another person of that name").check()
    page.click("#enroll-run")
    shows(page, "#enroll-result", "New person: grace.")
    settle(page)
    assert [person.photos for person in gallery.reader.people()] == [1, 1]

    page.click("#enroll-photos [data-part=clear]")
    give(page, "#enroll-photos", files["hopper_again"])
    page.get_by_role("radio", name="Add to Grace (1)").check()
    page.click("#enroll-run")
    shows(page, "#enroll-result", "Added to Grace, who has 2 photos now.")
    settle(page)
    keep(page, "enroll-namesakes")
    assert [person.photos for person in gallery.reader.people()] == [2, 1]
    page.get_by_role("radio", name="Another person of that name").check()
    page.wait_for_selector("#enroll-result .fv-empty")
    page.fill("#enroll-name input, #enroll-name textarea", "Somebody else")
    page.keyboard.press("Tab")
    page.wait_for_selector("#enroll-namesakes", state="hidden")


def test_of_several_faces_the_chosen_one_is_enrolled(
    page: Page, files: dict[str, Path], gallery: Gallery, server: driving.Running
) -> None:
    enroll(page, "Grace", files["both"])
    shows(page, "#enroll-result", "no photo was stored")
    assert page.get_by_role("radio", name="Face").count() == 2
    assert gallery.reader.count() == 0
    keep(page, "enroll-several")
    answer = httpx.post(
        f"{server.url}/v1/verify",
        files={"img1": files["both"].read_bytes(), "img2": files["hopper"].read_bytes()},
        timeout=60,
    )
    best = answer.json()["error"]["details"]["pairs"][0]
    page.get_by_role("radio", name=f"Face {best['face1']}").check()
    shows(page, "#enroll-result", "1 photo of 1 stored")
    found = httpx.post(
        f"{server.url}/v1/search", files={"img": files["hopper_again"].read_bytes()}, timeout=60
    )
    assert found.json()["faces"][0]["candidates"][0]["identity"] == "Grace"
    assert found.json()["faces"][0]["known"]


def test_everyone_of_a_thousand_can_be_reached(page: Page, gallery: Gallery) -> None:
    vectors = np.random.default_rng(0).normal(size=(1000, 64)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with gallery.batch():
        for number, vector in enumerate(vectors):
            photo = NewPhoto(Embedding(vector, gallery.model_id), content_hash=str(number))
            gallery.enroll(f"Person {number:04d}", [photo])
    open_tab(page, "Gallery")
    shows(page, "#gallery-list", "1 to 100 of 1,000 people")
    assert page.is_disabled("#gallery-earlier")
    seen = set(page.locator("#gallery-list tbody td:first-child").all_inner_texts())
    for place in range(1, 10):
        page.click("#gallery-later")
        shows(page, "#gallery-list", f"{place}01 to {place + 1 if place < 9 else '1,0'}00 of 1,000")
        settle(page)
        seen |= set(page.locator("#gallery-list tbody td:first-child").all_inner_texts())
    assert seen == {f"Person {number:04d}" for number in range(1000)}
    assert page.is_disabled("#gallery-later")
    keep(page, "gallery-last-page")
    choose_person(page, "Person 0999")
    page.click("#gallery-earlier")
    shows(page, "#gallery-list", "801 to 900 of 1,000")
    assert page.inner_text("#gallery-details h2") == "Person 0999"

    page.fill("#gallery-query input, #gallery-query textarea", "0437")
    shows(page, "#gallery-list", "Found 1 to 1, of 1,000")
    settle(page)
    pick(page, "#gallery-other", "Person 0437")
    page.click("#gallery-merge")
    page.click("#gallery-erase")
    shows(page, "#gallery-notice", "Person 0999 has all 2 photos now")
    assert gallery.reader.count() == 999
