"""The contract of a gallery, held on both databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.gallery import Gallery
from index.types import Counts
from model.errors import BundleMismatch, GalleryError, UnknownPerson
from model.types import Embedding
from tests.index.conftest import Place
from tests.index.helpers import MODEL, Faces, unit


@pytest.fixture
def gallery(place: Place) -> Iterator[Gallery]:
    with place.open() as opened:
        yield opened


def test_enrolled_person_is_read_back_whole(gallery: Gallery, faces: Faces) -> None:
    photos = faces.photos(0)
    person = gallery.enroll("Ada  Lovelace ", photos, {"team": "engine"}, "signed 2024-05-01")
    assert gallery.reader.get(person.id) == person
    assert (person.name, person.metadata, person.consent, person.photos) == (
        "Ada Lovelace",
        {"team": "engine"},
        "signed 2024-05-01",
        3,
    )
    stored = gallery.reader.photos(person.id)
    assert [(p.content_hash, p.quality, p.source_name, p.note) for p in stored] == [
        (p.content_hash, p.quality, p.source_name, p.note) for p in photos
    ]
    assert [gallery.reader.thumbnail(p.id) for p in stored] == [p.thumbnail for p in photos]
    (chunk,) = gallery.changes.iter_embeddings()
    assert chunk.people == [person.id] * 3
    expected = np.array([p.embedding.vector for p in photos]).astype(np.float16)
    assert np.array_equal(chunk.vectors, expected)


def test_everything_survives_reopening(place: Place, faces: Faces) -> None:
    with place.open() as first:
        person = first.enroll("Ada", faces.photos(0))
        head = first.changes.head()
    with place.open() as again:
        assert again.reader.get(person.id) == person
        assert again.changes.head() == head


def test_names_are_found_ignoring_case_and_spacing(gallery: Gallery, faces: Faces) -> None:
    first = gallery.enroll("José  García", faces.photos(0, 1))
    second = gallery.enroll("JOSÉ GARCÍA", faces.photos(1, 1))
    gallery.enroll("Someone Else", faces.photos(2, 1))
    assert [p.id for p in gallery.reader.find_by_name(" josé garcía")] == [first.id, second.id]
    assert gallery.reader.find_by_name("josé") == []


def test_people_are_paged_and_filtered(gallery: Gallery, faces: Faces) -> None:
    names = [f"{'Ann' if n % 2 else 'Bob'} {n}" for n in range(10)]
    for n, name in enumerate(names):
        gallery.enroll(name, faces.photos(n, 1))
    assert [p.name for p in gallery.reader.people(limit=3, offset=4)] == names[4:7]
    assert [p.name for p in gallery.reader.people(limit=2, offset=1, query="ANN")] == [
        "Ann 3",
        "Ann 5",
    ]
    assert [p.name for p in gallery.reader.iter_people(chunk=3)] == names
    assert gallery.reader.count() == 10
    with pytest.raises(ValueError, match="negative"):
        gallery.reader.people(limit=-1)


def test_rename_and_update(gallery: Gallery, faces: Faces) -> None:
    person = gallery.enroll("Old", faces.photos(0), {"a": 1}, "yes")
    renamed = gallery.rename(person.id, "New")
    assert (renamed.name, renamed.metadata, renamed.consent) == ("New", {"a": 1}, "yes")
    assert gallery.reader.find_by_name("Old") == []
    assert [p.id for p in gallery.reader.find_by_name("new")] == [person.id]
    assert gallery.update(person.id, metadata={"b": 2}).metadata == {"b": 2}
    assert renamed.updated >= person.updated


def test_merge_moves_photos_and_logs_them(gallery: Gallery, faces: Faces) -> None:
    keep = gallery.enroll("Keep", faces.photos(0, 2))
    gone = gallery.enroll("Gone", faces.photos(0, 3))
    before = gallery.changes.head().seq
    moved = [int(p.id) for p in gallery.reader.photos(gone.id)]
    merged = gallery.merge(keep.id, gone.id)
    assert (merged.name, merged.photos) == ("Keep", 5)
    with pytest.raises(UnknownPerson):
        gallery.reader.get(gone.id)
    assert [(c.operation, c.photo) for c in gallery.changes.since(before)] == [
        ("put", number) for number in moved
    ]
    assert set(gallery.changes.owners(moved).values()) == {keep.id}
    assert gallery.reader.counts().people == 1
    with pytest.raises(ValueError, match="itself"):
        gallery.merge(keep.id, keep.id)


def test_removed_photo_is_gone_and_numbers_are_not_reused(gallery: Gallery, faces: Faces) -> None:
    person = gallery.enroll("Ada", faces.photos(0, 2))
    last = gallery.reader.photos(person.id)[-1]
    erased = gallery.remove_photo(last.id)
    assert (erased.person_id, erased.people, erased.photos, erased.thumbnails) == (
        person.id,
        0,
        1,
        1,
    )
    assert erased.complete
    assert len(gallery.reader.photos(person.id)) == 1
    added = gallery.add_photos(person.id, faces.photos(0, 1))
    assert added.photos == 2
    assert int(gallery.reader.photos(person.id)[-1].id) > int(last.id)
    for nonsense in (last.id, "no", "-1"):
        with pytest.raises(UnknownPerson):
            gallery.remove_photo(nonsense)
        with pytest.raises(UnknownPerson):
            gallery.reader.thumbnail(nonsense)


def test_unknown_people_are_named_in_the_error(gallery: Gallery) -> None:
    for action in (gallery.reader.get, gallery.forget, gallery.reader.photos):
        with pytest.raises(UnknownPerson, match="nobody"):
            action("nobody")


def test_photos_are_found_by_content_hash(gallery: Gallery, faces: Faces) -> None:
    person = gallery.enroll("Ada", [faces.photo(0, content_hash="abc")])
    assert [p.person_id for p in gallery.reader.photos_with_hash("abc")] == [person.id]
    assert gallery.reader.photos_with_hash("abd") == []


def test_models_are_never_mixed(
    gallery: Gallery, faces: Faces, place: Place, new_place: Callable[[], Place]
) -> None:
    photo = faces.photo(0)
    foreign = replace(photo, embedding=Embedding(photo.embedding.vector, "model-b"))
    with pytest.raises(BundleMismatch, match="model-b"):
        gallery.enroll("Ada", [foreign])
    with pytest.raises(BundleMismatch, match=r"model-a.*No photo is stored in it"):
        place.open(model_id="model-b")
    gallery.enroll("Ada", [photo])
    with pytest.raises(BundleMismatch, match=r"model-a.*enroll everyone again"):
        place.open(model_id="model-b")
    longer = replace(photo, embedding=Embedding(unit(np.ones(128)), MODEL))
    with pytest.raises(BundleMismatch, match="128"):
        gallery.enroll("Bob", [longer])
    with pytest.raises(BundleMismatch, match="128"):
        place.open(model_id=MODEL, dimension=128)
    assert gallery.reader.count() == 1
    with pytest.raises(GalleryError, match="no gallery"):
        new_place().open(model_id=None)


@pytest.mark.parametrize(
    "vector", [np.ones(64), np.zeros(64), np.full(64, np.nan), np.ones((1, 64)) / 8]
)
def test_only_unit_vectors_are_stored(gallery: Gallery, faces: Faces, vector: np.ndarray) -> None:
    with pytest.raises(ValueError, match="unit vector"):
        gallery.enroll("Ada", [faces.photo(0, embedding=Embedding(vector, MODEL))])
    assert gallery.reader.counts().photos == 0


def test_names_and_ids_are_checked(gallery: Gallery, faces: Faces) -> None:
    for name in ("", "  ", "x" * 201):
        with pytest.raises(ValueError, match="1 to 200"):
            gallery.enroll(name, faces.photos(0))
    gallery.enroll("Ada", faces.photos(0), person_id="p1")
    with pytest.raises(GalleryError, match="p1"):
        gallery.enroll("Bob", faces.photos(1), person_id="p1")
    with pytest.raises(ValueError, match="JSON"):
        gallery.enroll("Cy", faces.photos(2), {"x": object()})


def test_failed_batch_leaves_nothing_and_inner_failure_only_itself(
    gallery: Gallery, faces: Faces
) -> None:
    def broken() -> None:
        with gallery.batch():
            gallery.enroll("Ada", faces.photos(0))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        broken()
    assert (gallery.reader.count(), gallery.changes.head().seq) == (0, 0)
    with gallery.batch():
        gallery.enroll("Ada", faces.photos(0), person_id="p")
        with pytest.raises(GalleryError):
            gallery.enroll("Bob", faces.photos(1), person_id="p")
    assert [p.name for p in gallery.reader.people()] == ["Ada"]


def test_a_large_batch_keeps_what_did_not_fail(gallery: Gallery, faces: Faces) -> None:
    kept = []
    with gallery.batch():
        for number in range(300):
            with suppress(ZeroDivisionError), gallery.batch():
                person = gallery.enroll(f"person {number}", faces.photos(number % 50, 2))
                if number == 7:
                    gallery.reader.get(person.id)  # the rows have reached the database
                if number % 3:
                    kept.append(person)
                else:
                    raise ZeroDivisionError
    assert list(gallery.reader.iter_people()) == kept
    assert gallery.reader.counts() == Counts(len(kept), 2 * len(kept))
    log = gallery.changes.since(0)
    assert [change.seq for change in log] == list(range(1, 2 * len(kept) + 1))
    assert [change.photo for change in log] == gallery.changes.photo_ids().tolist()


def test_followers_see_only_committed_changes(gallery: Gallery, faces: Faces) -> None:
    with gallery.batch():
        gallery.enroll("Ada", faces.photos(0))
        assert gallery.reader.count() == 1
        assert gallery.changes.head().seq == 0
        assert gallery.changes.since(0) == []
        assert list(gallery.changes.iter_embeddings()) == []
        assert gallery.changes.photo_ids().tolist() == []
    assert gallery.changes.head().seq == 3
    gallery.remove_photo("2")
    assert gallery.changes.photo_ids().tolist() == [1, 3]


def test_threads_write_and_read_at_once(gallery: Gallery) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            faces = Faces(seed=number)
            for n in range(10):
                person = gallery.enroll(f"t{number} {n}", faces.photos(n, 2))
                assert gallery.reader.get(person.id).photos == 2
                assert len(gallery.reader.photos(person.id)) == 2
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert gallery.reader.counts().people == 60
    assert [c.seq for c in gallery.changes.since(0)] == list(range(1, 121))


def test_closed_gallery_says_so(gallery: Gallery) -> None:
    gallery.close()
    with pytest.raises(GalleryError, match="closed"):
        gallery.reader.count()


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["enroll", "add", "remove", "merge", "forget", "rename"]),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=25,
)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(actions=ACTIONS)
def test_any_history_leaves_counts_log_and_rows_in_agreement(
    new_place: Callable[[], Place], actions: list[tuple[str, int, int]]
) -> None:
    """A dictionary plays the gallery; the change log replayed gives the photos there are."""
    faces = Faces(seed=1)
    oracle: dict[str, set[int]] = {}
    with new_place().open() as gallery:
        for action, a, b in actions:
            ids = sorted(oracle)
            if action == "enroll":
                person = gallery.enroll(
                    f"n{a}", faces.photos(a, b % 3), person_id=f"{len(ids)}-{a}-{b}-{faces.made}"
                )
                oracle[person.id] = {int(p.id) for p in gallery.reader.photos(person.id)}
            elif not ids:
                continue
            else:
                one, two = ids[a % len(ids)], ids[b % len(ids)]
                if action == "add":
                    gallery.add_photos(one, faces.photos(a, 1))
                    oracle[one] = {int(p.id) for p in gallery.reader.photos(one)}
                elif action == "remove" and oracle[one]:
                    gone = min(oracle[one])
                    gallery.remove_photo(str(gone))
                    oracle[one].discard(gone)
                elif action == "merge" and one != two:
                    gallery.merge(one, two)
                    oracle[one] |= oracle.pop(two)
                elif action == "forget":
                    gallery.forget(one)
                    del oracle[one]
                elif action == "rename":
                    gallery.rename(one, f"r{b}")
        replayed: set[int] = set()
        for change in gallery.changes.since(0):
            (replayed.add if change.operation == "put" else replayed.discard)(change.photo)
        owners = {number: person for person, numbers in oracle.items() for number in numbers}
        assert replayed == set(owners)
        held = {
            int(n): p
            for c in gallery.changes.iter_embeddings()
            for n, p in zip(c.ids, c.people, strict=True)
        }
        assert held == owners
        assert (gallery.reader.counts().people, gallery.reader.counts().photos) == (
            len(oracle),
            len(owners),
        )
