"""Refused photos, several faces, merging, removing, and a gallery of many, in a real browser."""

from __future__ import annotations

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
    act,
    choose_person,
    enroll,
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


def test_a_conflict_is_decided_by_itself_and_twice_then_merged_and_removed(
    page: Page, files: dict[str, Path], gallery: Gallery
) -> None:
    enroll(page, "Grace", files["hopper"])
    words = enroll(page, "Admiral", files["hopper_again"])
    assert "no photo was stored" in words
    assert "looks like Grace" in words
    assert page.locator("#enroll-result .fv-decide img").count() == 2
    assert page.locator("#enroll-result [data-act=insist]").count() == 0
    act(page, "#enroll-result", "doubt")
    assert gallery.reader.count() == 1
    page.click("#enroll-result [data-act=insist]")
    assert page.get_attribute("#enroll-result input[name=reason]", "aria-invalid") == "true"
    assert gallery.reader.count() == 1
    page.fill("#enroll-result input[name=reason]", "twins")
    keep(page, "enroll-refused")
    act(page, "#enroll-result", "insist")
    shows(page, "#enroll-result", "1 photo of 1 stored")
    assert [person.name for person in gallery.reader.people()] == ["Grace", "Admiral"]
    act(page, "#enroll-result", "more")
    assert page.input_value("#enroll-name input, #enroll-name textarea") == "Admiral"
    assert page.get_by_role("radio", name="Add to Admiral").is_checked()

    page.goto(f"{page.url.split('?')[0]}?person={gallery.reader.people()[0].id}")
    wait_until_live(page)
    page.wait_for_selector("#gallery-details h2:text-is('Grace')")
    page.click("#gallery-details .fv-danger summary")
    page.fill("#gallery-details input[name=query]", "admi")
    act(page, "#gallery-details", "find")
    act(page, "#gallery-details", "ask-merge")
    assert page.locator("#gallery-details .fv-sure img").count() == 2
    assert "Same person" in page.inner_text("#gallery-details .fv-sure")
    keep(page, "gallery-merge")
    act(page, "#gallery-details", "do-merge")
    shows(page, "#gallery-notice", "Grace has all 2 photos now")
    (person,) = gallery.reader.people()
    _, second = gallery.reader.photos(person.id)
    act(page, "#gallery-details", "ask-remove")
    shows(page, "#gallery-details", "Erase photo 1 (hopper.jpg) of Grace")
    assert len(gallery.reader.photos(person.id)) == 2
    act(page, "#gallery-details", "do-remove")
    shows(page, "#gallery-notice", "Removed photo 1 (hopper.jpg) for good")
    assert [photo.id for photo in gallery.reader.photos(person.id)] == [second.id]


def test_a_name_someone_has_is_shown_and_asked_about(
    page: Page, files: dict[str, Path], gallery: Gallery
) -> None:
    assert "New person: Grace." in enroll(page, "Grace", files["hopper"])
    assert not page.is_visible("#enroll-namesakes")
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


def test_of_several_faces_the_chosen_one_is_enrolled(
    page: Page, files: dict[str, Path], gallery: Gallery, server: driving.Running
) -> None:
    assert "no photo was stored" in enroll(page, "Grace", files["both"])
    assert page.locator("#enroll-result .fv-found").count() == 2
    assert gallery.reader.count() == 0
    keep(page, "enroll-several")
    answer = httpx.post(
        f"{server.url}/v1/verify",
        files={"img1": files["both"].read_bytes(), "img2": files["hopper"].read_bytes()},
        timeout=60,
    )
    best = answer.json()["error"]["details"]["pairs"][0]
    page.click(f"#enroll-result .fv-found[data-face='{best['face1']}']")
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
    shows(page, "#gallery-list", "120 of 1,000 people")
    for _ in range(30):
        page.keyboard.press("End")
        page.mouse.wheel(0, 100_000)
        settle(page)
        if page.locator("#gallery-list .fv-person").count() == 1000:
            break
    names = page.locator("#gallery-list .fv-person strong").all_text_contents()
    assert names == [f"Person {number:04d}" for number in range(1000)]
    page.fill("#gallery-query input, #gallery-query textarea", "0437")
    shows(page, "#gallery-list", "1 of 1,000 people with such a name")
    settle(page)
    choose_person(page, "Person 0437")
    page.fill("#gallery-details input[name=name]", "Person 0001")
    act(page, "#gallery-details", "rename")
    shows(page, "#gallery-details", "There is somebody named Person 0001 already")
    assert len(gallery.reader.find_by_name("Person 0437")) == 1
    act(page, "#gallery-details", "do-rename")
    shows(page, "#gallery-notice", "Now called Person 0001")
    assert len(gallery.reader.find_by_name("Person 0001")) == 2


def test_duplicates_are_found_and_a_name_typed_leads_back_to_the_list(
    page: Page, files: dict[str, Path], gallery: Gallery
) -> None:
    enroll(page, "Grace", files["hopper"])
    enroll(page, "Admiral", files["hopper_again"])
    act(page, "#enroll-result", "doubt")
    page.fill("#enroll-result input[name=reason]", "twins")
    act(page, "#enroll-result", "insist")
    with gallery.batch():
        for n in range(100):
            gallery.enroll(f"Person {n}", [])
    open_tab(page, "Gallery")
    page.locator("#gallery-list .fv-person").first.click()
    page.wait_for_selector("#gallery-details h2:text-is('Grace')")
    page.fill("#gallery-query input, #gallery-query textarea", "son 9")
    page.wait_for_selector("#gallery-list .fv-lead:has-text('11 of 102 people')")
    assert page.locator("#gallery-details .fv-who").count() == 0
    page.fill("#gallery-query input, #gallery-query textarea", "")
    page.wait_for_selector("#gallery-list .fv-lead:has-text('102 people')")

    page.click("#gallery-review")
    page.wait_for_selector("#gallery-notice h2:has-text('1 possible duplicate, 0 odd photos')")
    settle(page)
    assert not page.is_visible("#gallery-stop")
    keep(page, "gallery-review")
    act(page, "#gallery-notice", "ask-merge")
    act(page, "#gallery-details", "do-merge")
    shows(page, "#gallery-notice", "has all 2 photos now")
    assert gallery.reader.count() == 101
