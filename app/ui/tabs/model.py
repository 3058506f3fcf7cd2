"""Model: what is in use, what it was measured on, and calibrating on one's own photos."""

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
from app.ui.widgets.background import SessionJobs, steps
from app.ui.widgets.common import QUIET, acting, at_once, explain, live
from app.ui.widgets.upload_limits import limit_note
from model.calibration import Calibration
from model.errors import CalibrationError

_HELP = """
<p class="fv-lead">Error rates hold for photos like those they were measured on. Measure them on
your own: one folder a person, at least two photos of most, taken as yours will be. The photos are
read once and not kept. Nothing changes until you use the result.</p>
"""

_LARGER = "More photos than that: put them on the server, where the setting own_photos points."


def tab(page: gr.Blocks, own: gr.Tab, service: FaceService, settings: Settings) -> None:
    """Build the tab; ``own`` is this tab, whose opening refreshes it."""
    stops = SessionJobs()
    facts = gr.HTML("", apply_default_css=False, elem_id="model-facts", js_on_load=None)
    measured = gr.HTML("", apply_default_css=False, elem_id="model-calibration", js_on_load=None)
    with gr.Accordion("Model card", open=False, elem_id="model-card"):
        card = gr.Markdown("")
    with gr.Accordion("Calibrate on my own photos", open=False, elem_id="model-own") as measuring:
        gr.HTML(_HELP, apply_default_css=False, js_on_load=None)
        with gr.Row(elem_classes="fv-controls"):
            file = gr.File(
                label="Zip file with one folder a person", file_types=[".zip"],
                elem_id="model-zip", height=130,
            )  # fmt: skip
            folder = gr.Dropdown(
                [], label="Or a folder on the server", elem_id="model-folder",
                visible=False,
            )  # fmt: skip
        too_large = limit_note("model-zip", settings, _LARGER)
        with gr.Row():
            start = gr.Button("Measure", variant="primary", elem_id="model-measure")
            stop = gr.Button("Stop", visible=False, scale=0, min_width=140, elem_id="model-stop")
        progress = gr.HTML("", apply_default_css=False, elem_id="model-progress", js_on_load=None)
        result = gr.State(None, time_to_live=3600)
        with gr.Row():
            use = gr.Button("Use this calibration", visible=False, elem_id="model-use")
            back = gr.Button("Go back to the model's own calibration", elem_id="model-back")

    def show(request: gr.Request) -> dict[Any, Any]:
        try:
            mine = acting(service, request)
            info = mine.model_info()
            admin = mine.allowed("admin")
            answer = {
                facts: model_cards.facts_card(info),
                card: model_cards.with_pictures(info.card, settings.bundle),
                measuring: gr.update(visible=admin),
                folder: _folders(settings, admin),
            }
        except Exception as error:
            return {facts: explain(error)}
        try:
            return answer | {measured: model_cards.calibration_card(mine.calibration())}
        except Exception as error:
            return answer | {measured: explain(error)}

    def measure(path: str | None, name: str | None, request: gr.Request) -> Iterator[dict]:
        idle = {stop: gr.update(visible=False), start: gr.update(interactive=True), file: None}
        try:
            mine = acting(service, request)
            mine.principal.require("admin")
            source = _source(path, name, settings)
            with stops.work(request.session_hash) as stopping:
                yield {
                    stop: gr.update(visible=True),
                    start: gr.update(interactive=False),
                    use: gr.update(visible=False),
                    progress: model_cards.progress_bar("Starting", 0, 0),
                }
                for step in steps(partial(mine.calibrate_on, source, cancel=stopping)):
                    if isinstance(step, tuple):
                        yield {progress: model_cards.progress_bar(*step)}
                    else:
                        found = step
        except Exception as error:
            yield {progress: live(explain(error)), **idle}
            return
        finally:
            private_folder.discard(path)
        yield {
            progress: live(model_cards.own_card(found)), result: found.calibration.to_json(),
            use: gr.update(visible=True), **idle,
        }  # fmt: skip

    def use_result(stored: str | None, request: gr.Request) -> dict[Any, Any]:
        try:
            # Gradio drops it after a while, and with every start.
            if stored is None:
                raise CalibrationError("This measurement is no longer kept. Measure again.")
            acting(service, request).activate(Calibration.from_dict(json.loads(stored)))
        except Exception as error:
            return {progress: live(explain(error))}
        return {progress: live(markup.message("info", "In use from now on.")), **show(request)}

    def go_back(request: gr.Request) -> dict[Any, Any]:
        try:
            acting(service, request).activate(None)
        except Exception as error:
            return {progress: live(explain(error))}
        words = "The model's own calibration is in use again."
        return {progress: live(markup.message("info", words)), **show(request)}

    def call_off(request: gr.Request) -> None:
        stops.stop(request.session_hash)

    shown = [facts, measured, card, measuring, folder]
    page.load(show, None, shown, show_progress="hidden", **QUIET)
    own.select(show, None, shown, show_progress="hidden", **QUIET)
    start.click(
        measure, [file, folder], [progress, result, use, stop, start, file],
        show_progress="hidden", concurrency_limit=1, **QUIET,
    )  # fmt: skip
    stop.click(call_off, None, None, queue=False, **QUIET)
    too_large.refused(inputs=None, outputs=progress, **at_once(""))
    use.click(use_result, result, [progress, *shown], **QUIET)
    back.click(go_back, None, [progress, *shown], **QUIET)


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
