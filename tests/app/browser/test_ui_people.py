"""Enrolling, searching, caring for the gallery and calibrating in a real browser."""

from __future__ import annotations

import re
import zipfile
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import samples
from tests.app import helpers
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
    unfold,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

EVIL = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"


def test_enroll_search_forget(page: Page, files: dict[str, Path]) -> None:
    words = enroll(page, EVIL, files["hopper"], files["nobody"], files["both"])
    keep(page, "enroll")
    assert "1 photo of 3 stored" in words
    assert "No face" in words
    assert "Several faces" in words
    act(page, "#enroll-result", "leave")
    assert page.input_value("#enroll-name input, #enroll-name textarea") == ""
    assert page.locator("#enroll-photos .fv-picker[data-filled=yes]").count() == 0

    open_tab(page, "Search")
    give(page, "#search-photo", files["both"])
    page.click("#search-run")
    page.wait_for_selector("#search-result .fv-card")
    settle(page)
    keep(page, "search-known")
    words = page.inner_text("#search-result")
    assert EVIL in words
    assert "2 faces found, 1 known" in words
    assert "1 unknown face" in words
    labels = page.locator("#search-result svg text").all_text_contents()
    assert sorted(labels) == sorted(["1 ?", f"2 {EVIL[:28]}…"])
    page.locator("#search-result .fv-face").first.hover()
    assert page.locator("#search-result .fv-found[data-lit]").count() == 1
    act(page, "#search-result", "open")
    page.wait_for_selector("#gallery-details .fv-who")
    settle(page)
    page.click("#gallery-details .fv-danger summary")
    act(page, "#gallery-details", "ask-forget")
    page.wait_for_selector(".fv-ask")
    keep(page, "gallery-forget")
    act(page, "#gallery-details", "keep")
    page.wait_for_selector(".fv-ask", state="detached")
    page.click("#gallery-details .fv-danger summary")
    act(page, "#gallery-details", "ask-forget")
    act(page, "#gallery-details", "do-forget")
    words = shows(page, "#gallery-notice", "is forgotten")
    settle(page)
    keep(page, "gallery-forgotten")
    assert "1 photo record and face vector" in words
    assert "Nobody is enrolled yet" in page.inner_text("#gallery-list")
    assert page.evaluate("window.pwned") is None


def test_an_unknown_face_is_enrolled_from_a_search(page: Page, files: dict[str, Path]) -> None:
    open_tab(page, "Search")
    give(page, "#search-photo", files["both"], files["nobody"])
    page.click("#search-run")
    shows(page, "#search-result", "2 photos, 0 known people")
    settle(page)
    keep(page, "search-several")
    unfold(page, "#search-result")
    act(page, "#search-result", "enroll")
    page.wait_for_selector("#enroll-photos .fv-picker[data-filled=yes]")
    page.fill("#enroll-name input, #enroll-name textarea", "Left")
    page.click("#enroll-run")
    shows(page, "#enroll-result", "Left: 1 photo of 1 stored")
    settle(page)
    act(page, "#enroll-result", "open")
    page.wait_for_selector("#gallery-details h2:text-is('Left')")
    settle(page)
    forget(page)


def forget(page: Page) -> None:
    """Forget the person shown on the Gallery tab."""
    page.click("#gallery-details .fv-danger summary")
    act(page, "#gallery-details", "ask-forget")
    act(page, "#gallery-details", "do-forget")
    page.wait_for_selector("#gallery-list :text('Nobody is enrolled yet')")


