"""The Model tab: the model and calibration in use, and calibration on the user's own photos."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from app.service import FaceService
from app.settings import Settings
from app.ui import private_folder
from app.ui.cards import markup
from app.ui.cards import model as model_cards
from app.ui.cards.markup import live
from app.ui.widgets.actions import plain
from app.ui.widgets.background import SessionJobs, steps
from app.ui.widgets.common import QUIET, acting, at_once, explain
from app.ui.widgets.upload_limits import limit_note
from model.calibration import Calibration
from model.errors import CalibrationError

_HELP = """
<p class="fv-lead">Error rates hold for photos like those they were measured on. Measure them on
your own: one folder a person, at least two photos of most, taken as yours will be. The photos are
read once and not kept. Nothing changes until you use the result.</p>
"""

_LARGER = "More photos than that: put them on the server, where the setting own_photos points."


class ModelTab:
    def __init__(
        self, page: gr.Blocks, own: gr.Tab, service: FaceService, settings: Settings
    ) -> None:
        self.service, self.settings = service, settings
        self.jobs = SessionJobs()
        self.facts = plain("model-facts")
        self.measured = plain("model-calibration")
        with gr.Accordion("Model card", open=False, elem_id="model-card"):
            self.card = gr.Markdown("")
        self._build_measuring()
        self._bind(page, own)

    def _build_measuring(self) -> None:
        with gr.Accordion(
            "Calibrate on my own photos", open=False, elem_id="model-own"
        ) as self.measuring:
            gr.HTML(_HELP, apply_default_css=False, js_on_load=None)
            with gr.Row(elem_classes="fv-controls"):
                self.file = gr.File(
                    label="Zip file with one folder a person", file_types=[".zip"],
                    elem_id="model-zip", height=130,
                )  # fmt: skip
                self.folder = gr.Dropdown(
                    [], label="Or a folder on the server", elem_id="model-folder", visible=False
                )
            self.too_large = limit_note("model-zip", self.settings, _LARGER)
            with gr.Row():
                self.start = gr.Button("Measure", variant="primary", elem_id="model-measure")
                self.stop = gr.Button(
                    "Stop", visible=False, scale=0, min_width=140, elem_id="model-stop"
                )
            self.progress = plain("model-progress")
            self.result = gr.State(None, time_to_live=3600)
            with gr.Row():
                self.use = gr.Button("Use this calibration", visible=False, elem_id="model-use")
                self.back = gr.Button(
                    "Go back to the model's own calibration", elem_id="model-back"
                )

    def _bind(self, page: gr.Blocks, own: gr.Tab) -> None:
        shown = [self.facts, self.measured, self.card, self.measuring, self.folder]
        page.load(self.show, None, shown, show_progress="hidden", **QUIET)
        own.select(self.show, None, shown, show_progress="hidden", **QUIET)
        self.start.click(
            self.measure, [self.file, self.folder],
            [self.progress, self.result, self.use, self.stop, self.start, self.file],
            show_progress="hidden", concurrency_limit=1, **QUIET,
        )  # fmt: skip
        self.stop.click(self.call_off, None, None, queue=False, **QUIET)
        self.too_large.refused(inputs=None, outputs=self.progress, **at_once(""))
        self.use.click(self.use_result, self.result, [self.progress, *shown], **QUIET)
        self.back.click(self.go_back, None, [self.progress, *shown], **QUIET)

    def show(self, request: gr.Request) -> dict[Any, Any]:
        """Show the model and calibration in use."""
        try:
            mine = acting(self.service, request)
            info = mine.model_info()
            admin = mine.allowed("admin")
            answer = {
                self.facts: model_cards.facts_card(info),
                self.card: model_cards.with_pictures(info.card, self.settings.bundle),
                self.measuring: gr.update(visible=admin),
                self.folder: _folders(self.settings, admin),
            }
        except Exception as error:
            return {self.facts: explain(error)}
        try:
            return answer | {self.measured: model_cards.calibration_card(mine.calibration())}
        except Exception as error:
            return answer | {self.measured: explain(error)}

    def measure(
        self, path: str | None, name: str | None, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        """Calibrate on the user's own photos, with progress."""
        idle = {
            self.stop: gr.update(visible=False),
            self.start: gr.update(interactive=True),
            self.file: None,
        }
        try:
            mine = acting(self.service, request)
            mine.principal.require("admin")
            source = _source(path, name, self.settings)
            with self.jobs.work(request.session_hash) as stopping:
                yield {
                    self.stop: gr.update(visible=True),
                    self.start: gr.update(interactive=False),
                    self.use: gr.update(visible=False),
                    self.progress: markup.progress_bar("Starting", 0, 0),
                }
                for step in steps(partial(mine.calibrate_on, source, cancel=stopping)):
                    if isinstance(step, tuple):
                        yield {self.progress: markup.progress_bar(*step)}
                    else:
                        found = step
        except Exception as error:
            yield {self.progress: live(explain(error)), **idle}
            return
        finally:
            private_folder.discard(path)
        yield {
            self.progress: live(model_cards.own_card(found)),
            self.result: found.calibration.to_json(),
            self.use: gr.update(visible=True),
            **idle,
        }

    def use_result(self, stored: str | None, request: gr.Request) -> dict[Any, Any]:
        """Activate the new calibration."""
        try:
            # Gradio deletes session state after a while and at every start.
            if stored is None:
                raise CalibrationError("This measurement is no longer kept. Measure again.")
            acting(self.service, request).activate(Calibration.from_dict(json.loads(stored)))
        except Exception as error:
            return {self.progress: live(explain(error))}
        said = live(markup.message("info", "In use from now on."))
        return {self.progress: said, **self.show(request)}

    def go_back(self, request: gr.Request) -> dict[Any, Any]:
        """Activate the model's own calibration again."""
        try:
            acting(self.service, request).activate(None)
        except Exception as error:
            return {self.progress: live(explain(error))}
        words = "The model's own calibration is in use again."
        return {self.progress: live(markup.message("info", words)), **self.show(request)}

    def call_off(self, request: gr.Request) -> None:
        """Handle Stop."""
        self.jobs.stop(request.session_hash)


def _source(path: str | None, name: str | None, settings: Settings) -> bytes | Path:
    if path:
        data = Path(path).read_bytes()
        private_folder.discard(path)
        return data
    if name and settings.own_photos is not None:
        return settings.own_photos / name
    raise CalibrationError("There is nothing to measure on yet. Give a zip file or a folder.")


def _folders(settings: Settings, allowed: bool) -> Any:
    place = settings.own_photos
    if not allowed or place is None or not place.is_dir():
        return gr.update(visible=False)
    names = sorted(each.name for each in place.iterdir() if each.is_dir())
    return gr.update(visible=True, choices=[(f"All of {place.name}", "."), *names])
