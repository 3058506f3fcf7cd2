"""Comparing two photos in a real browser."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.app.browser import driving
from tests.app.browser.driving import (
    ask_api,
    compare,
    give,
    keep,
    open_tab,
    settle,
    shows,
    unfold,
    visit,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

HEADLINES = {"same": "Same person", "different": "Different people", "inconclusive": "Inconclusive"}


def test_verify_says_what_the_api_says(
    page: Page, server: driving.Running, files: dict[str, Path]
) -> None:
    words = compare(page, files["collins"], files["collins_again"])
    keep(page, "verify-same")
    assert words.startswith("Same person")
    assert re.search(r"of [\d.,]+ (million )?pairs of strangers look this alike", words)
    assert "Score" not in words
    answer = ask_api(server.url, files["collins"], files["collins_again"])
    assert words.startswith(answer["headline"])
    assert page.locator("#verify-result .fv-crop").count() == 2
    assert not page.is_visible("#verify-result svg.fv-plot")
    page.click("#verify-result details[data-part=details] summary")
    assert page.is_visible("#verify-result svg.fv-plot")
    words = page.inner_text("#verify-result")
    for reason in answer["reasons"]:
        assert reason in words

    words = compare(page, files["collins"], files["hopper"])
    keep(page, "verify-different")
    answer = ask_api(server.url, files["collins"], files["hopper"])
    expected = HEADLINES[answer["decision"]]
    assert words.startswith(expected)
    assert expected != "Same person"


def test_what_was_likely_before_gives_a_probability(
    page: Page, server: driving.Running, files: dict[str, Path]
) -> None:
    compare(page, files["collins"], files["hopper"])
    assert "Probability" not in page.text_content("#verify-result")
    page.click("#verify-prior input")
    page.get_by_role("option", name="1 in 100", exact=True).click()
    settle(page)
    unfold(page, "#verify-result")
    words = shows(page, "#verify-result", "if it was 1 in 100 before looking")
    ratio = ask_api(server.url, files["collins"], files["hopper"])["likelihood_ratio"]
    told = re.search(r"one person: ([\d.]+)%", words)
    assert float(told[1]) / 100 == pytest.approx(ratio / (ratio + 99), rel=0.06)
    keep(page, "verify-prior")


def test_several_faces_are_numbered_and_nobody_is_picked(
    page: Page, files: dict[str, Path]
) -> None:
    words = compare(page, files["both"], files["hopper_again"])
    keep(page, "verify-several")
    assert words.startswith("Which faces do you mean?")
    assert page.locator("#verify-result tbody tr").count() == 2
    assert page.locator("#verify-result .fv-verdict").count() == 0
    page.click("#verify-result .fv-found[data-face='1']")
    page.wait_for_selector("#verify-result .fv-verdict")
    settle(page)
    keep(page, "verify-chosen")
    assert page.inner_text("#verify-result").startswith("Same person")
    # The keyboard does it too.
    unfold(page, "#verify-result")
    page.focus("#verify-result .fv-found[data-face='2']")
    page.keyboard.press("Enter")
    page.wait_for_function("!document.querySelector('#verify-result').innerText.startsWith('Same')")


def test_the_same_photo_twice_is_called_that(page: Page, files: dict[str, Path]) -> None:
    assert compare(page, files["hopper"], files["hopper"]).startswith("The same photo twice")


def test_the_report_is_one_file(page: Page, files: dict[str, Path], tmp_path: Path) -> None:
    compare(page, files["hopper"], files["hopper_again"])
    unfold(page, "#verify-result")
    page.fill("#verify-result textarea[name=note]", "Case 7")
    with page.expect_download() as waiting:
        page.click("#verify-result [data-act=report]")
    report = tmp_path / "report.html"
    waiting.value.save_as(report)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    words = page.inner_text("body")
    assert "Case 7" in words
    assert "Same person" in words
    assert page.is_visible("svg.fv-plot")
    assert [address for address in asked if not address.startswith("data:")] == [report.as_uri()]
    keep(page, "report")


def test_every_problem_is_a_sentence_about_the_photo(page: Page, files: dict[str, Path]) -> None:
    words = compare(page, files["collins"], files["nobody"])
    keep(page, "verify-no-face")
    assert "No face was found in the second photo" in words
    words = compare(page, files["text"], files["collins"])
    keep(page, "verify-bad-file")
    assert "Something went wrong" not in words
    assert re.search(r"picture|image|photo", words)
    assert page.locator("#verify-result [role=alert]").count() == 1


def test_a_missing_photo_is_named(page: Page, files: dict[str, Path]) -> None:
    page.click("#verify-run")
    page.wait_for_selector("#verify-result [role=alert]:has-text('Both photos are missing')")
    give(page, "#verify-second", files["hopper"])
    page.click("#verify-run")
    page.wait_for_selector("#verify-result [role=alert]:has-text('The first photo is missing')")
    open_tab(page, "Search")
    page.click("#search-run")
    page.wait_for_selector("#search-result [role=alert]:has-text('The photo is missing')")


def test_two_photos_that_do_not_fit_into_one_call_are_not_taken(
    page: Page, files: dict[str, Path], tmp_path: Path
) -> None:
    large = tmp_path / "large.jpg"
    large.write_bytes(files["hopper"].read_bytes() + bytes(19_000_000))
    give(page, "#verify-first", large)
    page.set_input_files("#verify-second input[type=file]", str(large))
    status = shows(page, "#verify-second [data-part=status]", "Together the photos have 38 MB")
    assert "at most 35 MB" in status
    assert page.locator("#verify-second .fv-picker[data-filled=yes]").count() == 0
    give(page, "#verify-second", files["hopper"])
    page.click("#verify-run")
    page.wait_for_selector("#verify-result .fv-verdict")


def test_a_new_photo_takes_the_old_answer_away(page: Page, files: dict[str, Path]) -> None:
    compare(page, files["collins"], files["collins_again"])
    give(page, "#verify-second", files["hopper"])
    page.wait_for_selector("#verify-result .fv-empty")
    assert page.locator("#verify-result .fv-verdict").count() == 0
    assert page.locator("#verify-result [data-act=regions]").count() == 0


def test_a_sideways_photo_is_turned_on_the_spot(page: Page, files: dict[str, Path]) -> None:
    give(page, "#verify-first", files["hopper"])
    shape = "(image) => [image.naturalWidth, image.naturalHeight]"
    photo = page.locator("#verify-first .fv-previews img")
    wide, high = photo.evaluate(shape)
    assert wide != high
    page.click("#verify-first .fv-turn")
    page.wait_for_function(
        "high => document.querySelector('#verify-first .fv-previews img').naturalWidth === high",
        arg=high,
    )
    assert photo.evaluate(shape) == [high, wide]
    assert page.evaluate("document.activeElement.className") == "fv-turn"


def test_samples_work_with_the_keyboard_alone(page: Page) -> None:
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.fv-samples') !== null"):
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector("#verify-result .fv-verdict")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "verify-run":
            return
    pytest.fail("Compare cannot be reached with the Tab key")


def test_photos_can_be_dropped_pasted_and_taken(
    chrome: Browser, server: driving.Running, files: dict[str, Path]
) -> None:
    context = chrome.new_context(permissions=["camera"])
    context.set_default_timeout(driving.PATIENCE)
    page = visit(context, server.url)
    photo = base64.b64encode(files["hopper"].read_bytes()).decode()
    send = """([target, kind, body]) => {
        const bytes = Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0));
        const carried = new DataTransfer();
        carried.items.add(new File([bytes], "sent.jpg", { type: "image/jpeg" }));
        const place = target ? document.querySelector(target) : document;
        const event = kind === "paste"
            ? new ClipboardEvent("paste", { clipboardData: carried, bubbles: true })
            : new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
        place.dispatchEvent(event);
    }"""
    page.evaluate(send, ["#verify-second .fv-drop", "drop", photo])
    page.wait_for_selector("#verify-second .fv-picker[data-filled=yes]")
    assert page.locator("#verify-first .fv-picker[data-filled=yes]").count() == 0
    page.evaluate(send, [None, "paste", photo])
    page.wait_for_selector("#verify-first .fv-picker[data-filled=yes]")
    assert page.locator("#search-photo .fv-picker[data-filled=yes]").count() == 0
    page.click("#verify-run")
    page.wait_for_selector("#verify-result .fv-verdict")
    assert page.inner_text("#verify-result").startswith("The same photo twice")

    page.click("#verify-first [data-part=clear]")
    page.wait_for_selector("#verify-first .fv-picker[data-filled='']")
    page.click("#verify-first [data-part=camera]")
    page.wait_for_function("document.querySelector('#verify-first video').videoWidth > 0")
    page.click("#verify-first [data-part=snap]")
    page.wait_for_selector("#verify-first .fv-previews img[alt='camera.jpg']")
    assert page.evaluate("document.querySelector('#verify-first video').srcObject") is None
    context.close()


def test_the_evidence_is_shown(page: Page) -> None:
    page.locator(".fv-samples button").first.click()
    page.wait_for_selector("#verify-result .fv-verdict")
    unfold(page, "#verify-result")
    page.click("#verify-result [data-act=regions]")
    page.wait_for_selector("#verify-regions .fv-maps")
    settle(page)
    assert page.locator("#verify-regions img").count() == 2
    assert not page.is_visible("#verify-stop")
