"""Links between the documents lead somewhere, and figures of the shipped model are its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from model.bundle import Bundle
from tests.paths import ROOT

ROOMS = ("app", "index", "model", "training", "tests")
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")


def documents_with_links() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(file for room in ROOMS for file in (ROOT / room).rglob("*.md"))]
    return sorted(file for file in found if LINK.search(file.read_text(encoding="utf-8")))


def anchors(document: Path) -> set[str]:
    """What the headings are linked by: small letters without signs, hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "document", documents_with_links(), ids=lambda file: str(file.relative_to(ROOT))
)
def test_links_lead_somewhere(document: Path) -> None:
    for path, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        target = document.parent / path if path else document
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_the_guide_to_training_has_the_likelihood_ratios_of_the_model_that_ships() -> None:
    text = (ROOT / "training" / "README.md").read_text(encoding="utf-8")
    said = re.search(r"([\d,]+) times likelier at best, ([\d,]+) times less likely", text)
    assert said is not None
    most, least = (float(figure.replace(",", "")) for figure in said.groups())
    log10 = Bundle.load().calibration.parts.likelihood.log10
    assert most == pytest.approx(10 ** max(log10), rel=0.02)
    assert least == pytest.approx(10 ** -min(log10), rel=0.02)
