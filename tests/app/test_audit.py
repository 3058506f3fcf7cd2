"""The audit log: appended to by many, a changed line shows, nothing biometric in it."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from app.audit import AuditLog
from app.auth import Principal
from app.service import FaceService
from app.usecases.results import Upload
from tests.app.helpers import Photos


def _write_many(file: str, who: str) -> None:
    log = AuditLog(Path(file))
    for number in range(100):
        log.write(who, "test", number=number)


def test_several_processes_write_one_chain(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(str(file), f"p{n}")) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 300
    assert AuditLog(file).check() is None
    for who in ("p0", "p1", "p2"):
        assert [line["number"] for line in lines if line["who"] == who] == list(range(100))


def test_a_line_changed_or_taken_out_shows(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    log = AuditLog(file)
    for number in range(5):
        log.write("a", "test", number=number)
    whole = file.read_text()
    assert log.check() is None
    file.write_text(whole.replace('"number":2', '"number":7'))
    assert log.check() == 3
    # The last line is covered as well, and so is the order.
    file.write_text(whole.replace('"number":4', '"number":7'))
    assert log.check() == 5
    lines = whole.splitlines(keepends=True)
    file.write_text("".join(lines[:1] + lines[2:]))
    assert log.check() == 2
    assert file.stat().st_mode & 0o077 == 0
    assert file.with_suffix(".key").stat().st_mode & 0o077 == 0


def test_a_whole_log_written_anew_without_the_key_shows(tmp_path: Path) -> None:
    log, forged = AuditLog(tmp_path / "audit.jsonl"), AuditLog(tmp_path / "forged.jsonl")
    for each in (log, forged):
        each.write("a", "test")
    assert (log.check(), forged.check()) == (None, None)
    log._lines.file.write_bytes(forged._lines.file.read_bytes())
    assert log.check() == 1
    (tmp_path / "audit.key").unlink()
    assert log.check() == 1


@pytest.mark.parametrize("line", [b"", b'{"when":"20', b"[]", b"7", b"{}", b"\xff", b"[" * 10**5])
def test_a_damaged_line_shows(tmp_path: Path, line: bytes) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    for number in range(3):
        log.write("a", "test", number=number)
    first, _, last = log._lines.file.read_bytes().splitlines()
    log._lines.file.write_bytes(b"\n".join((first, line, last)))
    assert log.check() == 2


def test_a_line_cut_off_by_a_crash_does_not_spoil_the_next(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    for number in range(2):
        log.write("a", "test", number=number)
    log._lines.file.write_bytes(log._lines.file.read_bytes()[:-10])
    for number in range(2, 4):
        log.write("a", "test", number=number)
    lines = log._lines.file.read_bytes().splitlines()
    assert [json.loads(line)["number"] for line in lines[2:]] == [2, 3]
    assert log.check() == 2
    log._lines.file.write_bytes(b"\n".join((lines[0], b"", *lines[2:])))
    assert log.check() == 2


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    AuditLog(None).write("a", "test")
    assert AuditLog(None).check() is None


def test_every_use_case_leaves_who_what_and_verdict(service: FaceService, photos: Photos) -> None:
    ann = service.acting_as(Principal("ann", "admin"))
    ann.verify(photos.collins, photos.hopper)
    person = ann.enroll("Secret Name", [Upload("holiday.jpg", photos.collins)]).person_id
    ann.search(photos.collins_again)
    ann.enroll("X", [Upload("a.jpg", b"")], overrides={"conflict": "twin of Secret Name"})
    ann.rename(person, "Other Secret")
    ann.forget(person)
    text = service.settings.audit_file.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["what"] for line in lines] == [
        "verify", "enroll", "search", "enroll", "rename", "forget",
    ]  # fmt: skip
    assert {line["who"] for line in lines} == {"ann"}
    assert lines[0]["verdict"] == "different"
    assert lines[1]["person"] == lines[5]["person"] == person
    assert lines[2]["verdict"] == [person]
    assert lines[3]["overrides"] == ["conflict"]
    assert "Secret" not in text
    assert "holiday" not in text
    # No vectors, no scores: nothing longer than ids and words.
    assert max(len(line) for line in text.splitlines()) < 300
