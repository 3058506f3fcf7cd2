"""Results as HTML cards. Every word that came from outside is escaped here and nowhere else."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from PIL import Image

from app import text
from app.results import DetectedFace, Photo, Verification
from app.ui import plots
from model.types import Quality, Verdict

ICONS: dict[str, str] = {
    "same": "M5 12.5l4.5 4.5L19 7.5",
    "different": "M6.5 6.5l11 11M17.5 6.5l-11 11",
    "inconclusive": "M9 9.2a3 3 0 1 1 4.4 2.6c-1 .6-1.4 1.1-1.4 2.2M12 17.6v.1",
    "warning": "M12 7.5v5.5M12 16.6v.1",
    "info": "M12 11v5.5M12 7.4v.1",
}


def icon(name: str) -> str:
    """A round badge with a sign in it; decoration beside words that say the same."""
    return (
        f'<svg class="fv-icon fv-{name}" viewBox="0 0 24 24" aria-hidden="true">'
        f'<circle cx="12" cy="12" r="11"/><path d="{ICONS[name]}"/></svg>'
    )


def picture(image: np.ndarray, *, longest: int, quality: int = 82) -> str:
    """A picture, uint8 ``(H, W, 3)``, as a ``data:`` address: it is in no file and at no URL."""
    small = Image.fromarray(image)
    small.thumbnail((longest, longest))
    return encoded(small, quality)


def encoded(image: Image.Image, quality: int = 82) -> str:
    """A picture of its own size as a ``data:`` address."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return data_address(buffer.getvalue())


def data_address(encoded: bytes, kind: str = "jpeg") -> str:
    """An encoded picture as a ``data:`` address."""
    return f"data:image/{kind};base64," + base64.b64encode(encoded).decode()


def message(kind: str, title: str, body: str = "") -> str:
    """A notice: ``info`` or ``warning``. Title and body are plain text."""
    role = "alert" if kind == "warning" else "status"
    words = f"<p>{escape(body)}</p>" if body else ""
    return (
        f'<div class="fv-card fv-notice fv-{kind}" role="{role}">{icon(kind)}'
        f"<div><p><strong>{escape(title)}</strong></p>{words}</div></div>"
    )


def verdict_card(result: Verification, curves: plots.Curves | None) -> str:
    """The answer to one verification."""
    verdict = result.verdict
    assert verdict is not None
    decision = verdict.decision
    face_a = result.photo_a.faces[result.face_a - 1]
    face_b = result.photo_b.faces[result.face_b - 1]
    drawing = ""
    if curves is not None:
        drawing = plots.LEGEND + plots.distributions(
            curves,
            score=verdict.score,
            threshold=verdict.threshold,
            reject_below=verdict.reject_below,
        )
    return (
        f'<section class="fv-card fv-verdict fv-{decision}" aria-label="Verdict">'
        f"<header>{icon(decision)}<div><h2>{text.HEADLINES[decision]}</h2>"
        f"<p>{escape(verdict.reasons[0])}</p></div></header>"
        f'<div class="fv-columns"><div class="fv-evidence">{drawing}</div>'
        f"<div>{_facts(verdict)}</div></div>"
        f"{_sentences(verdict)}"
        f'<div class="fv-pair">{_compared("First photo", face_a)}'
        f"{_compared('Second photo', face_b)}</div>"
        f"<footer>Took {result.seconds:.1f} s · model {escape(verdict.model_id[:12])} · "
        f"calibration {escape(verdict.calibration_id[:12])}</footer></section>"
    )


def choice_card(result: Verification) -> str:
    """Several faces: both photos with numbered boxes, and every pair's verdict."""
    rows = [
        (
            str(pair.face_a),
            str(pair.face_b),
            f'<span class="fv-chip fv-{pair.verdict.decision}">{icon(pair.verdict.decision)}'
            f"{text.HEADLINES[pair.verdict.decision]}</span>",
            f"{pair.verdict.score:.2f}",
            _short(pair.verdict),
        )
        for pair in result.pairs
    ]
    headings = ("First photo", "Second photo", "Verdict", "Score", "Strangers this alike")
    return (
        '<section class="fv-card" aria-label="Choose the faces">'
        f"<header>{icon('info')}<div><h2>Which faces do you mean?</h2>"
        "<p>There are several faces, so nobody was picked. Choose by number above; every pair is "
        "listed here.</p></div></header>"
        f'<div class="fv-pair">{boxed("First photo", result.photo_a)}'
        f"{boxed('Second photo', result.photo_b)}</div>"
        f"{raw_table(headings, rows, 'Every pair of faces')}</section>"
    )


