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
from tests.app.browser.driving import choose_person, give, keep, open_tab, settle, shows

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

EVIL = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"


def test_enroll_search_forget(page: Page, files: dict[str, Path]) -> None:
    open_tab(page, "Enroll")
    page.fill("#enroll-name input, #enroll-name textarea", EVIL)
    give(page, "#enroll-photos", files["hopper"], files["nobody"], files["both"])
    page.click("#enroll-run")
    page.wait_for_selector("#enroll-face label")
    settle(page)
    keep(page, "enroll")
    words = page.inner_text("#enroll-result")
    assert "1 photo of 3 stored" in words
    assert "No face" in words
    assert "Several faces" in words

    open_tab(page, "Search")
    give(page, "#search-photo", files["hopper_again"])
    page.click("#search-run")
    page.wait_for_selector("#search-result .fv-card")
    settle(page)
    keep(page, "search-known")
    words = page.inner_text("#search-result")
    assert EVIL in words
    assert "1 face found, 1 known" in words
    assert page.locator("#search-result tbody img").count() == 1
    give(page, "#search-photo", files["collins"])
    page.click("#search-run")
    page.wait_for_selector("#search-result .fv-card")
    settle(page)
    keep(page, "search-unknown")
    assert "Unknown" in page.inner_text("#search-result")

    open_tab(page, "Gallery")
    page.wait_for_selector("#gallery-list tbody tr")
    page.click("#gallery-person input")
    page.get_by_role("option").first.click()
    page.wait_for_selector("#gallery-details .fv-card")
    settle(page)
    page.click("#gallery-forget")
    page.wait_for_selector(".fv-ask")
    keep(page, "gallery-forget")
    page.click("#gallery-keep")
    page.wait_for_selector(".fv-ask", state="hidden")
    assert page.locator("#gallery-list tbody tr").count() == 1
    page.click("#gallery-forget")
    page.wait_for_selector(".fv-ask", state="visible")
    page.click("#gallery-erase")
    words = shows(page, "#gallery-notice", "is forgotten")
    settle(page)
    keep(page, "gallery-forgotten")
    assert "1 photo record and face vector" in words
    assert "Nobody is enrolled yet" in page.inner_text("#gallery-list")
    assert page.evaluate("window.pwned") is None


def test_a_gallery_can_be_cared_for_exported_and_imported(
    page: Page, files: dict[str, Path], tmp_path: Path
) -> None:
    open_tab(page, "Enroll")
    page.fill("#enroll-name input, #enroll-name textarea", "Grace")
    give(page, "#enroll-photos", files["hopper"], files["hopper_again"])
    page.click("#enroll-run")
    page.wait_for_function(
        "/stored$/m.test(document.querySelector('#enroll-result h3')?.innerText)"
    )
    settle(page)
    assert "2 photos of 2 stored" in page.inner_text("#enroll-result")
    open_tab(page, "Gallery")
    choose_person(page, "Grace")
    page.fill("#gallery-new-name input, #gallery-new-name textarea", "Grace Hopper")
    page.click("#gallery-rename")
    page.wait_for_selector("#gallery-details h2:has-text('Grace Hopper')")
    settle(page)
    assert page.locator("#gallery-details img").count() == 2

    page.click("text=Export and import")
    page.click("#gallery-export")
    with page.expect_download() as waiting:
        page.click("#gallery-offer a")
    exported = tmp_path / "gallery.faces"
    waiting.value.save_as(exported)
    assert exported.stat().st_size > 0

    choose_person(page, "Grace Hopper")
    page.click("#gallery-forget")
    page.click("#gallery-erase")
    page.wait_for_selector("#gallery-list :text('Nobody is enrolled yet')")
    page.set_input_files("#gallery-file input[type=file]", str(exported))
    page.wait_for_selector("#gallery-list td:has-text('Grace Hopper')")
    shows(page, "#gallery-offer", "Added 1 person")
    settle(page)
    page.set_input_files("#gallery-file input[type=file]", str(exported))
    shows(page, "#gallery-offer", "Grace Hopper of the export gallery.faces is in the gallery")
    settle(page)
    large = tmp_path / "large.faces"
    with large.open("wb") as file:
        file.truncate(51_000_000)
    page.set_input_files("#gallery-file input[type=file]", str(large))
    shows(page, "#gallery-file-limit", "large.faces has 51 MB: too large")
    page.wait_for_selector("#gallery-offer .fv-card", state="detached")
    keep(page, "gallery-transfer")
    page.get_by_label("Leave people who are here already as they are").check()
    page.set_input_files("#gallery-file input[type=file]", str(exported))
    shows(page, "#gallery-offer", "Added 0 people")
    settle(page)
    choose_person(page, "Grace Hopper")
    page.click("#gallery-forget")
    page.click("#gallery-erase")
    page.wait_for_selector("#gallery-list :text('Nobody is enrolled yet')")


def test_own_photos_are_measured_used_and_called_off(
    page: Page, server: driving.Running, tmp_path: Path
) -> None:
    own, more = tmp_path / "own.zip", tmp_path / "more.zip"
    pictures = [samples.collins(), samples.hopper()]
    with zipfile.ZipFile(own, "w") as archive, zipfile.ZipFile(more, "w") as longer:
        for person, colours in enumerate(list(permutations(range(3)))[:5] * 2):
            picture = pictures[person // 5][:, :, list(colours)]
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
    assert re.search(r"Measured on \d+ photos of 10 people", page.inner_text("#model-progress"))
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
