"""The command line: words for people, JSON for programs, exit codes that tell."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.auth import KeyStore
from app.cli import main as cli
from app.cli.exit_codes import OTHER
from app.service import FaceService
from app.settings import Settings
from app.usecases.results import Upload
from model import wording
from tests.app.helpers import Photos
from tests.paths import ROOT


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
    assert capsys.readouterr().out.startswith("Same person")
    assert run(settings, "verify", files["collins"], files["hopper"], "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["decision"] == "different"
    assert answer["verified"] is False
    assert run(settings, "verify", files["collins"], files["collins"]) == 0
    assert capsys.readouterr().out.startswith(wording.SAME_FILE)


@pytest.mark.parametrize(
    ("second", "code", "words"),
    [
        ("nobody", 4, "second photo"),
        ("junk", 4, "second photo cannot be used. The file is not a picture"),
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
    assert shown.err.endswith(".\n")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (["verify", "collins", "nobody"], 4, "no_face"),
        (["verify", "collins", "both"], 5, "several_faces"),
        (["verify", "collins", "hopper", "--engine", "foo"], 3, "bad_setting"),
        (["forget", "Nobody"], 6, "unknown_person"),
    ],
)
def test_json_errors_have_the_form_of_the_api(
    settings: Settings, files: dict[str, str], arguments: list[str], exit_code: int, code: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    given = [files.get(argument, argument) for argument in arguments]
    assert run(settings, *given, "--json") == exit_code
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == code
    assert shown.err == error["message"] + "\n"
    assert ("pairs" in error["details"]) == (code == "several_faces")


def test_nobody_is_in_a_gallery_that_does_not_exist_yet(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(settings, "people") == 0
    assert "Nobody" in capsys.readouterr().out
    assert run(settings, "people", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert not settings.data.exists()


def test_of_two_people_of_a_name_it_is_shown_what_tells_them_apart(
    settings: Settings, photos: Photos, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FaceService.open(settings)
    for photo, consent in ((photos.collins, "form 1"), (photos.hopper, "form 2")):
        service.enroll("Ann", [Upload("a.jpg", photo)], consent=consent, new_person=True)
    people = service.people()
    service.close()
    assert run(settings, "forget", "Ann", "--yes") == 6
    shown = capsys.readouterr().err
    assert all(each.id in shown and each.consent in shown for each in people)
    assert len(people) == 2


def test_search_people_forget(
    settings: Settings, files: dict[str, str], photos: Photos, capsys: pytest.CaptureFixture[str]
) -> None:
    service = FaceService.open(settings)
    service.enroll("Eileen Collins", [Upload("a.jpg", photos.collins)], consent="yes")
    service.close()
    assert run(settings, "search", files["collins_again"]) == 0
    words = capsys.readouterr().out
    assert "* Eileen Collins" in words
    assert "Searched among 1 person. The threshold 0." in words
    assert "chance for a stranger at most 1 in " in words
    assert "too small" not in words
    assert run(settings, "search", files["hopper"], "--target-fpir", "0.0000001") == 1
    words = capsys.readouterr().out
    assert "at most 1 in 10 million." in words
    assert "The calibration is too small to measure this threshold." in words
    assert "chance for a stranger 100%" in words
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
    assert run(settings, "forget", "Eileen Collins", "--json") == 3
    assert "--yes" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run(settings, "forget", "eileen  collins", "--yes") == 0
    assert "Erased Eileen Collins: 1 photo, " in capsys.readouterr().out
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target-fmr", "5"], "'5' is not a number above 0 and below 1"),
        (["--prior", "half"], "'half' is not a number above 0 and below 1"),
        (["--face-a", "0"], "'0' is not a whole number of at least 1"),
        (["--face-b", "one"], "'one' is not a whole number of at least 1"),
    ],
)
def test_wrong_usage_says_what_is_allowed(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["verify", "a", "b", *arguments])
    assert f"{arguments[0]}: {words}" in capsys.readouterr().err


def test_an_answer_that_nobody_read_is_no_verdict(tmp_path: Path) -> None:
    KeyStore(Settings(data=tmp_path).keys_file).add("ann")
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    for words in (["keys", "list"], ["verify", "none.jpg", "none.jpg", "--json"]):
        for unbuffered in ([], ["-u"]):
            command = [sys.executable, *unbuffered, "-m", "app", *words, "--data", str(tmp_path)]
            ended = subprocess.run(
                command, cwd=ROOT, env=buffered, stdout=write, stderr=subprocess.PIPE, check=False
            )
            assert ended.returncode == OTHER, command
            assert b"Exception ignored" not in ended.stderr
    os.close(write)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "program",
    [
        ["app", "keys", "list"],
        ["app", "enroll", "TMP/photos", "--report", "TMP/report.csv"],
        ["app.enroll", "TMP/photos", "--report", "TMP/report.csv"],
    ],
)
def test_an_answer_that_cannot_be_written_is_a_sentence(tmp_path: Path, program: list[str]) -> None:
    KeyStore(Settings(data=tmp_path).keys_file).add("ann")
    (tmp_path / "photos" / "Ann").mkdir(parents=True)
    (tmp_path / "photos" / "Ann" / "1.jpg").write_bytes(b"no picture")
    words = [word.replace("TMP", str(tmp_path)) for word in program]
    command = [sys.executable, "-m", *words, "--data", str(tmp_path)]
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == OTHER
    assert "No space left" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_closed_output_changes_no_exit_code(tmp_path: Path) -> None:
    command = f"{sys.executable} -m app keys list --data {tmp_path} >&-"
    ended = subprocess.run(["sh", "-c", command], cwd=ROOT, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["verify", "a", "b", "--engine", "foo"], 3, "onnxruntime"),
        (["verify", "a", "b", "--device", "tpu"], 3, "cuda"),
        (["verify", "a", "b", "--data", "FILE/data"], 3, "--data"),
        (["keys", "add", "ann", "--data", "FILE/data"], 3, "--data"),
        (["keys", "list", "--data", "DAMAGED"], 8, "keys.json"),
    ],
)
def test_what_is_set_up_wrongly_is_one_sentence_and_no_verdict(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "keys.json").write_text('[{"name": "ann"')
    places = {"FILE/data": str(tmp_path / "file" / "data"), "DAMAGED": str(tmp_path)}
    done = process("-m", "app", *(places.get(each, each) for each in arguments))
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["-X", "dev"]])
def test_an_error_nobody_foresaw_is_no_verdict(settings: Settings, options: list[str]) -> None:
    code = """import sys
