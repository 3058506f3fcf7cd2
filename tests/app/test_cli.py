"""The command line: words for people, JSON for programs, exit codes that tell."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from app import cli
from app.results import Upload
from app.service import FaceService
from app.settings import Settings
from tests.app.conftest import Photos

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(photos: Photos, tmp_path: Path) -> dict[str, str]:
    found = {}
    for field in dataclasses.fields(photos):
        path = tmp_path / f"{field.name}.jpg"
        path.write_bytes(getattr(photos, field.name))
        found[field.name] = str(path)
    found["junk"] = str(tmp_path / "junk.jpg")
    Path(found["junk"]).write_bytes(b"junk")
    return found


def run(settings: Settings, *arguments: str) -> int:
    where = ["--data", str(settings.data), "--bundle", str(settings.bundle)]
    return cli.main([arguments[0], *where, *arguments[1:]])


def test_verify_exit_codes_and_words(
    settings: Settings, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(settings, "verify", files["collins"], files["collins_again"]) == 0
    assert "SAME PERSON" in capsys.readouterr().out
    assert run(settings, "verify", files["collins"], files["hopper"], "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["decision"] == "different"
    assert answer["verified"] is False


@pytest.mark.parametrize(
    ("second", "code", "words"),
    [
        ("nobody", 4, "second photo"),
        ("junk", 4, "not a picture"),
        ("/no/such.jpg", 4, "such.jpg"),
        ("both", 5, "--face-b 2"),
    ],
)
def test_errors_are_sentences_with_their_code(
    settings: Settings, files: dict[str, str], second: str, code: int, words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run(settings, "verify", files["collins"], files.get(second, second)) == code
    shown = capsys.readouterr()
    assert words in shown.out + shown.err


def test_search_people_forget(
    settings: Settings, files: dict[str, str], photos: Photos, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(settings, "people") == 6
    service = FaceService.open(settings)
    service.enroll("Eileen Collins", [Upload("a.jpg", photos.collins)], consent="yes")
    service.close()
    assert run(settings, "search", files["collins_again"]) == 0
    assert "* Eileen Collins" in capsys.readouterr().out
    assert run(settings, "search", files["both"], "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [face["known"] for face in answer["faces"]] == [False, True]
    assert run(settings, "people") == 0
    assert "Eileen Collins" in capsys.readouterr().out
    assert run(settings, "people", "eil", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["photos"] == 1
    assert run(settings, "forget", "Nobody", "--yes") == 6
    assert run(settings, "forget", "Eileen Collins") == 3
    assert "--yes" in capsys.readouterr().err
    assert run(settings, "forget", "eileen  collins", "--yes") == 0
    assert "Erased Eileen Collins: 1 photos" in capsys.readouterr().out
    assert run(settings, "people", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run(settings, "audit") == 0


def test_keys_are_added_shown_once_listed_and_revoked(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--data", str(settings.data)]
    assert cli.main(["keys", "add", "ann", "--scope", "enroll", *where]) == 0
    secret = capsys.readouterr().out.splitlines()[-1]
    assert cli.main(["keys", "add", "ann", *where]) == 3
    capsys.readouterr()
    assert cli.main(["keys", "list", *where]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith("ann\tenroll\t")
    assert secret not in listed
    assert cli.main(["keys", "revoke", "ann", *where]) == 0
    assert "lets nobody in" in capsys.readouterr().out
    assert cli.main(["keys", "revoke", "ann", *where]) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "a.jpg"],
        ["verify", "a", "b", "--target-fmr", "2"],
        ["verify", "a", "b", "--face-a", "0"],
        ["nonsense"],
        ["keys"],
    ],
)
def test_wrong_usage_is_not_taken_for_inconclusive(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 3


def test_a_missing_model_is_told_apart(settings: Settings, files: dict[str, str]) -> None:
    gone = dataclasses.replace(settings, bundle=settings.data / "none")
    assert run(gone, "verify", files["collins"], files["hopper"]) == 7


def test_what_needs_no_model_loads_none(settings: Settings) -> None:
    code = "import sys; from app import cli; cli.main(sys.argv[1:]); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "keys", "list", "--data", str(settings.data)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"
