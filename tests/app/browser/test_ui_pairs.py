"""Many pairs at once in a real browser, and what screen readers are told of it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.app.browser import driving
from tests.app.browser.driving import ask_api, compare, give, keep, settle, shows

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SPOKEN = """
() => {
  window.spoken = [];
  const note = (part) => {
    const region = part.closest?.("[aria-live]:not([aria-live=off]), [role=status], [role=alert]");
    const words = region && region.textContent.trim();
    if (words) window.spoken.push(words);
  };
  new MutationObserver((changes) => {
    for (const { target, addedNodes } of changes)
      for (const part of [target.parentElement && target, target.parentElement, ...addedNodes])
        if (part) note(part);
  }).observe(document.body, { childList: true, characterData: true, subtree: true });
}
"""
"""Keeps what changes within live regions, as a screen reader would read it."""


def test_two_sets_are_compared_name_by_name(
    page: Page, server: driving.Running, files: dict[str, Path], tmp_path: Path
) -> None:
    for place, name, source in (
        ("a", "ann.jpg", "hopper"), ("b", "ann.jpg", "hopper_again"),
        ("a", "bo.jpg", "collins"), ("b", "bo.jpg", "hopper"),
        ("a", "none.jpg", "nobody"), ("b", "none.jpg", "hopper"),
    ):  # fmt: skip
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / name).write_bytes(files[source].read_bytes())
    page.get_by_role("button", name="Many pairs at once").click()
    settle(page)
    give(page, "#pairs-first", *sorted((tmp_path / "a").iterdir()))
    give(page, "#pairs-second", *sorted((tmp_path / "b").iterdir()))
    page.click("#pairs-run")
    words = shows(page, "#pairs-result", "3 pairs.")
    settle(page)
    keep(page, "pairs")
    for second in ("hopper_again", "hopper"):
        first = "hopper" if second == "hopper_again" else "collins"
        assert ask_api(server.url, files[first], files[second])["headline"] in words
    with page.expect_download() as waiting:
        page.click("#pairs-result [data-act=csv]")
    waiting.value.save_as(tmp_path / "answers.csv")
    with (tmp_path / "answers.csv").open(newline="") as file:
        answers = list(csv.DictReader(file))
    assert [row["decision"] or row["error"] for row in answers] == ["same", "different", "no_face"]
    page.set_viewport_size({"width": 390, "height": 844})
    keep(page, "phone-pairs")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="no axe")
    found = axe.Axe().run(page).response["violations"]
    bad = [each for each in found if each["impact"] in ("serious", "critical")]
    assert not bad


def test_screen_readers_hear_the_answer_and_no_text_of_gradio(
    page: Page, files: dict[str, Path]
) -> None:
    page.evaluate(SPOKEN)
    words = compare(page, files["collins"], files["collins_again"])
    spoken = page.evaluate("window.spoken")
    assert any(words.split("\n")[0] in said for said in spoken), "the answer is announced"
    assert not [said for said in spoken if "common." in said or "complete" in said.lower()]
