"""A gallery moves to another database and back, also after it was cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from index.__main__ import main
from index.gallery import Gallery, move
from index.gallery.move import content, move_gallery
from model.errors import BundleMismatch, GalleryError
from tests.index.conftest import Place
from tests.index.helpers import MODEL, Faces
from tests.index.postgresql_server import PostgresServer


@pytest.fixture
def source(gallery: Gallery, faces: Faces) -> Gallery:
    for n in range(12):
        gallery.enroll(f"Pérson {n}", faces.photos(n, n % 4), {"n": n}, "yes", created=1000.0 + n)
    person = gallery.reader.people()[1]
    gallery.add_photos(person.id, [faces.photo(0, thumbnail=None, quality=None)])
    return gallery


def test_everyone_moves_and_a_second_run_copies_nobody(source: Gallery, place: Place) -> None:
    with place.open() as target:
        moved = move_gallery(source, target)
        assert moved.agrees
        assert (moved.copied, moved.target.people, moved.target.photos) == (12, 12, 19)
        assert [p.id for p in target.reader.people()] == [p.id for p in source.reader.people()]
        assert target.reader.people() == source.reader.people()
        assert move_gallery(source, target).copied == 0


def test_a_move_that_is_cut_off_continues(
    source: Gallery, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move, "PEOPLE_AT_ONCE", 5)
    with place.open() as target:
        enroll, calls = target.enroll, []

        def cut_off(*args: object, **options: object) -> object:
            calls.append(1)
            if len(calls) == 8:
                raise KeyboardInterrupt
            return enroll(*args, **options)

        monkeypatch.setattr(target, "enroll", cut_off)
        with pytest.raises(KeyboardInterrupt):
            move_gallery(source, target)
        assert target.reader.count() == 5
        assert content(target) != content(source)
        monkeypatch.setattr(target, "enroll", enroll)
        moved = move_gallery(source, target)
        assert moved.agrees
        assert moved.copied == 7


def test_changes_made_since_are_carried_over(source: Gallery, place: Place, faces: Faces) -> None:
    with place.open() as target:
        move_gallery(source, target)
        first, second, third = source.reader.people(limit=3)
        source.forget(first.id)
        source.add_photos(second.id, faces.photos(1, 1))
        source.rename(third.id, "Renamed")
        moved = move_gallery(source, target)
        assert (moved.copied, moved.removed) == (2, 1)
        assert moved.agrees
        assert target.reader.find_by_name("Renamed") == source.reader.find_by_name("Renamed")


def test_a_gallery_in_use_and_another_model_are_refused(
    source: Gallery, place: Place, tmp_path: Path, faces: Faces
) -> None:
    with place.open() as target:
        target.enroll("Already here", faces.photos(40))
        with pytest.raises(GalleryError, match="did not come"):
            move_gallery(source, target)
        assert target.reader.count() == 1
    other = Gallery.open(tmp_path / "b", model_id="model-b")
    with other, pytest.raises(BundleMismatch):
        move_gallery(source, other)


def test_the_command_moves_to_postgresql_and_back(
    source: Gallery,
    postgresql: PostgresServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there, back = postgresql.new_gallery(), str(tmp_path / "back")
    assert main(["move-gallery", "--from", str(source.folder), "--to", there]) == 0
    assert content(source).checksum in capsys.readouterr().out
    assert main(["move-gallery", "--from", there, "--to", back]) == 0
    with Gallery.open(back, model_id=MODEL) as again:
        assert content(again) == content(source)
    assert main(["move-gallery", "--from", back, "--to", back]) == 1
    assert main(["move-gallery", "--from", str(tmp_path / "nothing"), "--to", there]) == 1
    assert main(["stats", "--data", str(tmp_path / "cache"), "--gallery", there]) == 0
