"""The calibrate command from pictures on disk to a stored calibration and its report."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from model.bundle import Bundle
from model.calibration import Calibration
from tests.model.helpers import small_bundle
from tests.training.score_writers import write_bob, write_pyeer
from training.__main__ import main

PEOPLE, PHOTOS = 60, 3


def draw_people(root: Path, seed: int, noise: float) -> None:
    """A folder a person: blots of their own, the same in each picture but for noise."""
    rng = np.random.default_rng(seed)
    for person in range(PEOPLE):
        folder = root / "celeba" / f"{person:03d}"
        folder.mkdir(parents=True)
        blots = rng.uniform(0, 255, (4, 4, 3))
        for photo in range(PHOTOS):
            small = np.clip(blots + noise * rng.normal(size=blots.shape), 0, 255).astype(np.uint8)
            picture = Image.fromarray(small).resize((112, 112), Image.Resampling.BICUBIC)
            picture.save(folder / f"{photo}.png")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate")
    small_bundle(folder / "bundle")
    draw_people(folder / "known", 0, noise=30)
    draw_people(folder / "worse", 2, noise=140)
    (folder / "groups.csv").write_text(
        "name,group\n"
        + "".join(f"{p:03d},{'even' if p % 2 == 0 else 'odd'}\n" for p in range(PEOPLE))
    )
    return folder


def calibrate(work: Path, *words: str) -> int:
    return main(["calibrate", "--cache", str(work / "cache"), *words])


@pytest.fixture(scope="module")
def report(work: Path) -> Path:
    """The report of a calibration that is now stored in the bundle."""
    out = work / "out"
    code = calibrate(
        work, "--bundle", str(work / "bundle"), "--data", "celeba", "--root", str(work / "known"),
        "--groups", str(work / "groups.csv"), "--out", str(out),
    )  # fmt: skip
    assert code == 0
    return out / "report.html"


def test_the_calibration_is_stored_in_its_bundle(work: Path, report: Path) -> None:
    bundle = Bundle.load(work / "bundle")
    assert bundle.calibration is not None
    assert bundle.calibration.people == PEOPLE
    assert bundle.calibration.photos == PEOPLE * PHOTOS
    assert bundle.calibration.id == Calibration.load(report.with_name("calibration.json")).id
    assert {rates.groups for rates in bundle.calibration.groups} == {
        ("even", "even"), ("even", "odd"), ("odd", "odd"),
    }  # fmt: skip
    assert bundle.calibration.summary.d_prime.value > 1


class Tags(HTMLParser):
    """Counts tags and notes whatever a page would fetch."""

    void = frozenset({"meta", "img", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in self.void:
            self.open.append(tag)
        self.fetched += [
            value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_whole_file_with_its_plots_and_pictures(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    kinds = [value.partition(";base64,")[0] for value in tags.fetched]
    assert kinds.count("data:image/png") == 4
    assert kinds.count("data:image/jpeg") == len(kinds) - 4 == 4 * 12
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
    for word in ("Thresholds", "By group", "even × odd", "Worst pairs", "1 in 1 million"):
        assert word in text


def test_promises_hold_where_they_were_made_and_break_for_worse_pictures(
    work: Path, report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = str(work / "bundle")
    words = ["--check", bundle, "--data", "celeba", "--out", str(work / "check"), "--root"]
    assert calibrate(work, *words, str(work / "known")) == 0
    assert "No promise is broken." in capsys.readouterr().out
    assert calibrate(work, *words, str(work / "worse")) == 1
    assert "DRIFT" in capsys.readouterr().out
    result = json.loads((work / "check" / "check.json").read_text())
    assert result["drifted"] is True
    assert any(check["fnmr"] == "broken" for check in result["checks"])


def test_a_calibration_moves_to_a_few_people(
    work: Path, report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--bundle", str(work / "bundle"), "--data", "celeba", "--root", str(work / "worse"),
        "--adapt", "--dry-run", "--no-pictures", "--out", str(work / "moved"),
    ]  # fmt: skip
    assert calibrate(work, *words) == 0
    assert "in d' units" in capsys.readouterr().out
    before = Calibration.load(report.with_name("calibration.json"))
    moved = Calibration.load(work / "moved" / "calibration.json", before.model_id)
    assert moved.threshold(1e-2).threshold >= before.threshold(1e-2).threshold
    assert moved.threshold(1e-2).fnmr.value > before.threshold(1e-2).fnmr.value
    assert calibrate(work, *words, "--copies") == 2


def test_a_dry_run_leaves_the_bundle_alone(tmp_path: Path, work: Path) -> None:
    small_bundle(tmp_path / "bundle")
    before = (tmp_path / "bundle" / "bundle.json").read_bytes()
    code = calibrate(
        work, "--bundle", str(tmp_path / "bundle"), "--data", "celeba", "--dry-run",
        "--root", str(work / "known"), "--out", str(tmp_path / "out"), "--no-pictures",
    )  # fmt: skip
    assert code == 0
    assert (tmp_path / "bundle" / "bundle.json").read_bytes() == before
    assert "image/jpeg" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_bundle_keeps_no_folders_and_loses_none(tmp_path: Path, work: Path) -> None:
    bundle = small_bundle(tmp_path / "bundle")
    notes = bundle.path / "notes"
    words = ["--bundle", str(bundle.path), "--data", "celeba", "--root", str(work / "known")]
    assert calibrate(work, *words, "--out", str(bundle.path / "report")) == 2
    notes.mkdir()
    assert calibrate(work, *words, "--no-pictures", "--out", str(tmp_path / "out")) == 3
    assert notes.is_dir()
    assert Bundle.load(bundle.path).calibration is None


def test_wrong_names_are_set_right_before_measuring(tmp_path: Path, work: Path) -> None:
    """A photo under a second name is a false match, until the list says whose it is."""
    people = tmp_path / "people"
    draw_people(people, 0, noise=30)
    (people / "celeba" / "twice").mkdir()
    (people / "celeba" / "000" / "0.png").rename(people / "celeba" / "twice" / "0.png")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("name,person\ntwice,000\n001/0.png,\n")
    groups = tmp_path / "groups.csv"
    groups.write_text("name,group\n" + "".join(f"{p:03d},a\n" for p in range(PEOPLE)))
    small_bundle(tmp_path / "bundle")
    words = [
        "--bundle", str(tmp_path / "bundle"), "--data", "celeba", "--root", str(people),
        "--dry-run", "--out", str(tmp_path / "out"), "--groups", str(groups),
    ]  # fmt: skip

    def calibrated(*more: str) -> tuple[Calibration, str]:
        assert calibrate(work, *words, *more) == 0
        page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        strangers = page.partition("strangers most alike")[2].partition("one person least")[0]
        return Calibration.load(tmp_path / "out" / "calibration.json"), strangers

    before, strangers = calibrated()
    assert "twice/0.png" in strangers
    after, strangers = calibrated("--corrections", str(wrong))
    assert "twice/0.png" not in strangers
    assert (before.people, before.photos) == (PEOPLE + 1, PEOPLE * PHOTOS)
    assert (after.people, after.photos) == (PEOPLE, PEOPLE * PHOTOS - 1)
    gained = lost = 2  # pairs with the photo that came back, and with the one left out
    assert after.genuine_pairs == before.genuine_pairs + gained - lost
    assert "photos given to another person: 1, left out: 1" in after.protocol
    assert {found.groups for found in after.groups} == {("a", "a")}
    wrong.write_text("name,person\nnobody,000\n")
    assert calibrate(work, *words, "--corrections", str(wrong)) == 3


def test_scores_of_other_tools_are_calibrated(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    genuine, impostor = rng.normal(40, 8, 900), rng.normal(10, 8, 9000)
    write_bob(tmp_path / "both.txt", genuine, impostor)
    write_pyeer(tmp_path / "same.txt", tmp_path / "apart.txt", genuine, impostor)
    found = []
    for files in (["both.txt"], ["same.txt", "apart.txt"]):
        words = [str(tmp_path / file) for file in files]
        assert calibrate(tmp_path, "--scores", *words, "--out", str(tmp_path / "out")) == 0
        found.append(Calibration.load(tmp_path / "out" / "calibration.json"))
    assert found[0].targets == found[1].targets
    assert found[0].threshold(0.01).threshold == pytest.approx(10 + 8 * 2.326, abs=1.5)


def test_what_is_missing_is_said(
    tmp_path: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_bundle(tmp_path / "fresh")
    fresh = str(tmp_path / "fresh")
    assert calibrate(work, "--bundle", fresh) == 3
    assert "--data FOLDER" in capsys.readouterr().err
    assert calibrate(work, "--check", fresh, "--data", "lfw") == 3
    assert "has no calibration yet" in capsys.readouterr().err
    (tmp_path / "groups.csv").write_text("name,group\nnobody,a\n")
    words = ["--bundle", fresh, "--data", "celeba", "--root", str(work / "known")]
    assert calibrate(work, *words, "--groups", str(tmp_path / "groups.csv")) == 3
    assert "No name in" in capsys.readouterr().err
    (tmp_path / "groups.csv").write_text("person,colour\n")
    assert calibrate(work, *words, "--groups", str(tmp_path / "groups.csv")) == 3
    assert "columns name and group" in capsys.readouterr().err
    (tmp_path / "groups.csv").write_bytes(b"name,group\nJos\xe9,a\n")
    assert calibrate(work, *words, "--groups", str(tmp_path / "groups.csv")) == 3
    assert "cannot be read" in capsys.readouterr().err
    assert calibrate(work, *words, "--groups", str(tmp_path / "none.csv")) == 3
    assert "cannot be read" in capsys.readouterr().err
    (tmp_path / "few.txt").write_text("1 0.5\n-1 0.1\n")
    assert calibrate(work, "--scores", str(tmp_path / "few.txt")) == 3
    assert "at least 4 of either" in capsys.readouterr().err
    assert calibrate(work, *words, "--max-photos", "1") == 2
    assert "2 photos to make a pair" in capsys.readouterr().err
    scores = [
        "--scores",
        str(tmp_path / "groups.csv"),
        "--corrections",
        str(tmp_path / "groups.csv"),
    ]
    assert calibrate(work, *scores) == 3
    assert "Scores come without names" in capsys.readouterr().err
    assert calibrate(work, *words, "--part", "DevTest") == 3
    assert "LFW's own split" in capsys.readouterr().err
    for person in "ab":
        (tmp_path / "blank" / person).mkdir(parents=True)
        Image.new("RGB", (64, 64)).save(tmp_path / "blank" / person / "1.png")
    assert calibrate(work, "--bundle", fresh, "--data", str(tmp_path / "blank")) == 3
    assert f"All 2 photos of {tmp_path / 'blank'} hold no usable face." in capsys.readouterr().err


def test_further_people_need_faces_and_a_full_calibration(work: Path, capsys) -> None:
    people = str(work / "worse" / "celeba")
    words = ["--bundle", str(work / "bundle"), "--data", "celeba", "--root", str(work / "known")]
    assert calibrate(work, *words, "--dry-run", "--further", people) != 0
    assert people in capsys.readouterr().err
    assert calibrate(work, *words, "--adapt", "--dry-run", "--further", people) != 0
    assert "--further" in capsys.readouterr().err
