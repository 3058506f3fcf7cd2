"""Enrolling, searching, caring for the gallery and calibrating in a real browser."""

from __future__ import annotations

import re
import zipfile
from itertools import combinations, permutations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from index.gallery import Gallery
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
    labels = page.locator("#search-result .fv-at-desk text").all_text_contents()
    assert sorted(labels) == sorted(["1 ?", f"2 {EVIL[:28]}…"])
    page.locator("#search-result .fv-face").first.hover()
    assert page.locator("#search-result .fv-found[data-lit]").count() == 1
    assert page.locator("#search-result .fv-at-desk [data-lit]").count() == 1
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


SHOWN_LABELS = """() => [...document.querySelectorAll("#search-result .fv-label")]
  .filter((each) => each.getBoundingClientRect().width)
  .map((each) => {
    const box = each.querySelector("rect").getBoundingClientRect();
    const { left, top, right, bottom } = box;
    const words = each.querySelector("text");
    const letters = parseFloat(getComputedStyle(words).fontSize) * each.getScreenCTM().a;
    return { left, top, right, bottom, letters, text: words.textContent };
  })"""


def test_the_labels_of_twenty_faces_can_be_read_at_a_desk_and_on_a_phone(
    page: Page, files: dict[str, Path], gallery: Gallery, tmp_path: Path
) -> None:
    enroll(page, "Eileen Marie Collins", files["collins"])
    tile = Image.fromarray(samples.collins()[:340, 60:400]).resize((170, 170))
    crowd = Image.new("RGB", (7 * 170, 3 * 170), "grey")
    for n in range(20):
        crowd.paste(tile, (n % 7 * 170, n // 7 * 170))
    crowd.save(tmp_path / "crowd.png")
    open_tab(page, "Search")
    give(page, "#search-photo", tmp_path / "crowd.png")
    page.click("#search-run")
    page.wait_for_selector("#search-result .fv-search")
    settle(page)
    assert "20 faces found, 20 known" in page.inner_text("#search-result")
    for width, named in ((1366, 20), (390, 0)):
        page.set_viewport_size({"width": width, "height": 844})
        keep(page, f"crowd-{width}")
        picture = page.locator("#search-result .fv-photo svg").evaluate(
            "part => part.getBoundingClientRect().toJSON()"
        )
        labels = page.evaluate(SHOWN_LABELS)
        assert sorted(int(each["text"].split()[0]) for each in labels) == list(range(1, 21))
        assert sum("Eileen" in each["text"] for each in labels) >= named
        for each in labels:
            assert each["letters"] > 11, "as large as small print"
            assert picture["left"] - 0.1 <= each["left"] <= each["right"] <= picture["right"] + 0.1
            assert picture["top"] - 0.1 <= each["top"] <= each["bottom"] <= picture["bottom"] + 0.1
        for one, other in combinations(labels, 2):
            apart = (one["right"] <= other["left"], other["right"] <= one["left"],
                     one["bottom"] <= other["top"], other["bottom"] <= one["top"])  # fmt: skip
            assert any(apart), (one["text"], other["text"])


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
