"""Answers arrive, and belong to the photos shown, however slow machine and network are."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.app.browser import driving
from tests.app.browser.driving import compare, settle

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.browser

# Holds back what ends an event stream, as a busy page or a slow line would.
LATE_CLOSING = """
const real = window.fetch;
window.closing = 0;
window.fetch = async (...call) => {
  const answer = await real(...call);
  if (!String(call[0].url ?? call[0]).includes("/queue/data")) return answer;
  const text = new TextDecoder(), bytes = new TextEncoder();
  const slow = new TransformStream({ async transform(piece, out) {
    for (const part of text.decode(piece).split(/(?=data: )/)) {
      if (part.includes("close_stream")) {
        window.closing += 1;
        await new Promise((done) => setTimeout(done, 1000));
      }
      out.enqueue(bytes.encode(part));
    }
  }});
  return new Response(answer.body.pipeThrough(slow), { headers: answer.headers });
};
"""


def test_a_click_while_the_event_stream_closes_is_answered(
    chrome: Browser, server: driving.Running
) -> None:
    context = chrome.new_context()
    context.set_default_timeout(driving.PATIENCE)
    context.add_init_script(LATE_CLOSING)
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector(".fv-samples[data-ready=yes]")
    for closing in (1, 2):
        page.wait_for_function("closing => window.closing >= closing", arg=closing)
        page.locator(".fv-samples button").nth(closing - 1).click()
        page.wait_for_selector("#verify-result .fv-verdict")
        settle(page)
    context.close()


def test_a_sample_fills_both_photos_and_is_answered_every_time(page: Page) -> None:
    scores = []
    for place, second in (
        (0, "eileen_collins_altered"),
        (1, "grace_hopper"),
        (0, "eileen_collins_altered"),
    ):
        page.locator(".fv-samples button:visible").nth(place).click()
        page.wait_for_selector(f"#verify-second img[alt='{second}.jpg']")
        settle(page)
        page.wait_for_selector("#verify-result .fv-verdict")
        assert page.locator("#verify-first img[alt='eileen_collins.jpg']").count() == 1
        scores.append(re.search(r"Score (\S+)", page.text_content("#verify-result")).group(1))
    assert scores[0] == scores[2] != scores[1]


def test_a_refused_call_says_why(page: Page) -> None:
    refusal = {"error": {"code": "x", "message": "More than 4 requests a minute.", "details": {}}}
    page.route("**/queue/join*", lambda route: route.fulfill(status=429, json=refusal))
    page.locator(".fv-samples button").first.click()
    page.wait_for_selector(":text('More than 4 requests a minute.')")
    page.unroute("**/queue/join*")
    page.route("**/queue/join*", lambda route: route.fulfill(status=413, body="<html>"))
    page.locator(".fv-samples button").first.click()
    page.wait_for_selector(":text('The photos are too large to be sent together.')")
    page.unroute("**/queue/join*")
    page.route("**/queue/join*", lambda route: route.abort("connectionreset"))
    page.locator(".fv-samples button").first.click()
    page.wait_for_selector(":text('The call did not get through.')")
    page.unroute("**/queue/join*")
    page.locator(".fv-samples button").first.click()
    page.wait_for_selector("#verify-result .fv-verdict")


@pytest.mark.parametrize("slow", ["queue/join", "queue/data"])
def test_an_answer_to_photos_that_were_replaced_is_not_shown(
    page: Page, files: dict[str, Path], slow: str
) -> None:
    compare(page, files["collins"], files["collins_again"])
    held: list[Route] = []
    page.route(f"**/gradio_api/{slow}*", lambda route: held.append(route))
    page.click("#verify-run")
    page.set_input_files("#verify-second input[type=file]", str(files["hopper"]))
    page.wait_for_selector("#verify-result .fv-empty")
    until = time.monotonic() + driving.PATIENCE / 1000
    while not held and time.monotonic() < until:
        page.wait_for_timeout(100)
    assert len(held) == 1
    held[0].continue_()
    page.unroute_all()
    settle(page)
    page.wait_for_timeout(1000)
    assert page.locator("#verify-result .fv-empty").count() == 1
    page.click("#verify-run")
    page.wait_for_selector("#verify-result .fv-verdict")
    settle(page)
    assert page.inner_text("#verify-result").startswith("Different people")
