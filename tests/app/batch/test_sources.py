"""Folder, CSV and zip name the same people; broken ones are a sentence."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import struct
import time
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from app.batch import sources
from app.batch.metadata import joined
from app.batch.person_names import people_of
from app.batch.report import Line, Report
from app.batch.sources import BadSource, open_source
from model.errors import BadImage


@pytest.mark.parametrize(
    ("people", "why"),
    [
        ({"Ann_Lee/1.jpg": "Ann Lee", "Bob/x.png": "Bob"}, "folders"),
        ({"Ann_Lee_0001.jpg": "Ann Lee", "Ann-2.jpg": "Ann", "Bob 17.jpg": "Bob"}, "files"),
        ({"portrait.jpg": None, "0001.jpg": None, "IMG_2024_0002.jpg": None}, "no name"),
        ({"team/Tony_Blair_0001.jpg": "Tony Blair", "team/Ann_0001.jpg": "Ann"}, "wrapped files"),
        (
            {"a/b/Tony_0001.jpg": "Tony", "a/b/Ann_1.jpg": "Ann", "a/b/me.jpg": None},
            "wrapped twice",
        ),
        ({"a/b/Ann/1.jpg": "Ann", "a/b/Bob/1.jpg": "Bob"}, "wrapped folders"),
        ({"Ann/2024/1.jpg": "Ann", "Bob/1.jpg": "Bob"}, "folders within folders"),
        ({"Ann/2023/1.jpg": "Ann", "Ann/2024/1.jpg": "Ann"}, "years are no people"),
        ({"deep/er/Ann Lee/x.png": "Ann Lee"}, "one photo"),
        ({"Ann/2024/1.jpg": "Ann", "Ann/2024/2.jpg": "Ann"}, "one person, one year"),
        ({"Ann/IMG_1.jpg": "Ann", "Ann/DSC_2.jpg": "Ann", "Ann/x.jpg": "Ann"}, "one person"),
        ({"team/Ann/1.jpg": "Ann", "team/Cleo_0001.png": "Cleo"}, "both kinds"),
    ],
)
def test_whose_photo_a_path_is(people: dict[str, str | None], why: str) -> None:
    found = people_of([PurePosixPath(path) for path in people])
    assert dict(zip(people, found, strict=True)) == people, why


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


def test_a_path_that_no_file_can_have_is_a_bad_image(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_bytes(b"name,path\nAnn,1\0.jpg\n")
    (item,) = open_source(tmp_path / "list.csv", 100)
    with pytest.raises(BadImage, match="cannot be read: embedded null byte"):
        item.read()


def test_a_name_that_is_no_utf_8_is_told_in_letters_and_read_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "Ann" / os.fsdecode(b"\xff.jpg")
    file.parent.mkdir()
    file.write_bytes(b"photo")
    (item,) = open_source(tmp_path, 100)
    assert item.key == ("Ann/\\xff.jpg", "Ann")
    assert item.read() == b"photo"
    file.unlink()
    with pytest.raises(BadImage, match=r"^\\xff\.jpg cannot be read: No such file"):
        item.read()


def test_csv_as_a_spreadsheet_writes_it(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("Name; PATH ;Consent;Team\nLee, Ann;p.jpg;by mail;blue\n")
    (item,) = open_source(tmp_path / "list.csv", 100)
    assert (item.key, item.consent) == (("p.jpg", "Lee, Ann"), "by mail")
    assert item.metadata == {"Team": "blue"}


def test_a_row_without_name_or_path_spoils_no_other(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("name,path\n,a.jpg\nAnn,\nAnn,b.jpg\n")
    items = open_source(tmp_path / "list.csv", 100)
    assert {item.key: item.problem and item.problem.status for item in items} == {
        ("a.jpg", ""): "bad_row",
        ("line 3", "Ann"): "bad_row",
        ("b.jpg", "Ann"): None,
    }


def test_all_rows_of_a_person_count_and_the_first_word_is_kept(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(
        "name,path,consent,team\nAnn,1.jpg,,\nAnn,2.jpg,by mail,\nann,3.jpg,on paper,blue\n"
        "Bob,4.jpg,,\n"
    )
    items, told = joined(open_source(tmp_path / "list.csv", 100))
    *anns, bob = items
    assert all(item.consent == "by mail" for item in anns)
    assert all(item.metadata == {"team": "blue"} for item in anns)
    assert (bob.consent, bob.metadata) == ("", {})
    assert told == ["ann keeps the consent 'by mail', not 'on paper'."]


def test_reading_stops_past_the_limit(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("a/1.jpg", b"\0" * 10_000_000)
    (item,) = open_source(tmp_path / "bomb.zip", 1000)
    assert len(item.read()) == 1001


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_packing_that_unfolds_all_at_once_is_refused(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", method) as target:
        target.writestr("a/1.jpg", b"\0" * 10_000_000)
    (item,) = open_source(tmp_path / "bomb.zip", 1000)
    with pytest.raises(BadImage, match="Make an ordinary zip file"):
        item.read()


def test_a_folder_names_its_person_whatever_the_files_are_called(tmp_path: Path) -> None:
    (tmp_path / "Ann Lee").mkdir()
    for name in ("office1.jpg", "passport_2.jpg"):
        (tmp_path / "Ann Lee" / name).write_bytes(b"a")
    assert {item.name for item in open_source(tmp_path, 100)} == {"Ann Lee"}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing", None, "no folder or file"),
        ("x.txt", b"hello", "neither"),
        ("x.csv", b"a,b\n1,2\n", "name and path"),
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
    Report(path, tmp_path).add(lines[:2])
    whole = path.read_bytes()
    Report(path, tmp_path).add(lines[2:])
    complete = path.read_bytes()
    for cut in range(len(whole), len(complete)):
        path.write_bytes(complete[:cut])
        report = Report(path, tmp_path)
        assert list(report.lines.values()) == lines[:2]
    report.add(lines[2:])
    assert list(Report(path, tmp_path).lines.values()) == lines
    assert path.read_bytes() == complete
    report.keep({lines[1].key})
    assert list(report.lines.values()) == lines[1:2]
    assert list(Report(path, tmp_path).lines.values()) == lines[1:2]


def test_a_file_listed_for_two_people_has_two_lines(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    lines = [Line("1.jpg", "Ann", "accepted", ""), Line("1.jpg", "Bob", "duplicate", "")]
    Report(path, tmp_path).add(lines)
    assert list(Report(path, tmp_path).lines.values()) == lines


def test_another_file_is_not_taken_for_a_report(tmp_path: Path) -> None:
    for name, text in {"a.csv": "a,b\n1,2", "b.csv": "short", "c.jsonl": '{"a": 1'}.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(BadSource, match="not a report"):
            Report(tmp_path / name, tmp_path)
        assert (tmp_path / name).read_text() == text
    with pytest.raises(BadSource, match="must end"):
        Report(tmp_path / "report.txt", tmp_path)
    with pytest.raises(BadSource, match="cannot be written"):
        Report(tmp_path / "no" / "report.csv", tmp_path)
    Report(tmp_path / "mine.csv", tmp_path / "a" / "people").add([Line("1.jpg", "Ann", "", "")])
    with pytest.raises(BadSource, match=r"is the report of .*/a/people, not of .*/b/people"):
        Report(tmp_path / "mine.csv", tmp_path / "b" / "people")


@pytest.mark.parametrize("name", ["x" * 201, "Ann\u202eLee", "Ann\x00Lee", "Ann\udcffLee"])
def test_a_name_that_cannot_be_kept_spoils_only_its_own_photos(name: str) -> None:
    good = sources._item("a/1.jpg", "  Ann   Lee ", lambda: b"photo")
    assert (good.name, good.problem) == ("Ann Lee", None)
    bad = sources._item("b/1.jpg", name, lambda: b"photo")
    assert len(bad.name) <= 200
    assert bad.name.isprintable()
    assert bad.problem.status == "no_name"
    assert "cannot be enrolled" in bad.problem.message
    assert bad.problem.message.isprintable()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
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


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "'=1", "'"])
def test_no_cell_of_a_report_is_a_formula_and_all_are_read_back(tmp_path: Path, name: str) -> None:
    line = Line(f"{name}.jpg", name, "no_face", f"{name} shows no face.")
    path = tmp_path / "report.csv"
    Report(path, tmp_path).add([line])
    rows = list(csv.reader(io.StringIO(path.read_text(), newline="")))
    assert not [cell for row in rows for cell in row if cell.startswith(tuple("=+-@\t\r"))]
    assert list(Report(path, tmp_path).lines.values()) == [line]


def test_a_report_cut_at_any_byte_of_its_last_line_loses_that_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    first = Line("1.jpg", "Ann", "no_face", "Without a face.")
    last = Line('2"\n.jpg', "Bo\nLee", "no_face", 'He said "no",\nand left.')
    report = Report(path, tmp_path)
    report.add([first])
    start = path.stat().st_size
    report.add([last])
    whole = path.read_bytes()
    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        again = Report(path, tmp_path)
        assert list(again.lines.values()) == [first], length
        again.add([last])
        assert path.read_bytes() == whole


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_report_is_its_owners_alone(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"report.{ending}"
    path.touch(0o644)
    report = Report(path, tmp_path)
    report.add([Line("1.jpg", "Ann", "accepted", "stored"), Line("2.jpg", "Bo", "accepted", "x")])
    assert path.stat().st_mode & 0o077 == 0
    report.keep({("1.jpg", "Ann")})
    assert path.stat().st_mode & 0o077 == 0


def test_a_list_reads_nothing_outside_its_folder_and_no_pipe(tmp_path: Path) -> None:
    outside, folder = tmp_path / "secret.jpg", tmp_path / "in"
    outside.write_bytes(b"secret")
    folder.mkdir()
    (folder / "inner.jpg").write_bytes(b"inner")
    (folder / "link.jpg").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "same.jpg").symlink_to("inner.jpg")
    os.mkfifo(folder / "pipe.jpg")
    paths = [
        "../secret.jpg",
        str(outside),
        "link.jpg",
        "linked/secret.jpg",
        "pipe.jpg",
        "/dev/zero",
    ]
    table = folder / "people.csv"
    table.write_text("name,path\n" + "".join(f"Ann,{path}\n" for path in paths))
    for item in open_source(table, 1000):
        with pytest.raises(BadImage):
            item.read()
    table.write_text("name,path\nAnn,inner.jpg\nAnn,same.jpg\n")
    assert [item.read() for item in open_source(table, 1000)] == [b"inner", b"inner"]
    link = next(item for item in open_source(folder, 1000) if item.file == "link.jpg")
    with pytest.raises(BadImage):
        link.read()


def test_texts_of_a_list_are_bounded(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text(f"name,path,consent,note\nAnn,1.jpg,{'x' * 2001},\nBo,2.jpg,,{'x' * 10_001}\n")
    problems = [item.problem for item in open_source(table, 1000)]
    assert [problem and problem.status for problem in problems] == ["bad_row", "bad_row"]


def test_a_part_of_several_zips_is_a_bad_source(tmp_path: Path) -> None:
    file = tmp_path / "part.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("Ann/1.jpg", b"x")
    data = file.read_bytes()
    end = data.rindex(b"PK\5\6")
    # The place of the list that large archives have: on the second disk of two.
    file.write_bytes(data[:end] + b"PK\6\7" + struct.pack("<IQI", 1, 0, 2) + data[end:])
    with pytest.raises(BadSource, match="multiple disks"):
        open_source(file, 1000)


def test_an_entry_without_a_name_is_passed_over(tmp_path: Path) -> None:
    entry = zipfile.ZipInfo("x")
    entry.filename = ""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(entry, b"x")
        archive.writestr("Ann/1.jpg", b"x")
    assert [item.name for item in open_source(tmp_path / "a.zip", 1000)] == ["Ann"]


@pytest.mark.parametrize("stem", ["_" * 60_000, "1" * 60_000 + "a", "Ann" + "_" * 60_000 + "x"])
def test_a_long_name_is_looked_at_once(tmp_path: Path, stem: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(f"{stem}.jpg", b"x")
    started = time.process_time()
    (item,) = open_source(tmp_path / "a.zip", 1000)
    assert time.process_time() - started < 1
    assert item.problem.status == "no_name"
