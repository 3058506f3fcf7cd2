"""Many pairs on the Verify tab: two sets of photos, compared name by name or by a list."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import gradio as gr

from app.batch import csv_file
from app.batch.pairs import parse_pairs
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import markup
from app.ui.cards import report as reports
from app.ui.cards.markup import live, placeholder
from app.ui.cards.pairs import pairs_card
from app.ui.downloads import Downloads
from app.ui.widgets.actions import action_area, told
from app.ui.widgets.background import SessionJobs
from app.ui.widgets.common import QUIET, acting, at_once, at_work, explain, to_sight
from app.ui.widgets.photo_picker import photo_picker, read_uploads
from app.usecases.many import COLUMNS, Pair
from app.usecases.progress import Cancelled
from app.usecases.results import Upload
from model.errors import BadImage

_WAITING = (
    "Photos with the same file name in both sets are compared. One photo in the first set is "
    "compared with every photo of the second."
)
MOST_PAIRS = 1000
SIDES = ("first", "second")
PAUSE_SECONDS = 0.5
"""Time between two updates of the progress bar."""

Plan = tuple[dict[str, bytes], dict[Pair, Pair], str]
"""Photos by set and name; pairs of these with the names to show; which photos have no partner."""


class PairsPart:
    """A folded part of the Verify tab; ``target`` is the tab's control."""

    def __init__(
        self, service: FaceService, settings: Settings, downloads: Downloads, target: gr.Dropdown
    ) -> None:
        self.service, self.settings, self.downloads = service, settings, downloads
        self.jobs = SessionJobs()
        with gr.Accordion("Many pairs at once", open=False, elem_id="pairs"):
            with gr.Row(elem_classes="fv-two"):
                self.first = photo_picker(
                    "First photos", settings, several=True, elem_id="pairs-first"
                )
                self.second = photo_picker(
                    "Second photos", settings, several=True, elem_id="pairs-second"
                )
            self.listed = gr.Textbox(
                label="List of pairs, if the names differ (optional)",
                placeholder="passport.jpg, gate.jpg",
                lines=2, max_lines=8, elem_id="pairs-list",
            )  # fmt: skip
            with gr.Row():
                self.button = gr.Button("Compare all", variant="primary", elem_id="pairs-run")
                self.stop = gr.Button(
                    "Stop", visible=False, scale=0, min_width=140, elem_id="pairs-stop"
                )
            self.result = action_area("pairs-result", live(placeholder(_WAITING)))
            self.rows = gr.State(None, time_to_live=900)
            self.offered = action_area("pairs-offer")
        self._bind(target)

    def _bind(self, target: gr.Dropdown) -> None:
        outputs = [self.result, self.stop, self.rows, self.offered]
        fields = [self.first, self.second, self.listed, target]
        pressed = self.button.click(
            self.run, fields, outputs, show_progress="hidden", **at_work(self.settings)
        )
        pressed.then(**to_sight("pairs-result"))
        self.stop.click(self.call_off, None, None, queue=False, **QUIET)
        self.result.act(self.act, [self.rows, target], self.offered, show_progress="hidden",
                        **at_work(self.settings))  # fmt: skip
        for picker in (self.first, self.second):
            picker.picked(
                inputs=None, outputs=[self.result, self.stop, self.offered], cancels=pressed,
                **at_once(live(placeholder(_WAITING)), gr.update(visible=False), ""),
            )  # fmt: skip

    def run(
        self, first: str, second: str, listed: str, rate: float, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        """Compare all pairs, with progress; after Stop, show the answers so far."""
        rows: list[dict[str, Any]] = []
        hidden = {self.stop: gr.update(visible=False), self.offered: ""}
        try:
            left, right = (read_uploads(value, self.settings) for value in (first, second))
            photos, pairs, note = plan(left, right, listed)
            with self.jobs.work(request.session_hash) as stopping:
                found = acting(self.service, request).verify_many(
                    list(pairs), photos.__getitem__, target_fmr=rate, cancel=stopping
                )
                yield {self.result: _bar(0, len(pairs)), self.stop: gr.update(visible=True)}
                shown = time.monotonic()
                try:
                    for answer in found:
                        rows.append(replace(answer, pair=pairs[answer.pair]).row())
                        if time.monotonic() > shown + PAUSE_SECONDS:
                            shown = time.monotonic()
                            yield {self.result: _bar(len(rows), len(pairs))}
                except Cancelled:
                    note = f"Stopped; {len(pairs) - len(rows)} pairs are not answered. {note}"
            card = pairs_card(rows, note=note) if rows else markup.message("info", note)
            yield hidden | {self.result: live(card), self.rows: rows}
        except Exception as error:
            yield hidden | {self.result: live(explain(error)), self.rows: None}

    def act(self, rows: Any, rate: float, event: gr.EventData, request: gr.Request) -> str:
        """Handle a button in the result: the answers as a CSV, or as a report."""
        asked = told(event)
        try:
            if not rows:
                raise BadImage("The answers are too old and no longer kept. Compare again.")
            if asked["act"] == "csv":
                name, made = "answers.csv", csv_file.text_of(rows, COLUMNS, header=True)
            else:
                mine = acting(self.service, request)
                made = reports.pairs(rows, mine, rate, note=asked.get("note", ""))
                name = "face-pairs.html"
            return reports.offer(self.downloads, name, made, request.username)
        except Exception as error:
            return live(explain(error))

    def call_off(self, request: gr.Request) -> None:
        """Handle Stop."""
        self.jobs.stop(request.session_hash)


def _bar(done: int, total: int) -> markup.Markup:
    return markup.progress_bar("Comparing the pairs", done, total)


def plan(first: Sequence[Upload], second: Sequence[Upload], listed: str = "") -> Plan:
    """Return which photos are compared.

    Args:
        listed: Pairs of names, one per line; if empty, photos of the same name are a pair.

    Raises:
        BadImage: A set is empty or has two photos of one name, or nothing can be compared.
    """
    sets = [_by_name(each) for each in (first, second)]
    photos = {f"{side}/{name}": data for side, each in zip(SIDES, sets, strict=True)
              for name, data in each.items()}  # fmt: skip
    note = ""
    if listed.strip():
        names = parse_pairs(listed)
    elif len(first) == 1:
        names = [Pair(first[0].name, name) for name in sets[1]]
    else:
        names = [Pair(name, name) for name in sets[0] if name in sets[1]]
        if alone := sorted(sets[0].keys() ^ sets[1].keys()):
            note = f"In one set only: {', '.join(alone)}."
    if not names or not all(sets):
        raise BadImage(
            "There is nothing to compare. Give two sets of photos with the same file names, one "
            "photo and a set, or a list of pairs."
        )
    if len(names) > MOST_PAIRS:
        raise BadImage(f"{len(names)} pairs are too many at once; take at most {MOST_PAIRS}.")
    pairs = {Pair(_key(photos, each.first, SIDES), _key(photos, each.second, SIDES[::-1])): each
             for each in names}  # fmt: skip
    return photos, pairs, note


def _by_name(uploads: Sequence[Upload]) -> dict[str, bytes]:
    found = {upload.name: upload.data for upload in uploads}
    if len(found) < len(uploads):
        raise BadImage("Two photos of a set have the same file name. Rename one of them.")
    return found


def _key(photos: dict[str, bytes], name: str, sides: Sequence[str]) -> str:
    """Return the key of a photo in the first of two sets, else in the other."""
    for side in sides:
        if f"{side}/{name}" in photos:
            return f"{side}/{name}"
    raise BadImage(f"The list names {name!r}, but no photo of that name was given.")
