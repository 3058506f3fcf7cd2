"""What serving and the commands load: no torch, and nothing they do not need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.settings import Settings
from tests.app.helpers import Photos
from tests.paths import ROOT

TRAINING_ONLY = (
    "torch", "torchvision", "facenet_pytorch", "sklearn", "onnx", "pytorch_metric_learning",
)  # fmt: skip
"""What a server on a CPU does without; requirements-serve.txt lists none of it."""

WATCHED = ("torch", "gradio", "onnxruntime", "fastapi", "scipy", "scipy.stats")

BLOCK = """
import importlib.abc, json, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ImportError(name + " is not installed")
sys.meta_path.insert(0, Block())
"""

COMMAND = """
from app.cli.main import main
try:
    code = main({arguments!r})
except SystemExit as ended:
    code = ended.code
print(json.dumps([code, [name for name in {watched!r} if name in sys.modules]]), file=sys.stderr)
"""

SERVER = """
from starlette.testclient import TestClient
from app.service import FaceService
from app.settings import Settings
from app.web.server import build
service = FaceService.open(Settings.load(data={data!r}, bundle={bundle!r}))
with TestClient(build(service, page={page}), base_url="http://127.0.0.1") as client:
    assert client.get("/health").status_code == 200
    photos = [("img1", open({first!r}, "rb")), ("img2", open({second!r}, "rb"))]
    answer = client.post("/v1/verify", files=photos)
    assert answer.status_code == 200, answer.text
    assert answer.json()["decision"] == "same"
    assert client.get("/").status_code == (200 if {page} else 404)
service.close()
assert ("gradio" in sys.modules) == {page}
"""


@pytest.fixture
def pair(photos: Photos, tmp_path: Path) -> tuple[str, str]:
    files = tmp_path / "a.jpg", tmp_path / "b.jpg"
    for file, data in zip(files, (photos.collins, photos.collins_again), strict=True):
        file.write_bytes(data)
    return str(files[0]), str(files[1])


def run(program: str, blocked: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=blocked) + program],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def command(*arguments: str) -> tuple[int, set[str]]:
    """The exit code of a command where training's libraries are missing, and what it loaded."""
    program = COMMAND.format(arguments=list(arguments), watched=WATCHED)
    done = run(program, TRAINING_ONLY)
    code, loaded = json.loads(done.stderr.splitlines()[-1])
    return code, set(loaded)


def test_commands_without_a_model_load_next_to_nothing(settings: Settings, tmp_path: Path) -> None:
    data = ["--data", str(tmp_path / "data")]
    for arguments in (["--help"], ["verify", "--help"], ["keys", "list", *data], ["people", *data]):
        assert command(*arguments) == (0, set()), arguments


def test_a_wrong_path_is_told_before_anything_is_loaded(settings: Settings, tmp_path: Path) -> None:
    photo = tmp_path / "there.jpg"
    photo.write_bytes(b"photo")
    where = ["--data", str(settings.data), "--bundle", str(settings.bundle)]
    for arguments in (["verify", str(photo), "nothere.jpg"], ["search", "nothere.jpg"]):
        code, loaded = command(arguments[0], *where, *arguments[1:])
        assert (code, loaded) == (4, set()), arguments
    code, loaded = command("enroll", *where, "nothere")
    assert (code, loaded) == (3, set())


def test_verify_runs_without_what_only_training_needs(
    settings: Settings, pair: tuple[str, str]
) -> None:
    where = ["--data", str(settings.data), "--bundle", str(settings.bundle)]
    code, loaded = command("verify", *where, *pair)
    assert code == 0
    assert loaded <= {"onnxruntime", "scipy"}


@pytest.mark.parametrize("page", [False, True])
def test_a_server_runs_without_what_only_training_needs(
    settings: Settings, pair: tuple[str, str], page: bool
) -> None:
    program = SERVER.format(
        data=str(settings.data), bundle=str(settings.bundle), page=page,
        first=pair[0], second=pair[1],
    )  # fmt: skip
    done = run(program, TRAINING_ONLY)
    assert done.returncode == 0, done.stderr


def test_what_needs_torch_says_so_in_one_sentence(
    settings: Settings, pair: tuple[str, str]
) -> None:
    where = ["--data", str(settings.data), "--bundle", str(settings.bundle)]
    code, _ = command("verify", *where, "--engine", "torch", *pair)
    assert code == 7


def test_the_slim_installation_lists_nothing_that_only_training_needs() -> None:
    slim, whole = (listed(ROOT / f"requirements{kind}.txt") for kind in ("-serve", ""))
    training_only = {name.replace("_", "-") for name in TRAINING_ONLY} - {"sklearn"}
    assert not slim & (training_only | {"scikit-learn"})
    assert slim < whole
    assert training_only <= whole


def listed(file: Path) -> set[str]:
    """Packages that a requirements file asks for, and those it names."""
    found: set[str] = set()
    for line in file.read_text(encoding="utf-8").splitlines():
        wanted = line.split("#")[0].strip()
        if wanted.startswith("-r "):
            found |= listed(file.parent / wanted.removeprefix("-r "))
        elif wanted:
            found.add(re.split(r"[<>=\[]", wanted)[0])
    return found
