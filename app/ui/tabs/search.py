"""Search: who is in this photo, among the people enrolled, or unknown."""

from __future__ import annotations

from collections.abc import Iterator

import gradio as gr

from app import samples, text
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import markup
from app.ui.cards import people as people_cards
from app.ui.widgets.common import acting, at_once, at_work, explain, live, placeholder, sample_strip
from app.ui.widgets.photo_picker import photo_picker, picker_value, read_uploads

_WAITING = "Give a photo and press Search. Every face in it is looked for."
_TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)


def tab(service: FaceService, settings: Settings) -> None:
    """Build the tab."""
    strip = sample_strip(samples.singles(), "No photo at hand? Try:")
    photo = photo_picker("Photo to search for", settings, elem_id="search-photo")
    with gr.Row(elem_classes="fv-controls"):
        target = gr.Dropdown(
            [
                (f"At most {text.one_in(rate)} strangers", rate)
                for rate in sorted({*_TARGETS, settings.target_fpir}, reverse=True)
            ],
            value=settings.target_fpir,
            label="How many strangers may be taken for someone enrolled?",
            elem_id="search-target",
            filterable=False,
            scale=2,
        )
        button = gr.Button("Search", variant="primary", elem_id="search-run", scale=1)
    result = gr.HTML(
        live(placeholder(_WAITING)), apply_default_css=False, elem_id="search-result",
        min_height=160, js_on_load=None,
    )  # fmt: skip

    def run(value: str, rate: float, request: gr.Request) -> str:
        try:
            uploads = read_uploads(value, settings)
            if not uploads:
                return live(placeholder(_WAITING))
            found = acting(service, request).search(uploads[0].data, target_fpir=rate)
            return live(people_cards.search_card(found))
        except Exception as error:
            return live(explain(error))

    def run_pressed(value: str, rate: float, request: gr.Request) -> str:
        if not value:
            missing = "The photo is missing. Give one, then press Search."
            return live(markup.message("warning", missing))
        return run(value, rate, request)

    def run_sample(rate: float, event: gr.EventData, request: gr.Request) -> Iterator[dict]:
        """Show the photo at once and the answer when it is there, both from one call."""
        value = picker_value(samples.singles()[int(event.place)].photos)
        yield {photo: value}
        yield {result: run(value, rate, request)}

    shown = {"show_progress_on": result, **at_work(settings)}
    answers = [
        button.click(run_pressed, [photo, target], result, **shown),
        target.input(run, [photo, target], result, **shown),
        strip.click(run_sample, target, [photo, result], **shown),
    ]
    photo.picked(
        inputs=None, outputs=result, cancels=answers, **at_once(live(placeholder(_WAITING)))
    )
