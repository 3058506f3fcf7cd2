"""Cards: well-formed, in words, and deaf to whatever names and notes contain."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.ui.cards import enrollment as enrollment_cards
from app.ui.cards import evidence, plots
from app.ui.cards import faces as face_cards
from app.ui.cards import markup as card_markup
from app.ui.cards import model as model_cards
from app.ui.cards import people as people_cards
from app.ui.cards import search as search_cards
from app.ui.cards import verdict as verdict_cards
from app.ui.cards.enrollment import Decision, Outcome
from app.ui.cards.faces import Name
from app.ui.theme import STATIC
from app.usecases.results import (
    Candidate,
    ChoiceNeeded,
    Compared,
    DetectedFace,
    FaceSearch,
    Ignored,
    PairVerdict,
    Photo,
    PhotoResult,
    Search,
)
from app.usecases.review import Likeness, OddPhoto
from app.usecases.verify import Evidence
from app.web.schemas import serializers
from index.types import Erased, Person, StoredPhoto
from model.calibration import Calibration
from model.faces.picture import Picture
from model.types import Decision as Answer
from model.types import Face, Match, Quality, Rate, Reason, Verdict

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&${alert(3)}"
LANDMARKS = np.zeros((5, 2), np.float32)
STYLE = (STATIC / "style.css").read_text(encoding="utf-8")


class _Tags(HTMLParser):
    """Collects every tag and attribute, and whether tags are closed in order."""

    VOID = ("img", "br", "input", "meta")

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(str(markup))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def harmless(markup: str) -> _Tags:
    """Parse, and check that no script, handler or foreign address came in."""
    tags = _Tags(markup)
    assert not tags.open, f"unclosed: {tags.open}"
    for tag, attributes in tags.found:
        assert tag != "script"
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith(
                ("data:image/jpeg;base64,", "#found-")
            ) or (name not in attributes)
    return tags


def detected(number: int = 1, *reasons: Reason) -> DetectedFace:
    box = (10.0 * number, 12.0, 10.0 * number + 40, 60.0)
    face = Face(box, np.zeros((5, 2), np.float32), 0.99)
    crop = np.full((112, 112, 3), 90, np.uint8)
    return DetectedFace(number, face, crop, Quality(0.5 if reasons else 1.0, reasons))


def photo(faces: int = 1, *reasons: Reason) -> Photo:
    image = np.full((120, 160, 3), 120, np.uint8)
    return Photo(Picture(image), tuple(detected(number + 1, *reasons) for number in range(faces)))


def verdict(decision: Answer = "same", score: float = 0.7, **changes: object) -> Verdict:
    values = {
        "decision": decision, "score": score, "threshold": 0.4, "reject_below": 0.2,
        "target_fmr": 1e-4, "fmr": Rate(3 / 120_000, 1e-5, 6e-5, 3, 120_000),
        "fnmr": Rate(0.2, 0.1, 0.3, 40, 200), "likelihood_ratio": 5000.0, "posterior": None,
        "prior": None, "d_genuine": -1.0, "d_impostor": 3.0, "supported": True,
        "calibration_id": "c" * 12, "model_id": "m" * 64, "reasons": ("Headline.",),
    }  # fmt: skip
    return Verdict(**{**values, **changes})


def verification(found: Verdict, faces: int = 1, *reasons: Reason) -> Compared:
    first, second = photo(faces, *reasons), photo()
    return Compared(found, first.faces[0], second.faces[0], first, second, False, 0.4)


def choice(faces: int) -> ChoiceNeeded:
    pairs = tuple(
        PairVerdict(a, 1, verdict("same" if a == 1 else "different", 0.9 / a))
        for a in range(1, faces + 1)
    )
    return ChoiceNeeded(pairs, photo(faces), photo(), 0.4)


def curves() -> plots.Curves:
    scores = np.linspace(-1, 1, 201)
    return plots.Curves(
        scores,
        np.exp(-(((scores - 0.6) / 0.1) ** 2)),
        np.exp(-(((scores - 0.05) / 0.1) ** 2)),
        0.6,
        0.05,
        4.2,
    )


@pytest.mark.parametrize(
    ("decision", "words"),
    [("same", "Same person"), ("different", "Different people"), ("inconclusive", "Inconclusive")],
)
def test_the_verdict_is_said_in_words_and_with_a_sign(decision: Answer, words: str) -> None:
    markup = verdict_cards.verdict_card(verification(verdict(decision)), curves())
    tags = harmless(markup)
    assert words in tags.text
    assert card_markup.ICONS[decision] in markup
    assert "threshold 0.40" in tags.text
    assert "d′ = 4.20" in tags.text


def test_weak_evidence_looks_weak() -> None:
    weak = verdict_cards.verdict_card(verification(verdict(likelihood_ratio=3.0)), curves())
    strong = verdict_cards.verdict_card(verification(verdict()), curves())
    assert 'class="fv-card fv-verdict fv-same fv-weak"' in weak
    assert 'class="fv-card fv-verdict fv-same fv-strong"' in strong


def test_figures_are_folded_away() -> None:
    markup = verdict_cards.verdict_card(verification(verdict(reasons=("One.", "Two."))), curves())
    before = markup[: markup.index('data-part="details"')]
    for hidden in ("0.700", "0.400", '<svg class="fv-plot', "One.", "m" * 12, "c" * 12):
        assert hidden in markup
        assert hidden not in before


def test_what_to_do_follows_an_inconclusive_verdict_only() -> None:
    reason = Reason("too_dark", "The photo is dark. Add light from the front.", 20, 30)
    for decision, told in (("inconclusive", True), ("same", False), ("different", False)):
        tags = harmless(
            verdict_cards.verdict_card(verification(verdict(decision), 1, reason), curves())
        )
        assert ("What to do next" in tags.text) is told
        assert tags.text.count("Add light from the front") == 1 + told
    plain = verdict_cards.verdict_card(verification(verdict("inconclusive")), None)
    assert verdict_cards.OTHER_PHOTOS[0] in plain


def test_the_marker_is_in_no_green_band_unless_the_answer_is_same() -> None:
    poor = verdict("inconclusive", score=0.9, likelihood_ratio=None)
    assert "fv-zone fv-same" not in verdict_cards.verdict_card(verification(poor), curves())
    assert "fv-zone fv-same" in verdict_cards.verdict_card(verification(verdict()), curves())


def test_the_same_photo_twice_is_said_first() -> None:
    twice = dataclasses.replace(verification(verdict()), same_file=True)
    text = harmless(verdict_cards.verdict_card(twice, None)).text.strip()
    assert text.startswith("The same photo twice")


@pytest.mark.parametrize(
    "box", [(-40.0, -30.0, 60.0, 50.0), (120.0, 90.0, 260.0, 190.0), (10.0, 0.0, 50.0, 40.0)]
)
def test_boxes_and_their_labels_stay_within_the_picture(
    box: tuple[float, float, float, float],
) -> None:
    face = dataclasses.replace(detected(), face=Face(box, LANDMARKS, 0.99))
    shown = Photo(Picture(np.full((120, 160, 3), 120, np.uint8)), (face,))
    name = Name(EVIL, (f"1 {EVIL}", "1"))
    tags = harmless(face_cards.boxed("Photo", shown, names={1: name}))
    rects = [attributes for tag, attributes in tags.found if tag == "rect"]
    assert len(rects) == 3, "the box, and its label for a large and for a small screen"
    for rect in rects:
        left, top = float(rect["x"]), float(rect["y"])
        assert 0 <= left <= left + float(rect["width"]) <= 160.1
        assert 0 <= top <= top + float(rect["height"]) <= 120.1


def test_the_whole_name_is_told_where_the_label_is_short() -> None:
    face = dataclasses.replace(detected(), face=Face((0, 0, 160, 120), LANDMARKS, 0.99))
    shown = Photo(Picture(np.full((120, 160, 3), 120, np.uint8)), (face,))
    long = "1 " + "Maximiliane " * 10
    name = Name(long, (long, "1"))
    drawn = face_cards.boxed("Photo", shown, names={1: name})
    texts = ElementTree.fromstring(drawn).findall(".//text")
    assert [each.text for each in texts] == ["1", "1"]
    assert f"1 face: {long}" in harmless(drawn).found[1][1]["aria-label"]


def test_numbers_of_two_photos_side_by_side_are_as_large_as_names_in_one() -> None:
    shown = Photo(Picture(np.full((600, 1200, 3), 120, np.uint8)), (detected(),))

    def letters(wide: int, **names: Any) -> float:
        text = ElementTree.fromstring(face_cards.boxed("Photo", shown, **names)).find(".//text")
        assert text is not None
        return float(text.attrib["font-size"]) * wide / 1200

    alone = letters(1060, names={1: Name("1 Ann", ("1 Ann", "1"))})
    assert letters(face_cards.BESIDE_ANOTHER) == pytest.approx(alone, rel=0.05)


def test_a_doubtful_face_is_drawn_as_such_and_named() -> None:
    sure, doubtful = detected(1), detected(2)
    unsure = dataclasses.replace(doubtful, face=dataclasses.replace(doubtful.face, certain=False))
    shown = Photo(Picture(np.full((120, 160, 3), 120, np.uint8)), (sure, unsure))
    assert "fv-found fv-doubt" in face_cards.boxed("Photo", shown)
    result = verification(verdict())
    assert "possibly also a face" not in verdict_cards.verdict_card(result, None)
    beside = dataclasses.replace(result.face_a, ignored=Ignored(possible_faces=1))
    named = verdict_cards.verdict_card(dataclasses.replace(result, face_a=beside), None)
    assert beside.ignored.message in named


def test_where_errors_are_not_known_nothing_is_said_about_evidence() -> None:
    unknown = verdict("inconclusive", likelihood_ratio=None, prior=0.5, posterior=None)
    answer = serializers.verified(verification(unknown), "model")
    assert answer.likelihood_ratio is answer.posterior is None


def test_with_several_faces_every_pair_is_listed_and_every_face_numbered() -> None:
    tags = harmless(verdict_cards.choice_card(choice(3)))
    rows = [attributes for tag, attributes in tags.found if tag == "tr"]
    assert len(rows) == 1 + 3
    boxes = [attributes for tag, attributes in tags.found if attributes.get("class") == "fv-box"]
    assert len(boxes) == 3 + 1
    assert "Which faces do you mean?" in tags.text


@settings(deadline=None, max_examples=60)
@given(
    st.floats(-1, 1), st.floats(-0.5, 0.9), st.floats(0, 0.5), st.booleans(),
)  # fmt: skip
def test_the_plot_is_well_formed_and_keeps_its_marks_inside(
    score: float, threshold: float, gap: float, marked: bool
) -> None:
    markup = plots.distributions(
        curves(),
        score=score if marked else None,
        threshold=threshold,
        reject_below=threshold - gap,
    )
    tree = ElementTree.fromstring(markup)
    for element in tree.iter():
        for name in ("x1", "x2", "x", "cx"):
            if name in element.attrib:
                assert -1 <= float(element.attrib[name]) <= plots.WIDTH + 1
        assert float(element.attrib.get("width", 0)) >= 0


def test_marks_lie_in_the_order_of_their_scores() -> None:
    tree = ElementTree.fromstring(plots.distributions(curves(), score=0.5, threshold=0.3))
    at = {
        line.attrib["class"]: float(line.attrib["x1"])
        for line in tree.iter()
        if "fv-mark " in line.attrib.get("class", "") and "x1" in line.attrib
    }
    assert at["fv-mark fv-threshold"] < at["fv-mark fv-score"]


def stored(identity: str = "1") -> StoredPhoto:
    return StoredPhoto(identity, EVIL, "hash", 0.9, EVIL, 0.0, EVIL)


def test_names_notes_and_file_names_stay_text() -> None:
    person = Person("id", EVIL, {}, EVIL, 1, 1.7e9, 1.7e9)
    match = Match("id", EVIL, 0.8, "1", 0.3)
    rate = Rate(1e-5, 1e-6, 1e-4, 1, 100_000)
    search = Search(
        photo(2),
        (FaceSearch(detected(), (Candidate(match, rate, True),)), FaceSearch(detected(2), ())),
        1, 0.4, 0.01, False, 0.1,
    )  # fmt: skip
    crop = np.full((112, 112, 3), 90, np.uint8)
    result = PhotoResult(EVIL, "conflict", EVIL, crop=crop)
    decision = Decision("hash", result, other=EVIL, other_id=EVIL, likeness=EVIL, sure=True)
    likeness = Likeness(person, person, verdict())
    for markup in (
        people_cards.person_card(person, [(stored(), None)], {}, people_cards.Rights(True, True)),
        people_cards.people_grid([person], {}, 1, "", False),
        people_cards.people_grid([], {}, 0, EVIL, False),
        people_cards.likeness_card(likeness, (None, None), ask=True),
        people_cards.review_card([], [(OddPhoto(person, "1", 0.1), None)], may_remove=True),
        enrollment_cards.enrollment_card(Outcome(EVIL, [result], 1)),
        enrollment_cards.enrollment_card(Outcome(EVIL, [result], 2)),
        enrollment_cards.enrollment_card(Outcome(EVIL, [result], 1, [decision])),
        search_cards.search_card(search),
        search_cards.who_is_where([(EVIL, search), (EVIL, EVIL)]),
        people_cards.erased_card(EVIL, Erased("id", 1, 2, 2, True)),
        card_markup.message("warning", EVIL, EVIL),
        face_cards.boxed(EVIL, photo()),
        card_markup.table((EVIL,), [(EVIL,)], EVIL),
        verdict_cards.verdict_card(
            verification(verdict(reasons=(EVIL, EVIL), model_id=EVIL)), None
        ),
    ):
        assert EVIL in harmless(markup).text or EVIL in str(harmless(markup).found)


def test_unknown_is_said_when_nobody_is_like_enough() -> None:
    nobody = FaceSearch(detected(), ())
    tags = harmless(search_cards.search_card(Search(photo(), (nobody,), 3, 0.4, 0.01, True, 0.1)))
    assert "Unknown" in tags.text
    assert "1 face found, 0 known" in tags.text
    assert "Searched among 3 people" in tags.text


def test_people_below_the_threshold_are_folded_away() -> None:
    rate = Rate(0.9, 0.8, 0.95, 90, 100)
    candidates = [Candidate(Match(name, name, 0.1, "1", None), rate, False) for name in ("A", "B")]
    found = FaceSearch(detected(), tuple(candidates))
    markup = search_cards.search_card(Search(photo(), (found,), 2, 0.4, 0.01, True, 0.1))
    folded = markup[markup.index("<details>") : markup.index("</details>")]
    assert "all below the threshold" in folded
    assert markup.count("<table") == folded.count("<table") == 1
    assert "at most 1 in 100 strangers pass for one of them" in harmless(markup).text


def test_names_stand_on_the_boxes_and_numbers_run_from_left_to_right() -> None:
    rate = Rate(1e-5, 1e-6, 1e-4, 1, 100_000)
    boxes = {1: (90.0, 10.0, 130.0, 60.0), 2: (5.0, 10.0, 45.0, 60.0)}
    faces = [
        dataclasses.replace(detected(number), face=Face(box, np.zeros((5, 2), np.float32), 0.99))
        for number, box in boxes.items()
    ]
    known = Candidate(Match("id", "Ada", 0.8, "1", 0.3), rate, True)
    found = Search(
        Photo(Picture(np.full((120, 160, 3), 120, np.uint8)), tuple(faces)),
        (FaceSearch(faces[0], (known,)), FaceSearch(faces[1], ())), 1, 0.4, 0.01, True, 0.1,
    )  # fmt: skip
    placed = search_cards.left_to_right(found)
    assert [(each.place, each.found.face.number) for each in placed] == [(1, 2), (2, 1)]
    markup = search_cards.search_card(found)
    assert ">2 Ada</text>" in markup
    assert ">1 ?</text>" in markup
    for act in ("open", "add", "enroll"):
        assert f'data-act="{act}"' in markup
        assert f'data-act="{act}"' not in search_cards.search_card(found, actions=False)


def test_every_refused_photo_has_a_decision_of_its_own() -> None:
    crop = np.full((112, 112, 3), 90, np.uint8)
    poor = PhotoResult("a.jpg", "poor_quality", "Too dark.", crop=crop)
    clash = PhotoResult("b.jpg", "conflict", "Looks like Tony.", crop=crop)
    asked = [Decision("p", poor), Decision("c", clash, other="Tony", other_id="t")]
    markup = enrollment_cards.enrollment_card(Outcome("Gerd", [poor, clash], 2, asked))
    parts = markup.split("<article")[1:]
    assert len(parts) == 2
    assert 'data-act="insist"' in parts[0]
    # A conflict is asked about twice: the first time there is no way to insist.
    assert 'data-act="insist"' not in parts[1]
    assert 'data-act="doubt"' in parts[1]
    assert 'data-act="give"' in parts[1]
    again = [Decision("c", clash, other="Tony", other_id="t", sure=True)]
    assert 'data-act="insist"' in enrollment_cards.enrollment_card(
        Outcome("Gerd", [clash], 1, again)
    )
    done = enrollment_cards.enrollment_card(Outcome("Gerd", [], 0, person_id="g"))
    assert 'data-act="another"' in done
    assert 'data-act="more"' in done


def test_a_card_carries_its_pictures_itself(tmp_path: Path) -> None:
    (tmp_path / "curve.png").write_bytes(b"pixels")
    card = "![Scores](curve.png) ![Gone](gone.png) ![Out](../secret.png)"
    assert model_cards.with_pictures(card, tmp_path) == (
        "![Scores](data:image/png;base64,cGl4ZWxz) Gone ![Out](../secret.png)"
    )


def test_who_has_a_name_is_told_apart_by_number() -> None:
    people = [Person(str(number), EVIL, {}, "", number, 1.7e9, 1.7e9) for number in (1, 2)]
    words = harmless(people_cards.namesakes_card(EVIL, people, [None, b"jpeg"])).text
    assert f"There are 2 people named {EVIL} already" in words
    assert f"{EVIL} (1)1 photo" in words
    assert f"{EVIL} (2)2 photos" in words


def test_forgetting_says_what_was_erased() -> None:
    words = harmless(people_cards.erased_card("Ada", Erased("id", 1, 3, 2, True))).text
    assert "3 photo records and face vectors" in words
    assert "2 thumbnails" in words
    assert "Nothing of it is left" in words


def test_the_occlusion_map_names_the_band_that_matters() -> None:
    drops = np.zeros((112, 112), np.float32)
    drops[40:60] = 0.3
    assert evidence.describe(drops).startswith("100% rests on the eyes")
    assert evidence.describe(-drops) == "no region speaks for one person"
    crop = np.full((112, 112, 3), 100, np.uint8)
    harmless(evidence.card(crop, crop, Evidence(0.5, drops, -drops)))


def _palette(selector: str) -> dict[str, str]:
    block = STYLE[STYLE.index(selector) :]
    return dict(re.findall(r"--fv-([a-z-]+): (#[0-9a-f]{6});", block[: block.index("}")]))


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("selector", ["body .gradio-container {", "body.dark .gradio-container"])
def test_text_has_the_contrast_wcag_asks_for(selector: str) -> None:
    palette = _palette(selector)
    pairs = [(ink, ground) for ink in ("ink", "soft", "accent") for ground in ("surface", "sunken")]
    for name in ("same", "inconclusive", "different"):
        pairs += [(name, f"{name}-soft"), (name, "surface"), ("ink", f"{name}-soft")]
    pairs += [("ink", "accent-soft"), ("genuine", "surface"), ("impostor", "surface")]
    for ink, ground in pairs:
        light, dark = sorted((_luminance(palette[ink]), _luminance(palette[ground])), reverse=True)
        ratio = (light + 0.05) / (dark + 0.05)
        assert ratio >= 4.5, f"{ink} on {ground}: {ratio:.2f}"


def test_a_threshold_no_photo_can_reach_is_called_so() -> None:
    rng = np.random.default_rng(0)
    calibration = Calibration.from_scores(
        rng.normal(0.8, 0.05, 300), rng.exponential(0.09, 3_000),
        model_id="m", protocol="drawn", data_fingerprint="f",
    )  # fmt: skip
    thresholds = [each.threshold for each in calibration.targets]
    assert min(thresholds) < 1 < max(thresholds)
    card = _Tags(model_cards.calibration_card(calibration)).text
    for value in thresholds:
        assert (f"{value:.3f}" in card) == (value <= 1)
    assert card.count("out of reach") == sum(value > 1 for value in thresholds)
