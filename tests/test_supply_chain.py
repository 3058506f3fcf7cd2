"""Dependencies: found with all that they need, and free to use."""

from __future__ import annotations

import pytest

from tests.paths import ROOT
from tests.supply_chain import WITHOUT_FILES, allowed, licence, required


def test_what_is_needed_by_what_is_listed_is_found() -> None:
    found = required(ROOT / "requirements-serve.txt")
    assert {"gradio", "numpy", "starlette", "h11", "pydantic-core"} <= set(found)
    assert not {"torch", "pytest", "hypothesis"} & set(found)


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("MIT", True),
        ("GNU Lesser General Public License v3 (LGPLv3)", True),
        ("GNU General Public License v3", False),
        ("AGPL-3.0", False),
        ("MIT AND GPL-3.0-only", False),
        ("Proprietary", False),
        ("?", False),
    ],
)
def test_licences_are_told_apart(text: str, fine: bool) -> None:
    assert allowed(text) is fine


def test_every_dependency_may_be_passed_on() -> None:
    doubtful = {name: licence(package) for name, package in required().items()}
    assert not {
        name: text
        for name, text in doubtful.items()
        if not allowed(text) and name not in WITHOUT_FILES
    }
