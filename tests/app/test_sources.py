"""Folder, CSV and zip name the same people; broken ones are a sentence."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from app import sources
from app.report import Line, Report
from app.sources import BadSource, open_source, person_name
from model.errors import BadImage


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Ann_Lee/1.jpg", "Ann Lee"),
        ("deep/er/Ann Lee/x.png", "Ann Lee"),
        ("Ann_Lee_0001.jpg", "Ann Lee"),
        ("Ann-2.jpg", "Ann"),
        ("Ann 17.jpg", "Ann"),
        ("portrait.jpg", None),
        ("0001.jpg", None),
    ],
)
def test_whose_photo_a_path_is(path: str, name: str | None) -> None:
    found = person_name(PurePosixPath(path))
    assert found == name or (name is None and found in (None, "0"))


def tree(folder: Path) -> Path:
    for name in ("Bob/1.jpg", "Ann_Lee/2.jpg", "Ann_Lee/1.JPG", "Cleo_0001.png", ".hidden/1.jpg",
                 "notes.txt", "Bob/readme.md"):  # fmt: skip
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(name.encode())
    return folder


def test_folder_and_zip_agree(tmp_path: Path) -> None:
    folder = tree(tmp_path / "in")
    archive = tmp_path / "in.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for file in folder.rglob("*"):
            target.write(file, file.relative_to(folder))
    expected = {
        ("Ann_Lee/1.JPG", "Ann Lee"),
        ("Ann_Lee/2.jpg", "Ann Lee"),
        ("Bob/1.jpg", "Bob"),
        ("Cleo_0001.png", "Cleo"),
    }
    for source in (folder, archive):
        items = open_source(source, 100)
        assert {(item.file, item.name) for item in items} == expected
        assert all(item.read() == item.file.encode() for item in items)
        names = [item.name for item in items]
        assert names == sorted(names, key=names.index)


def test_csv_with_consent_and_further_columns(tmp_path: Path) -> None:
    (tmp_path / "p.jpg").write_bytes(b"p")
    (tmp_path / "list.csv").write_text(
        "\ufeffname,path,consent,team\nAnn  Lee,p.jpg,by mail,blue\n"
        "Bob,gone.jpg,,\nAnn Lee,p2.jpg,,\n"
    )
    ann, again, bob = open_source(tmp_path / "list.csv", 100)
    assert (ann.name, ann.consent, ann.metadata) == ("Ann Lee", "by mail", {"team": "blue"})
    assert (again.name, bob.name) == ("Ann Lee", "Bob")
    assert ann.read() == b"p"
    with pytest.raises(BadImage, match="gone"):
        bob.read()


def test_reading_stops_past_the_limit(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("a/1.jpg", b"\0" * 10_000_000)
    (item,) = open_source(tmp_path / "bomb.zip", 1000)
    assert len(item.read()) == 1001


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing", None, "no folder or file"),
        ("x.txt", b"hello", "neither"),
        ("x.csv", b"a,b\n1,2\n", "name and path"),
        ("x.csv", b"name,path\n,a.jpg\n", "Line 2"),
        ("x.csv", b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_what_cannot_be_a_source(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadSource, match=words):
        open_source(tmp_path / name, 100)


def test_an_empty_folder_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="person/photo"):
        open_source(tmp_path, 100)


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_report_survives_a_crash_in_the_middle_of_a_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"report{ending}"
    lines = [Line(f"é,{n}.jpg", 'Ann "A"', "accepted", "fine\u2028") for n in range(3)]
    Report(path).add(lines[:2])
    whole = path.read_bytes()
    Report(path).add(lines[2:])
    complete = path.read_bytes()
    for cut in range(len(whole), len(complete)):
        path.write_bytes(complete[:cut])
        report = Report(path)
        assert list(report.lines.values()) == lines[:2]
    report.add(lines[2:])
    assert list(Report(path).lines.values()) == lines
    assert path.read_bytes() == complete


def test_another_file_is_not_taken_for_a_report(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(BadSource, match="not a report"):
        Report(tmp_path / "other.csv")
    with pytest.raises(BadSource, match="must end"):
        Report(tmp_path / "report.txt")


@pytest.mark.parametrize("name", ["x" * 201, "Ann\u202eLee", "Ann\x00Lee", "Ann\udcffLee"])
def test_a_name_that_cannot_be_kept_spoils_only_its_own_photos(name: str) -> None:
    good = sources._item("a/1.jpg", "  Ann   Lee ", lambda: b"photo")
    assert (good.name, good.read()) == ("Ann Lee", b"photo")
    bad = sources._item("b/1.jpg", name, lambda: b"photo")
    assert len(bad.name) <= 200
    assert bad.name.isprintable()
    with pytest.raises(BadImage, match="cannot be enrolled") as caught:
        bad.read()
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_damaged_entry_of_a_zip_is_a_bad_image(tmp_path: Path, method: int) -> None:
    whole = tmp_path / "whole.zip"
    with zipfile.ZipFile(whole, "w", method) as archive:
        archive.writestr("Ann/1.jpg", bytes(range(256)) * 40)
    data = whole.read_bytes()
    middle = data.index(b"Ann/1.jpg") + 9
    for place in range(middle, middle + 60):
        damaged = tmp_path / f"{place}.zip"
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        (item,) = open_source(damaged, 20_000)
        with contextlib.suppress(BadImage):
            item.read()


def test_a_zip_without_its_list_is_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "cut.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("Ann/1.jpg", b"x" * 100)
    data = file.read_bytes()
    place = data.index(b"PK\x01\x02")
    file.write_bytes(data[:place] + b"PK\x09\x09" + data[place + 4 :])
    with pytest.raises(BadSource, match=r"cut\.zip"):
        open_source(file, 1000)
