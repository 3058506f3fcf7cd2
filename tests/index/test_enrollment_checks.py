from __future__ import annotations

import pytest

from index.enrollment_checks import EnrollmentChecks
from index.gallery import Gallery
from index.search import PeopleSearch
from model.errors import EnrollmentConflict
from tests.index.helpers import DIMENSION, Faces


@pytest.fixture
def search(gallery: Gallery) -> PeopleSearch:
    return PeopleSearch.open(gallery, dimension=DIMENSION)


@pytest.fixture
def guard(search: PeopleSearch) -> EnrollmentChecks:
    return EnrollmentChecks(search, conflict=lambda met: 0.6, outlier=0.4, min_quality=0.5)


def codes(guard: EnrollmentChecks, *args: object, **options: object) -> list[tuple[str, int]]:
    return [(f.code, f.photo) for f in guard.check(*args, **options)]


def test_good_photos_pass(guard: EnrollmentChecks, gallery: Gallery, faces: Faces) -> None:
    person = gallery.enroll("Ada", faces.photos(0))
    assert codes(guard, faces.photos(1), name="Bob") == []
    assert codes(guard, faces.photos(0), name="Ada", person_id=person.id) == []


def test_same_photo_again(guard: EnrollmentChecks, gallery: Gallery, faces: Faces) -> None:
    photo = faces.photo(0)
    person = gallery.enroll("Ada", [photo])
    (finding,) = guard.check([photo], name="Ada", person_id=person.id)
    assert (finding.code, finding.person_id, finding.name) == ("same_photo", person.id, "Ada")
    other = faces.photo(2)
    assert codes(guard, [other, other], name="Cy") == [("same_photo", 1)]
    with gallery.batch():
        gallery.add_photos(person.id, [other])
        assert ("same_photo", 0) in codes(guard, [other], name="Cy")


def test_faces_of_a_group_photo_are_photos_of_their_own(
    guard: EnrollmentChecks, gallery: Gallery, faces: Faces
) -> None:
    ada, bob = (faces.photo(person, content_hash="group") for person in range(2))
    gallery.enroll("Ada", [ada])
    assert codes(guard, [bob], name="Bob") == []
    stored = gallery.enroll("Bob", [bob])
    found = guard.check([bob], name="Cy")
    assert [(f.code, f.person_id) for f in found if f.code == "same_photo"] == [
        ("same_photo", stored.id)
    ]
    cy, dan = (faces.photo(person, content_hash="other group") for person in (2, 3))
    assert "same_photo" not in dict(codes(guard, [cy, dan], name="Cy"))


def test_same_face_under_another_name_and_under_its_own(
    guard: EnrollmentChecks, gallery: Gallery, faces: Faces
) -> None:
    person = gallery.enroll("Ada", faces.photos(0))
    (finding,) = guard.check(faces.photos(0, 1), name="Eve")
    assert (finding.code, finding.person_id, finding.limit) == ("other_name", person.id, 0.6)
    assert finding.score > 0.6
    assert "Ada" in finding.message
    assert codes(guard, faces.photos(0, 1), name=" ADA") == [("already_enrolled", 0)]


def test_conflict_is_seen_when_photos_go_to_an_existing_person(
    guard: EnrollmentChecks, gallery: Gallery, faces: Faces
) -> None:
    ada = gallery.enroll("Ada", faces.photos(0))
    gallery.enroll("Eve", faces.photos(1))
    found = codes(guard, faces.photos(1, 1), name="Ada", person_id=ada.id)
    assert found == [("other_name", 0), ("outlier", 0)]


def test_outlier_among_a_persons_own_photos(guard: EnrollmentChecks, faces: Faces) -> None:
    photos = [*faces.photos(0, 3), faces.photo(1), faces.photo(0)]
    assert codes(guard, photos, name="Ada") == [("outlier", 3)]
    assert codes(guard, [faces.photo(0)], name="Ada") == []


def test_poor_quality(guard: EnrollmentChecks, faces: Faces) -> None:
    photos = [
        faces.photo(0, quality=0.49),
        faces.photo(0, quality=0.5),
        faces.photo(0, quality=None),
    ]
    assert codes(guard, photos, name="Ada") == [("poor_quality", 0)]


def test_check_and_enrollment_in_one_batch(
    guard: EnrollmentChecks, gallery: Gallery, search: PeopleSearch, faces: Faces
) -> None:
    """The refused enrollment stores nothing, and the index never sees it."""
    gallery.enroll("Ada", faces.photos(0))

    def attempt() -> None:
        with gallery.batch():
            gallery.enroll("Bob", faces.photos(1))
            photos = faces.photos(0, 1)
            assert codes(guard, photos, name="Bob") == [("other_name", 0)]
            raise EnrollmentConflict("refused")

    with pytest.raises(EnrollmentConflict):
        attempt()
    assert [p.name for p in gallery.reader.people()] == ["Ada"]
    search.sync()
    assert len(search.index) == 3


def test_conflict_threshold_may_depend_on_gallery_size(
    search: PeopleSearch, gallery: Gallery, faces: Faces
) -> None:
    gallery.enroll("Ada", faces.photos(0))
    held = gallery.reader.counts().photos
    strict = EnrollmentChecks(search, conflict=lambda met: 2.0 if met == held else 0.0, outlier=-1)
    assert codes(strict, faces.photos(0, 1), name="Eve") == []