def boxed(caption: str, photo: Photo, longest: int = 640) -> str:
    """A photo with its faces in numbered boxes."""
    height, width = photo.image.shape[:2]
    size = max(width, height)
    boxes = []
    for face in photo.faces:
        left, top, right, bottom = face.face.box
        tag = size * 0.055
        label_top = top if top - tag < 0 else top - tag
        boxes.append(
            f'<rect class="fv-box" x="{left:.0f}" y="{top:.0f}" width="{right - left:.0f}" '
            f'height="{bottom - top:.0f}" stroke-width="{size / 160:.1f}"/>'
            f'<rect class="fv-box-tag" x="{left:.0f}" y="{label_top:.0f}" '
            f'width="{tag * (0.5 + 0.5 * len(str(face.number))):.0f}" height="{tag:.0f}"/>'
            f'<text class="fv-box-number" x="{left + tag * 0.22:.0f}" '
            f'y="{label_top + tag * 0.8:.0f}" font-size="{tag * 0.85:.0f}">{face.number}</text>'
        )
    found = text.plural(len(photo.faces), "face")
    return (
        f'<figure class="fv-photo"><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(caption)}: {found}, numbered from the largest">'
        f'<image href="{picture(photo.image, longest=longest)}" width="{width}" '
        f'height="{height}" preserveAspectRatio="none"/>{"".join(boxes)}</svg>'
        f"<figcaption>{escape(caption)}: {found}</figcaption></figure>"
    )


def crop(face: DetectedFace, label: str) -> str:
    """The aligned face, as the network sees it."""
    return (
        f'<img class="fv-crop" src="{picture(face.crop, longest=112, quality=90)}" '
        f'width="112" height="112" alt="{escape(label)}">'
    )


def quality_list(quality: Quality) -> str:
    """What is wrong with a face and what to do about it, or that nothing is."""
    if not quality.reasons:
        return '<p class="fv-good">Good photo: nothing to complain about.</p>'
    items = []
    for reason in quality.reasons:
        problem, stop, remedy = reason.message.partition(". ")
        items.append(f"<li><strong>{escape(problem + stop)}</strong>{escape(remedy)}</li>")
    return f'<ul class="fv-reasons">{"".join(items)}</ul>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A table of plain text cells, scrollable on a phone."""
    return raw_table(headings, [[escape(cell) for cell in row] for row in rows], label)


def raw_table(headings: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A table of ready markup; on a phone each row becomes a small list with its headings."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{escape(heading)}">{cell}</td>'
            for heading, cell in zip(headings, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="fv-scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f'<table class="fv-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _facts(verdict: Verdict) -> str:
    facts = [
        ("Strangers", text.strangers(verdict.fmr)),
        ("One person", text.one_person(verdict.fnmr)),
    ]
    if verdict.likelihood_ratio is not None:
        facts.append(("Weight of evidence", text.likelihood(verdict.likelihood_ratio)))
    if verdict.posterior is not None and verdict.prior is not None:
        facts.append(
            (
                "Probability",
                f"{text.percent(verdict.posterior)} that it is one person, if you thought "
                f"{text.one_in(verdict.prior)} before.",
            )
        )
    rows = "".join(f"<dt>{name}</dt><dd>{escape(words)}</dd>" for name, words in facts)
    return f'<dl class="fv-facts">{rows}</dl>'


def _sentences(verdict: Verdict) -> str:
    """The remaining reasons, without those that repeat the counts shown above."""
    counts = tuple(
        f"{text.count(rate.errors)} of {text.count(rate.trials)} "
        for rate in (verdict.fmr, verdict.fnmr)
    )
    lines = [line for line in verdict.reasons[1:] if not line.startswith(counts)]
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<div class="fv-why"><h3>Good to know</h3><ul>{items}</ul></div>'


def _compared(caption: str, face: DetectedFace) -> str:
    return (
        f'<div class="fv-compared">{crop(face, caption + ": the face that was compared")}'
        f"<div><h3>{caption}</h3>{quality_list(face.quality)}</div></div>"
    )


def _short(verdict: Verdict) -> str:
    if verdict.fmr.errors == 0:
        return f"none of {text.count(verdict.fmr.trials)}"
    return text.one_in(verdict.fmr.value)
