"""Which kind of photos a collection resembles."""

from __future__ import annotations

from types import SimpleNamespace

from model.calibration.types import KindRates
from model.types import Quality, Rate, Reason
from training.report.promises import kind_shares, kinds_table


def quality(*codes: str) -> Quality:
    return Quality(0.5, tuple(Reason(code, "", 0.0, 0.0) for code in codes))


def test_a_photo_is_of_the_kind_that_costs_it_most() -> None:
    photos = [quality(), quality("turned_away"), quality("too_dark", "blurred"), quality("cut_off")]
    assert kind_shares(photos) == {"whole": 0.5, "dark": 0.25, "close": 0.25}


def test_a_kind_says_what_was_measured_on_it() -> None:
    over, none = Rate(0.004, 0.002, 0.006, 4, 1000), Rate(0.1, 0.05, 0.2, 10, 100)
    calibration = SimpleNamespace(kinds=(KindRates("dark", 1e-3, 50, over, none, none),))
    first, second = kinds_table({"whole": 0.8, "dark": 0.2}, calibration).splitlines()
    assert "target" not in first
    assert "target exceeded" in second
    assert "10.00%" in second