def test_a_gallery_can_be_cared_for_exported_and_imported(
    page: Page, files: dict[str, Path], tmp_path: Path, server: driving.Running
) -> None:
    assert "2 photos of 2 stored" in enroll(page, "Grace", files["hopper"], files["hopper_again"])
    open_tab(page, "Gallery")
    choose_person(page, "Grace")
    page.fill("#gallery-details input[name=name]", "Grace Hopper")
    act(page, "#gallery-details", "rename")
    page.wait_for_selector("#gallery-details h2:has-text('Grace Hopper')")
    assert page.locator("#gallery-details img").count() == 2
    keep(page, "gallery-person")
    act(page, "#gallery-details", "close")
    page.wait_for_function("document.querySelector('#gallery-list img')?.naturalWidth > 0")
    keep(page, "gallery-faces")

    page.click("text=Export and import")
    page.click("#gallery-export")
    with page.expect_download() as waiting:
        page.click("#gallery-offer a")
    exported = tmp_path / "gallery.faces"
    waiting.value.save_as(exported)
    assert exported.stat().st_size > 0

    choose_person(page, "Grace Hopper")
    forget(page)
    page.set_input_files("#gallery-file input[type=file]", str(exported))
    page.wait_for_selector("#gallery-list .fv-person:has-text('Grace Hopper')")
    shows(page, "#gallery-offer", "Added 1 person")
    settle(page)
    large = tmp_path / "large.faces"
    with large.open("wb") as file:
        file.truncate(51_000_000)
    page.set_input_files("#gallery-file input[type=file]", str(large))
    shows(page, "#gallery-file-limit", "large.faces has 51 MB: too large")
    page.wait_for_selector("#gallery-offer .fv-card", state="detached")
    keep(page, "gallery-transfer")
    # People who are here already: the choice is made before.
    page.set_input_files("#gallery-file input[type=file]", str(exported))
    shows(page, "#gallery-offer", "Added 0 people")
    settle(page)
    page.get_by_role("radio", name="Stop, and import nobody").check()
    page.set_input_files("#gallery-file input[type=file]", str(exported))
    shows(page, "#gallery-offer", "Grace Hopper of the export gallery.faces is in the gallery")
    settle(page)
    choose_person(page, "Grace Hopper")
    forget(page)


def test_own_photos_are_measured_used_and_called_off(
    page: Page, server: driving.Running, tmp_path: Path
) -> None:
    own, more = tmp_path / "own.zip", tmp_path / "more.zip"
    pictures = [samples.collins(), samples.hopper()]
    with zipfile.ZipFile(own, "w") as archive, zipfile.ZipFile(more, "w") as longer:
        for person, colours in enumerate(list(permutations(range(3))) * 2):
            picture = pictures[person // 6][:, :, list(colours)]
            for number, shot in enumerate((picture, samples.second_photo(picture))):
                photo = helpers.encoded(shot)
                archive.writestr(f"person {person}/{number}.jpg", photo)
                for copy in range(5):
                    longer.writestr(f"person {person}/{number} {copy}.jpg", photo)
    open_tab(page, "Model")
    before = page.inner_text("#model-facts")
    page.click("text=Calibrate on my own photos")
    # So many that there is time to stop before the end.
    page.set_input_files("#model-zip input[type=file]", str(more))
    page.wait_for_selector("#model-zip table")
    page.click("#model-measure")
    page.wait_for_selector("#model-progress progress")
    page.click("#model-stop")
    shows(page, "#model-progress", "was stopped")
    page.wait_for_selector("#model-zip table", state="detached")

    page.set_input_files("#model-zip input[type=file]", str(own))
    page.wait_for_selector("#model-zip table")
    page.click("#model-measure")
    page.wait_for_selector("#model-progress progress, #model-use")
    keep(page, "model-measuring")
    page.wait_for_selector("#model-use")
    settle(page)
    keep(page, "model-measured")
    assert re.search(r"Measured on \d+ photos of 1\d people", page.inner_text("#model-progress"))
    assert page.inner_text("#model-facts") == before
    page.click("#model-use")
    shows(page, "#model-progress", "In use from now on")
    settle(page)
    assert page.inner_text("#model-facts") != before
    page.click("#model-back")
    shows(page, "#model-progress", "in use again")
    settle(page)
    assert page.inner_text("#model-facts") == before
    assert not [file for file in server.temporary.rglob("*") if file.suffix in (".zip", ".faces")]
