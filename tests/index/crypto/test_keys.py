from __future__ import annotations

from pathlib import Path

import pytest

from index.crypto.keys import key_from, name_key, new_key, parse_key, seal, unseal
from index.gallery import Gallery
from model.errors import WrongKey
from tests.index.helpers import MODEL, Faces

KEY = bytes(range(32))


def test_sealing_needs_key_and_purpose() -> None:
    sealed = seal(KEY, b"secret words", b"profile")
    assert b"secret words" not in sealed
    assert unseal(KEY, sealed, b"profile") == b"secret words"
    assert seal(KEY, b"secret words", b"profile") != sealed
    for key, data, purpose in (
        (bytes(32), sealed, b"profile"),
        (KEY, sealed, b"details"),
        (KEY, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"profile"),
        (KEY, b"", b"profile"),
    ):
        with pytest.raises(WrongKey):
            unseal(key, data, purpose)


def test_keys_are_read_from_text_environment_and_file(tmp_path: Path) -> None:
    text = new_key()
    assert len(parse_key(text)) == 32
    assert parse_key(KEY.hex()) == KEY
    assert key_from({}) is None
    assert key_from({"FACE_GALLERY_KEY": KEY.hex()}) == KEY
    file = tmp_path / "key"
    file.write_text(KEY.hex() + "\n")
    assert key_from({"FACE_GALLERY_KEY_FILE": str(file)}) == KEY
    with pytest.raises(WrongKey, match="32 bytes"):
        parse_key("hunter2")
    with pytest.raises(WrongKey, match="missing"):
        key_from({"FACE_GALLERY_KEY_FILE": str(tmp_path / "missing")})


def test_names_are_compared_without_case_and_spacing() -> None:
    assert name_key("  JOSÉ\tGarcía") == name_key("José garcía")
    assert name_key("Ann") != name_key("Anne")


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_nothing_personal_lies_open_in_an_encrypted_gallery(
    tmp_path: Path, faces: Faces, key: bytes | None
) -> None:
    """With a key the file alone gives nothing away, not even through the row secrets."""
    photos = faces.photos(0)
    with Gallery.open(tmp_path, model_id=MODEL, key=key) as gallery:
        gallery.enroll("Zebulon Quux", photos, {"badge": "K-9000"}, "signed by hand")
        with gallery._db.read() as connection:
            stored = [row[0] for row in connection.execute("SELECT value FROM secrets")]
    assert {len(value) for value in stored} == ({32} if key is None else {60})
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    needles = [b"Zebulon", b"K-9000", b"signed by hand", photos[0].source_name.encode()]
    needles += [photo.thumbnail[-40:] for photo in photos]
    needles += [photo.embedding.vector.astype("<f2").tobytes()[:32] for photo in photos]
    for needle in needles:
        assert needle not in content
    with Gallery.open(tmp_path, model_id=MODEL, key=key) as gallery:
        (person,) = gallery.reader.find_by_name("zebulon quux")
        assert person.metadata == {"badge": "K-9000"}


def test_wrong_missing_and_unexpected_keys_are_told_apart(tmp_path: Path, faces: Faces) -> None:
    with Gallery.open(tmp_path / "sealed", model_id=MODEL, key=KEY) as gallery:
        gallery.enroll("Ada", faces.photos(0))
        assert gallery.encrypted
    with pytest.raises(WrongKey, match="no key was given"):
        Gallery.open(tmp_path / "sealed", model_id=MODEL)
    with pytest.raises(WrongKey, match="another one"):
        Gallery.open(tmp_path / "sealed", model_id=MODEL, key=bytes(32))
    Gallery.open(tmp_path / "plain", model_id=MODEL).close()
    with pytest.raises(WrongKey, match="not encrypted"):
        Gallery.open(tmp_path / "plain", model_id=MODEL, key=KEY)