from app.cli import commands, main as cli
def verify(*_): raise ZeroDivisionError("by two\\nlines")
commands.verify = verify
sys.exit(cli.main(sys.argv[1:]))"""
    done = process(*options, "-c", code, "verify", "a", "b", "--json")
    assert done.returncode == 8
    assert "ZeroDivisionError: by two lines." in done.stderr
    assert ("Traceback" in done.stderr) == bool(options)
    assert json.loads(done.stdout)["error"]["code"] == "internal"


def test_the_audit_names_a_damaged_line(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.prepare()
    settings.audit_file.write_text("no JSON\n")
    assert run(settings, "audit") == 1
    assert "Line 1 of the audit log is damaged" in capsys.readouterr().out


def test_a_missing_audit_log_is_not_called_unbroken(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(settings, "audit") == 1
    assert "There is no audit log" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(settings, "audit", "--help")
    assert "The end of the log is not covered" in " ".join(capsys.readouterr().out.split())


def test_forgetting_is_logged_though_the_search_engine_never_answers(
    settings: Settings, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FaceService.open(settings)
    person = service.enroll("Grace", [Upload("a.jpg", photos.hopper)]).person_id
    service.close()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("FACE_INDEX", "milvus://127.0.0.1:1/faces")
    monkeypatch.setattr("index.engines.open.open_index", interrupted)
    assert run(settings, "forget", "Grace", "--yes") == 130
    last = json.loads(settings.audit_file.read_text().splitlines()[-1])
    assert (last["what"], last["person"]) == ("forget", person)


def test_a_missing_model_is_told_apart(settings: Settings, files: dict[str, str]) -> None:
    gone = dataclasses.replace(settings, bundle=settings.data / "none")
    assert run(gone, "verify", files["collins"], files["hopper"]) == 7


def test_what_needs_no_model_loads_none(settings: Settings) -> None:
    code = (
        "import sys; from app.cli import commands, main as cli; cli.main(sys.argv[1:]); "
        "print({'torch', 'gradio'} & {*sys.modules})"
    )
    done = process("-c", code, "keys", "list", "--data", str(settings.data))
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["serve"], ("(default: 127.0.0.1)", "(default: 7860)", "(default: the one that ships)")),
        (["verify"], ("(default: 0.0001)", "(default: auto)")),
        (["search"], ("(default: 0.01)", "(default: 3)")),
        (["keys", "add"], ("(default: read)", "face-verification)")),
    ],
)
def test_help_says_the_defaults(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    told: tuple[str, ...],
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit):
        cli.main([*command, "--help"])
    words = capsys.readouterr().out
    assert [each for each in told if each not in words] == []
    assert "None" not in words
    assert "==SUPPRESS==" not in words
