"""People, on a real model and a real gallery: enrolled, found, merged, moved and forgotten."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from app.service import FaceService
from app.settings import Settings
from app.usecases.results import Upload
from model.errors import GalleryError, IndexUnavailable, UnknownPerson
from tests.app.helpers import Photos, uploads


def test_enroll_reports_each_photo(service: FaceService, photos: Photos) -> None:
    result = service.enroll(
        "Eileen",
        uploads(photos.collins, photos.collins_again, photos.collins, photos.nobody, photos.both,
                b"junk"),
        consent="signed on paper",
    )  # fmt: skip
    assert [photo.status for photo in result.photos] == [
        "accepted", "accepted", "duplicate", "no_face", "several_faces", "bad_image",
    ]  # fmt: skip
    assert result.created
    assert result.accepted == 2
    person = service.person(result.person_id)
    assert (person.name, person.consent, person.photos) == ("Eileen", "signed on paper", 2)
    stored = service.photos(result.person_id)
    assert [photo.id for photo in stored] == [photo.photo_id for photo in result.photos[:2]]
    assert service.thumbnail(stored[0].id).startswith(b"\xff\xd8")


def test_the_face_meant_can_be_named_when_enrolling(service: FaceService, photos: Photos) -> None:
    result = service.enroll("Eileen", [Upload("both.jpg", photos.both, face=2)])
    assert result.accepted == 1
    found = service.search(photos.collins).faces[0]
    assert found.candidates[0].match.person_id == result.person_id
    assert found.known


def test_a_group_photo_enrolls_each_of_its_people_once(
    service: FaceService, photos: Photos
) -> None:
    grace, eileen = (Upload("both.jpg", photos.both, face=number) for number in (1, 2))
    assert service.enroll("Grace", [grace]).accepted == 1
    assert service.enroll("Eileen", [eileen]).accepted == 1
    for name in ("Eileen", "Somebody Else"):
        again = service.enroll(name, [eileen]).photos[0]
        assert (again.status, again.details["name"]) == ("duplicate", "Eileen")
    assert {person.name: person.photos for person in service.people()} == {"Grace": 1, "Eileen": 1}


def test_a_new_consent_replaces_the_old_one_and_the_same_one_writes_nothing(
    service: FaceService, photos: Photos
) -> None:
    def enrolled(photo: bytes, consent: str) -> tuple[str, bytes]:
        person = service.enroll("Eileen", uploads(photo), consent=consent).person_id
        with service.context.gallery._db.read() as connection:
            (sealed,) = connection.execute("SELECT profile FROM people").fetchone()
        return service.person(person).consent, sealed

    first = enrolled(photos.collins, "on paper")
    # Bytes after the end of a JPEG make another file of it.
    assert enrolled(photos.collins + b"1", "") == first
    assert enrolled(photos.collins + b"2", " on paper ") == first
    assert enrolled(photos.collins + b"3", "by mail")[0] == "by mail"
    assert service.people()[0].photos == 4


def test_the_guard_and_its_override(service: FaceService, photos: Photos) -> None:
    grace = service.enroll("Grace", uploads(photos.hopper)).person_id
    conflict = service.enroll("Somebody Else", uploads(photos.hopper_again))
    assert conflict.photos[0].status == "conflict"
    assert conflict.photos[0].details["person_id"] == grace
    assert conflict.person_id is None
    assert service.count() == 1
    forced = service.enroll(
        "Somebody Else", uploads(photos.hopper_again), overrides={"conflict": "her twin"}
    )
    assert forced.accepted == 1
    assert forced.photos[0].details == {"override": "conflict", "reason": "her twin"}
    assert [photo.note for photo in service.photos(forced.person_id)] == ["conflict: her twin"]
    assert [photo.note for photo in service.photos(grace)] == [""]
    outlier = service.enroll(None, uploads(photos.collins), person_id=grace)
    assert outlier.photos[0].status == "outlier"
    with pytest.raises(ValueError, match="overrides"):
        service.enroll("X", uploads(photos.collins), overrides={"duplicate": "so what"})


def test_one_override_does_not_lift_another(settings: Settings, photos: Photos) -> None:
    strict = dataclasses.replace(settings, min_quality=1.1)
    service = FaceService.open(strict)
    grace = service.enroll(
        "Grace", uploads(photos.hopper), overrides={"poor_quality": "all we have"}
    )
    assert service.photos(grace.person_id)[0].note == "poor quality: all we have"
    both = service.enroll(
        "Else", uploads(photos.hopper_again), overrides={"poor_quality": "all we have"}
    )
    assert both.photos[0].status == "conflict"
    assert service.count() == 1
    service.close()


def test_a_known_name_gets_the_photos_unless_told_otherwise(
    service: FaceService, photos: Photos
) -> None:
    first = service.enroll("Eileen", uploads(photos.collins))
    second = service.enroll("eileen", uploads(photos.collins_again))
    assert second.person_id == first.person_id
    assert not second.created
    other = service.enroll("Eileen", uploads(photos.hopper), new_person=True)
    assert other.created
    assert [person.id for person in service.named("EILEEN ")] == [first.person_id, other.person_id]
    assert service.named("Grace") == []
    with pytest.raises(GalleryError, match="2 people"):
        service.enroll("Eileen", uploads(photos.hopper_again))
    with pytest.raises(UnknownPerson):
        service.enroll(None, uploads(photos.hopper_again), person_id="nobody")


def test_search_finds_everyone_in_a_group_or_nobody(service: FaceService, photos: Photos) -> None:
    empty = service.search(photos.collins)
    assert empty.gallery_size == 0
    assert not empty.faces[0].known
    eileen = service.enroll("Eileen", uploads(photos.collins_again)).person_id
    unknown = service.search(photos.hopper).faces[0]
    assert not unknown.known
    assert unknown.candidates[0].match.person_id == eileen
    grace = service.enroll("Grace", uploads(photos.hopper_again)).person_id
    group = service.search(photos.both)
    best = [face.candidates[0] for face in group.faces]
    assert [each.match.person_id for each in best] == [grace, eileen]
    assert all(each.known and each.match.margin > 0 for each in best)
    assert all(each.match.score >= group.threshold for each in best)
    limit = service.calibration().search_threshold(2, group.target_fpir)
    assert group.threshold == limit.threshold
    assert len(service.search(photos.both, face=2, top=1).faces) == 1


def test_merge_remove_rename_forget(service: FaceService, photos: Photos) -> None:
    one = service.enroll("One", uploads(photos.collins)).person_id
    two = service.enroll(
        "Two", uploads(photos.collins_again), overrides={"conflict": "to be merged"}
    ).person_id
    merged = service.merge(one, two)
    assert merged.photos == 2
    with pytest.raises(UnknownPerson):
        service.person(two)
    with pytest.raises(GalleryError, match="itself"):
        service.merge(one, one)
    assert service.rename(one, " Eileen ").name == "Eileen"
    for name in ("", " \t", "x" * 201, "a\x00b"):
        with pytest.raises(GalleryError, match="name"):
            service.rename(one, name)
    photo = service.photos(one)[0].id
    other = service.enroll("Grace", uploads(photos.hopper)).person_id
    with pytest.raises(UnknownPerson):
        service.remove_photo(other, photo)
    erased = service.remove_photo(one, photo)
    assert erased.photos == 1
    assert erased.complete
    assert service.forget(one).people == 1
    assert service.count() == 1
    assert [c.match.person_id for c in service.search(photos.collins).faces[0].candidates] == [
        other
    ]


def test_forgotten_means_gone_from_every_file(settings: Settings, photos: Photos) -> None:
    service = FaceService.open(settings)
    person = service.enroll("Zebulon Quux", [Upload("zebulon-holiday.jpg", photos.collins)])
    crop = service.thumbnail(person.photos[0].photo_id)
    service.search(photos.collins)
    service.forget(person.person_id)
    service.close()
    for file in settings.data.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert b"Zebulon" not in content, file
            assert b"zebulon" not in content, file
            assert crop[200:264] not in content, file


def test_what_was_enrolled_is_there_after_a_restart(settings: Settings, photos: Photos) -> None:
    service = FaceService.open(settings)
    person = service.enroll("Eileen", uploads(photos.collins)).person_id
    service.close()
    service = FaceService.open(settings)
    assert service.search(photos.collins_again).faces[0].candidates[0].match.person_id == person
    service.close()


def test_export_and_import(settings: Settings, photos: Photos, tmp_path: Path) -> None:
    service = FaceService.open(settings)
    service.enroll("Eileen", uploads(photos.collins))
    assert service.export(tmp_path / "people.face") == 1
    service.close()
    other = FaceService.open(dataclasses.replace(settings, data=tmp_path / "other"))
    assert other.import_(tmp_path / "people.face") == 1
    assert other.search(photos.collins_again).faces[0].known
    other.close()


@pytest.mark.parametrize("keep", [True, False])
def test_an_import_brings_thumbnails_only_where_they_are_kept(
    settings: Settings, photos: Photos, tmp_path: Path, keep: bool
) -> None:
    service = FaceService.open(settings)
    service.enroll("Eileen", uploads(photos.collins))
    service.export(tmp_path / "people.face")
    service.close()
    other = FaceService.open(
        dataclasses.replace(settings, data=tmp_path / "other", keep_thumbnails=keep)
    )
    assert other.import_(tmp_path / "people.face") == 1
    (person,) = other.people()
    (photo,) = other.photos(person.id)
    assert (other.thumbnail(photo.id) is not None) is keep
    other.close()


def test_an_index_that_is_away_is_no_reason_to_keep_anyone(
    service: FaceService, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = service.enroll("Ann", uploads(photos.collins, photos.collins_again)).person_id
    assert person is not None
    photo = service.photos(person)[0].id

    def away() -> int:
        raise IndexUnavailable("The engine is away.")

    monkeypatch.setattr(service.context.search, "sync", away)
    assert not service.remove_photo(person, photo).complete
    assert len(service.photos(person)) == 1
    assert not service.forget(person).complete
    assert service.count() == 0
    with pytest.raises(IndexUnavailable):
        service.enroll("Ann", uploads(photos.collins))
    assert service.count() == 0


def test_a_log_that_cannot_be_written_leaves_nobody_in_the_index(
    service: FaceService, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = service.enroll("Ann", uploads(photos.collins, photos.collins_again)).person_id
    assert person is not None

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(service.audit, "write", full)
    with pytest.raises(OSError, match="disk full"):
        service.forget(person)
    assert service.count() == 0
    assert len(service.context.search.index) == 0
