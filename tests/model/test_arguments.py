from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from model.arguments import natural, positive, rate, share


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (positive, {"1": 1, "20": 20}, ["0", "-1", "1.5", "", "many"]),
        (natural, {"0": 0, "20": 20}, ["-1", "1.5", ""]),
        (share, {"0": 0, "0.5": 0.5, "1": 1}, ["-0.1", "1.1", "nan", "half"]),
        (rate, {"1e-4": 1e-4, "0.5": 0.5}, ["0", "1", "nan", "half"]),
    ],
)
def test_only_values_of_the_kind_are_taken(
    kind: Callable[[str], float], good: dict[str, float], bad: list[str]
) -> None:
    assert {text: kind(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match="is not a"):
            kind(text)
