"""Export and import of the whole gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from app.service import FaceService
from app.ui import private_folder
from app.ui.cards import markup
from app.ui.cards.markup import live
from app.ui.downloads import Downloads
from app.ui.widgets.actions import plain
from app.ui.widgets.common import QUIET, acting, at_once, explain
from app.ui.widgets.upload_limits import limit_note
from model import wording

_LARGER = "For a larger export use python -m index import on the server."

_NOTE = Markup(
    '<p class="fv-lead">An export holds names, consent notes, face vectors and thumbnails. Keep it '
    "as safe as the gallery itself.</p>"
)

EXISTING = [
    ("Leave them as they are", "skip"),
    ("Stop, and import nobody", "error"),
]


class Transfer:
    """The admin section of the Gallery tab that exports and imports a gallery."""

    def __init__(self, service: FaceService, downloads: Downloads) -> None:
        self.service, self.downloads = service, downloads
        with gr.Accordion("Export and import", open=False, elem_id="gallery-transfer") as self.part:
            gr.HTML(_NOTE, apply_default_css=False, js_on_load=None)
            self.export = gr.Button("Export the whole gallery", elem_id="gallery-export")
            self.existing = gr.Radio(
                EXISTING, value="skip", label="People of the import who are here already",
                elem_id="gallery-existing",
            )  # fmt: skip
            self.file = gr.File(
                label="Exported gallery to import", elem_id="gallery-file", height=130
            )
            self.too_large = limit_note("gallery-file", service.settings, _LARGER)
            self.offered = plain("gallery-offer")
        self.export.click(self.do_export, None, self.offered, **QUIET)
        self.imported = self.file.upload(
            self.do_import, [self.file, self.existing], [self.offered, self.file],
            show_progress_on=self.offered, **QUIET,
        )  # fmt: skip
        self.too_large.refused(inputs=None, outputs=self.offered, **at_once(""))

    def do_export(self, request: gr.Request) -> str:
        """Offer the gallery as a one-time download."""
        try:
            write = acting(self.service, request).export
            address, size, number = self.downloads.offer("gallery.faces", write, request.username)
        except Exception as error:
            return live(explain(error))
        return live(
            Markup(
                '<p><a class="fv-button" href="{}" download="gallery.faces">Download {} ({})</a> '
                "Good for one download within ten minutes.</p>"
            ).format(address, wording.plural(number, "person", "people"), wording.size(size))
        )

    def do_import(
        self, path: str | None, existing: str, request: gr.Request
    ) -> dict[Any, Any]:  # fmt: skip
        """Import an exported gallery; the uploaded file is always deleted."""
        try:
            mine = acting(self.service, request)
            said = Markup("")
            if path is not None:
                number = mine.import_(Path(path), existing=existing)
                people = wording.plural(number, "person", "people")
                said = markup.message("info", f"Added {people}.")
        except Exception as error:
            said = explain(error)
        finally:
            private_folder.discard(path)
        return {self.offered: live(said), self.file: None}
