"""A verification as an HTML card."""

from __future__ import annotations

from html import escape

from app import text
from app.ui.cards import plots
from app.ui.cards.faces import boxed, crop, quality_list
from app.ui.cards.markup import icon, raw_table
from app.usecases.results import DetectedFace, Verification
from model.types import Verdict


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
