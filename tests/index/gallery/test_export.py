from __future__ import annotations

import errno
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from index.gallery import Gallery
from model.errors import BundleMismatch, GalleryError, WrongKey
from tests.index.helpers import DIMENSION, MODEL, Faces

KEY = bytes(range(32))


def filled(folder: Path, key: bytes | None = None) -> Gallery:
    faces = Faces()
    gallery = Gallery.open(folder, model_id=MODEL, key=key)
    for n in range(5):
        gallery.enroll(f"Pérson {n}", faces.photos(n, n), {"n": n}, "yes")
    gallery.add_photos(
        gallery.reader.people()[0].id, [faces.photo(0, thumbnail=None, quality=None)]
    )
    return gallery


def summary(gallery: Gallery) -> list:
    vectors = {
        int(i): v.tobytes()
        for c in gallery.changes.iter_embeddings()
        for i, v in zip(c.ids, c.vectors, strict=True)
    }
    return [
        (
            person.id,
            person.name,
            person.metadata,
            person.consent,
            person.created,
            person.updated,
            [
                (
                    p.content_hash,
                    p.quality,
                    p.source_name,
                    p.note,
                    p.created,
                    gallery.reader.thumbnail(p.id),
                    vectors[int(p.id)],
                )
                for p in gallery.reader.photos(person.id)
            ],
        )
        for person in gallery.reader.iter_people()
    ]


@pytest.mark.parametrize("source_key", [None, KEY], ids=["plain", "sealed"])
@pytest.mark.parametrize("target_key", [None, KEY], ids=["plain", "sealed"])
def test_everything_arrives(
    tmp_path: Path, source_key: bytes | None, target_key: bytes | None
) -> None:
    plain = source_key is not None and target_key is None
    with filled(tmp_path / "a", source_key) as source:
        file = source.export(tmp_path / "people.faces", plain=plain)
        expected = summary(source)
    with Gallery.open(tmp_path / "b", model_id=MODEL, key=target_key) as target:
        assert target.import_(file) == 5
        assert summary(target) == expected
    assert list(tmp_path.glob("*.partial*")) == []


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_thumbnails_can_be_left_out(tmp_path: Path, key: bytes | None) -> None:
    with filled(tmp_path / "a", key) as source:
        file = source.export(tmp_path / "people.faces")
        wanted = [row[:6] for row in summary(source)]
        assert source.reader.thumbnail("1") is not None
    with Gallery.open(tmp_path / "b", model_id=MODEL, key=key) as target:
        assert target.import_(file, thumbnails=False) == 5
        assert [row[:6] for row in summary(target)] == wanted
        photos = [
            photo
            for person in target.reader.iter_people()
            for photo in target.reader.photos(person.id)
        ]
        assert len(photos) == 11
        assert all(target.reader.thumbnail(photo.id) is None for photo in photos)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, key: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with filled(tmp_path / "a", key) as source:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(GalleryError, match="No space left on device"):
            source.export(tmp_path / "x.faces")
    assert list(tmp_path.glob("x.faces*")) == []


def test_encrypted_export_needs_the_key(tmp_path: Path) -> None:
    with filled(tmp_path / "a", KEY) as source:
        file = source.export(tmp_path / "x")
    assert b"people.jsonl" not in file.read_bytes()
    with Gallery.open(tmp_path / "b", model_id=MODEL) as target, pytest.raises(WrongKey):
        target.import_(file)
    with (
        Gallery.open(tmp_path / "c", model_id=MODEL, key=bytes(32)) as target,
        pytest.raises(WrongKey),
    ):
        target.import_(file)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_damage_is_found_before_anything_is_stored(tmp_path: Path, key: bytes | None) -> None:
    with filled(tmp_path / "a", key) as source:
        good = source.export(tmp_path / "x").read_bytes()
    random = np.random.default_rng(0)
    spots = random.integers(0, len(good), 12)
    with Gallery.open(tmp_path / "b", model_id=MODEL, key=key) as target:
        bad_file = tmp_path / "bad"
        refused = 0
        for spot in spots:
            bad = bytearray(good)
            bad[spot] ^= 0x55
            bad_file.write_bytes(bytes(bad))
            try:
                target.import_(bad_file)
            except (GalleryError, WrongKey):
                refused += 1
                assert target.reader.count() == 0
            else:
                # The flip fell on a byte that carries nothing, such as a date in the archive.
                for person in target.reader.people():
                    target.forget(person.id)
        assert refused >= 9
        bad_file.write_bytes(good[: len(good) // 2])
        with pytest.raises((GalleryError, WrongKey)):
            target.import_(bad_file)
        assert target.reader.count() == 0


def test_changed_member_is_named(tmp_path: Path) -> None:
    with filled(tmp_path / "a") as source:
        file = source.export(tmp_path / "x")
    forged = tmp_path / "forged"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(forged, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data.replace(b"rson 3", b"rson 9") if "people" in name else data)
    with (
        Gallery.open(tmp_path / "b", model_id=MODEL) as target,
        pytest.raises(GalleryError, match=r"people\.jsonl has a wrong checksum"),
    ):
        target.import_(forged)


def test_known_people_stop_or_are_skipped(tmp_path: Path) -> None:
    with filled(tmp_path / "a") as gallery:
        file = gallery.export(tmp_path / "x")
        forgotten = gallery.reader.people()[3]
        before = summary(gallery)
        gallery.forget(forgotten.id)
        with pytest.raises(GalleryError, match="already"):
            gallery.import_(file)
        assert gallery.reader.count() == 4
        assert gallery.import_(file, existing="skip") == 1
        assert sorted(summary(gallery)) == sorted(before)
        with pytest.raises(ValueError, match="overwrite"):
            gallery.import_(file, existing="overwrite")


def test_vectors_of_another_length_do_not_spoil_an_empty_gallery(tmp_path: Path) -> None:
    with Gallery.open(tmp_path / "a", model_id=MODEL) as source:
        source.enroll("Short", Faces(dimension=8).photos(0))
        file = source.export(tmp_path / "x")
    with Gallery.open(tmp_path / "b", model_id=MODEL, dimension=DIMENSION) as target:
        with pytest.raises(BundleMismatch, match=f"vectors of {DIMENSION} numbers, not of 8"):
            target.import_(file)
        assert (target.reader.count(), target.reader.dimension()) == (0, DIMENSION)
        target.enroll("Ada", Faces().photos(0))


def test_other_model_and_newer_format_are_refused(tmp_path: Path) -> None:
    with filled(tmp_path / "a") as source:
        file = source.export(tmp_path / "x")
    with (
        Gallery.open(tmp_path / "b", model_id="model-b") as target,
        pytest.raises(BundleMismatch, match="model-a"),
    ):
        target.import_(file)
    newer = tmp_path / "newer"
    with zipfile.ZipFile(newer, "w") as archive:
        archive.writestr("manifest.json", json.dumps({"format": "face-gallery", "version": 99}))
    with (
        Gallery.open(tmp_path / "c", model_id=MODEL) as target,
        pytest.raises(GalleryError, match="newer"),
    ):
        target.import_(newer)
