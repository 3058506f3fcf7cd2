"""Numbers in plain words: what they say must be what was measured."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model import wording
from model.types import Decision, Rate, Verdict

positive = st.floats(1e-9, 1e14, allow_nan=False)


@pytest.mark.parametrize(
    ("rate", "words"),
    [(1e-4, "1 in 10,000"), (1 / 5_600_000, "1 in 5.6 million"), (1e-6, "1 in 1 million"),
     (0.1, "1 in 10"), (0.62, "62%"), (0.0, "none"), (3 / 120_000, "1 in 40,000")],
)  # fmt: skip
def test_a_rate_as_a_chance(rate: float, words: str) -> None:
    assert wording.one_in(rate) == words


@settings(deadline=None, max_examples=200)
@given(positive)
def test_rounding_keeps_two_digits_and_no_exponent(value: float) -> None:
    words = wording.rounded(value)
    assert re.fullmatch(r"[\d,]+(\.\d+)?", words)
    assert math.isclose(float(words.replace(",", "")), value, rel_tol=0.0501)


@settings(deadline=None, max_examples=200)
@given(st.floats(1e-12, 1e12))
def test_the_likelihood_sentence_names_the_side_the_ratio_is_on(ratio: float) -> None:
    words = wording.likelihood(ratio)
    if ratio >= 2:
        assert "likelier for one person than for two" in words
        assert words.endswith("for the same.")
    elif ratio <= 0.5:
        assert "likelier for two people than for one" in words
        assert words.endswith("for different.")
    else:
        assert "supports neither" in words


@pytest.mark.parametrize(
    ("ratio", "support"),
    [(3, "weak"), (50, "moderate"), (500, "moderately strong"), (5000, "strong"),
     (50_000, "very strong"), (5e6, "extremely strong"), (1 / 50, "moderate")],
)  # fmt: skip
def test_the_verbal_scale(ratio: float, support: str) -> None:
    assert f": {support} support for" in wording.likelihood(ratio)


def test_a_likelihood_without_bound_is_still_a_sentence() -> None:
    assert "only seen for one person" in wording.likelihood(math.inf)
    assert "only seen for two people" in wording.likelihood(0.0)


def test_strangers_are_counted_with_their_interval() -> None:
    words = wording.strangers(Rate(3 / 120_000, 1e-5, 6e-5, 3, 120_000))
    assert words == (
        "3 of 120,000 stranger pairs look this alike: about 1 in 40,000 "
        "(95% interval: 1 in 100,000 to 1 in 17,000)."
    )


def test_one_pair_looks_and_several_look() -> None:
    assert "1 of 50 stranger pairs looks this" in wording.strangers(Rate(0.02, 0.001, 0.1, 1, 50))
    assert "person looks less alike" in wording.one_person(Rate(0.02, 0.001, 0.1, 1, 50))


def test_an_interval_has_as_many_digits_as_tell_its_ends_apart() -> None:
    assert wording.chances(Rate(1 / 192, 1 / 196, 1 / 188, 50_000, 9_600_000)) == (
        "1 in 192",
        "1 in 196",
        "1 in 188",
    )
    assert wording.chances(Rate(0.0, 0.0, 3e-6, 0, 1_000_000)) == ("none", "none", "1 in 330,000")


def test_no_stranger_still_has_an_upper_end() -> None:
    words = wording.strangers(Rate(0.0, 0.0, 3e-6, 0, 1_000_000))
    assert words.startswith("None of 1,000,000 stranger pairs")
    assert "at most 1 in 330,000" in words


@pytest.mark.parametrize(("errors", "start"), [(0, "None of 50"), (50, "All 50"), (7, "7 of 50")])
def test_one_person_is_counted(errors: int, start: str) -> None:
    words = wording.one_person(Rate(errors / 50, 0.01, 0.9, errors, 50))
    assert words.startswith(f"{start} pairs of photos of one person look less alike")


def test_the_target_control_speaks_in_strangers_and_offers_the_default() -> None:
    choices = wording.target_choices(2e-4)
    assert ("At most 1 in 10,000 strangers", 1e-4) in choices
    assert ("At most 1 in 5,000 strangers", 2e-4) in choices
    rates = [rate for _, rate in choices]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1 byte"), (20_000_000, "20 MB"), (1_500, "1.5 kB")]
)
def test_sizes(number: int, words: str) -> None:
    assert wording.size(number) == words


def test_what_is_nearly_all_is_not_called_all() -> None:
    assert wording.percent(0.9997) == "99.97%"
    assert wording.percent(0.994) == "99.4%"
    assert wording.percent(1.0) == "100%"
    assert wording.percent(0.62) == "62%"


def verdict(decision: Decision, ratio: float | None, fmr: Rate, fnmr: Rate) -> Verdict:
    return Verdict(
        decision=decision, score=0.5, threshold=0.4, reject_below=0.2, target_fmr=1e-4, fmr=fmr,
        fnmr=fnmr, likelihood_ratio=ratio, posterior=None, prior=None, d_genuine=0, d_impostor=0,
        supported=True, calibration_id="c", model_id="m",
    )  # fmt: skip


RARE = Rate(1 / 5_600_000, 1e-8, 1e-6, 1, 5_600_000)
OFTEN = Rate(0.01, 0.009, 0.011, 100, 10_000)
NEVER = Rate(0.0, 0.0, 1e-4, 0, 20_000)


@pytest.mark.parametrize(
    ("decision", "ratio", "rates", "look", "words"),
    [("same", 1e7, (RARE, OFTEN), "strong",
      "Same person: only 1 in 5.6 million pairs of strangers look this alike"),
     ("same", 5.0, (OFTEN, OFTEN), "weak",
      "Same person, weak evidence: 1 in 100 pairs of strangers look this alike"),
     ("same", 0.3, (OFTEN, OFTEN), "weak",
      "Same person, weak evidence: 1 in 100 pairs of strangers look this alike"),
     ("same", 1e9, (NEVER, OFTEN), "strong",
      "Same person: none of 20,000 pairs of strangers look this alike"),
     ("different", 0.0, (OFTEN, OFTEN), "strong",
      "Different people: only 1 in 100 pairs of photos of one person look this different"),
     ("different", 1 / 50, (OFTEN, NEVER), "moderate",
      "Different people, moderate evidence: none of 20,000 pairs of photos of one person look "
      "this different"),
     ("inconclusive", 3.0, (OFTEN, OFTEN), "weak",
      "Inconclusive: 1 in 100 pairs of strangers look this alike, and the limit is 1 in 10,000"),
     ("inconclusive", None, (OFTEN, OFTEN), "weak",
      "Inconclusive: a photo is too poor for any error rate that was measured")],
)  # fmt: skip
def test_the_first_line_says_the_answer_and_its_strength(
    decision: Decision, ratio: float | None, rates: tuple[Rate, Rate], look: str, words: str
) -> None:
    found = verdict(decision, ratio, *rates)
    assert wording.strength(found) == look
    assert wording.headline(found) == words


def test_a_chance_has_its_interval() -> None:
    assert wording.chance(Rate(1e-3, 5e-4, 2e-3, 10, 10_000)) == (
        "1 in 1,000 (95% interval: 1 in 2,000 to 1 in 500)"
    )
    assert wording.chance(NEVER) == "at most 1 in 10,000"
    assert wording.chance(Rate(0.5, 0.4, 0.6, 5, 10)) == "50%"
