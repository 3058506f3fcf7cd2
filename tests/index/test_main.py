from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from index.__main__ import main
from index.crypto.keys import parse_key
from index.gallery import Gallery
from tests.index.helpers import MODEL, Faces


@pytest.fixture
def folder(tmp_path: Path, faces: Faces) -> Path:
    with Gallery.open(tmp_path / "data", model_id=MODEL) as gallery:
        for n in range(4):
            gallery.enroll(f"p{n}", faces.photos(n, 2))
    return tmp_path / "data"


def test_stats_sync_and_rebuild(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--data", str(folder)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["people"], facts["photos"], facts["index"]["count"]) == (4, 8, 8)
    assert (facts["model_id"], facts["encrypted"]) == (MODEL, False)
    assert main(["sync", "--data", str(folder)]) == 0
    assert "agree" in capsys.readouterr().out
    assert (folder / "index.cache").exists()
    assert main(["rebuild", "--data", str(folder)]) == 0
    assert "8 photos" in capsys.readouterr().out


def test_export_and_import_into_an_encrypted_gallery(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.faces"
    assert main(["export", "--data", str(folder), str(file)]) == 0
    assert main(["key"]) == 0
    text = capsys.readouterr().out.splitlines()[-1]
    key_file = tmp_path / "key"
    key_file.write_text(text)
    new = ["import", "--data", str(tmp_path / "new"), "--key-file", str(key_file), str(file)]
    assert main([*new, "--model-id", MODEL]) == 0
    assert main(new) == 1
    assert "already" in capsys.readouterr().err
    assert main([*new, "--skip-existing"]) == 0
    with Gallery.open(tmp_path / "new", model_id=MODEL, key=parse_key(text)) as gallery:
        assert gallery.reader.count() == 4


@pytest.mark.parametrize("words", [[], ["--no-thumbnails"]])
def test_an_import_can_leave_the_pictures_of_faces_out(
    folder: Path, tmp_path: Path, words: list[str]
) -> None:
    file, new = tmp_path / "all.faces", tmp_path / "new"
    assert main(["export", "--data", str(folder), str(file)]) == 0
    assert main(["import", "--data", str(new), str(file), "--model-id", MODEL, *words]) == 0
    with Gallery.open(new, model_id=MODEL) as gallery:
        photos = [
            photo
            for person in gallery.reader.iter_people()
            for photo in gallery.reader.photos(person.id)
        ]
        assert len(photos) == 8
        assert {gallery.reader.thumbnail(photo.id) is None for photo in photos} == {bool(words)}


def test_move_to_milvus_and_back(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("milvus_lite", reason="Milvus Lite is not installed")
    url = f"milvus-lite:{tmp_path}/lite.db"
    main(["sync", "--data", str(folder)])
    assert main(["move", "--data", str(folder), "--from", "faiss", "--to", url]) == 0
    assert "8 photos" in capsys.readouterr().out
    assert not (folder / "index.cache").exists()
    assert main(["stats", "--data", str(folder), "--index", url]) == 0
    assert json.loads(capsys.readouterr().out)["index"]["engine"] == "milvus"
    assert main(["move", "--data", str(folder), "--from", url, "--to", "faiss"]) == 0
    assert "emptied" in capsys.readouterr().out
    assert (folder / "index.cache").exists()


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("faiss", "faiss"),
        ("faiss", "auto"),
        ("milvus://nowhere/faces", "milvus://nowhere:19530/faces/?index=HNSW"),
    ],
)
def test_a_move_into_itself_is_refused_and_changes_nothing(
    folder: Path, source: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["sync", "--data", str(folder)])
    before = (folder / "index.cache").read_bytes()
    capsys.readouterr()
    assert main(["move", "--data", str(folder), "--from", source, "--to", target]) == 1
    output = capsys.readouterr()
    assert "are the same index" in output.err
    assert output.out == ""
    assert (folder / "index.cache").read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        ["stats", "--index", "nonsense"],
        ["sync", "--index", ""],
        ["rebuild", "--index", "milvus://host/x?replicas=two"],
        ["move", "--to", "nonsense"],
        ["move", "--from", "nonsense", "--to", "faiss"],
    ],
)
def test_an_address_of_no_index_is_one_sentence(
    folder: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--data", str(folder)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error (index_unavailable): The index address ")
    assert error.count("\n") == 1
    assert not (folder / "index.cache").exists()


def test_a_key_file_is_for_its_owner_and_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gallery.key"
    usual = os.umask(0o022)
    try:
        assert main(["key", "--out", str(file)]) == 0
    finally:
        os.umask(usual)
    text = file.read_text()
    assert len(parse_key(text)) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert text.strip() not in capsys.readouterr().out
    assert main(["key", "--out", str(file)]) == 1
    assert "exists" in capsys.readouterr().err
    assert file.read_text() == text
    assert main(["key", "--out", str(tmp_path / "no" / "folder")]) == 1
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["file/x.faces", "data"])
def test_an_export_that_cannot_be_written_is_one_sentence(
    folder: Path, tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["export", "--data", str(folder), str(tmp_path / target)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error (gallery_error): The export {tmp_path / target} cannot be")
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("*.partial*"))


@pytest.mark.parametrize(
    "content", [b"\xff\xfe" * 16, bytes(32), None], ids=["binary", "zeros", "missing"]
)
def test_a_key_file_that_holds_no_key_is_one_sentence(
    folder: Path, tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gallery.key"
    if content is not None:
        file.write_bytes(content)
    assert main(["stats", "--data", str(folder), "--key-file", str(file)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error (wrong_key): The gallery key ")
    assert str(file) in error
    assert "0xff" not in error
    assert error.count("\n") == 1


def test_a_data_folder_that_cannot_be_made_is_one_sentence(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "all.faces"
    main(["export", "--data", str(folder), str(export)])
    capsys.readouterr()
    command = ["import", "--data", str(export), "--model-id", MODEL, str(export)]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert error.startswith("error (gallery_unavailable): ")
    assert error.count("\n") == 1


def test_errors_are_sentences_and_a_status(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", "--data", str(tmp_path / "nothing")]) == 1
    assert "There is no gallery" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    bad = tmp_path / "bad.key"
    bad.write_text("short")
    assert main(["stats", "--data", str(folder), "--key-file", str(bad)]) == 1
    assert "wrong_key" in capsys.readouterr().err
    Gallery.open(tmp_path / "empty", model_id=MODEL).close()
    assert main(["rebuild", "--data", str(tmp_path / "empty")]) == 1
    assert main(["stats", "--data", str(tmp_path / "empty")]) == 0
