from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from index.engines.faiss.index import FaissIndex
from index.engines.open import discard, open_index
from index.engines.sync import catch_up, compare, rebuild, repair, save_cache
from index.gallery import Gallery
from tests.index.helpers import DIMENSION, MODEL, Faces


def test_index_follows_every_kind_of_change(gallery: Gallery, faces: Faces) -> None:
    index = open_index(gallery, dimension=DIMENSION)
    assert catch_up(gallery, index) == 0
    one = gallery.enroll("one", faces.photos(0, 3))
    two = gallery.enroll("two", faces.photos(1, 2))
    assert catch_up(gallery, index) == 5
    gallery.merge(one.id, two.id)
    gallery.remove_photo("2")
    gallery.add_photos(one.id, faces.photos(0, 1))
    assert catch_up(gallery, index) == 4
    assert index.ids().tolist() == [1, 3, 4, 5, 6]
    gallery.forget(one.id)
    catch_up(gallery, index)
    assert len(index) == 0
    assert index.mark == gallery.changes.head()


def test_photo_added_and_dropped_between_two_looks(gallery: Gallery, faces: Faces) -> None:
    index = open_index(gallery, dimension=DIMENSION)
    person = gallery.enroll("one", faces.photos(0, 2))
    gallery.forget(person.id)
    gallery.enroll("two", faces.photos(1, 1))
    catch_up(gallery, index)
    assert index.ids().tolist() == [3]


def test_gallery_restored_from_an_older_copy_is_noticed(tmp_path: Path, faces: Faces) -> None:
    """Sequence numbers are the same again, tokens are not."""
    with Gallery.open(tmp_path / "a", model_id=MODEL) as gallery:
        gallery.enroll("one", faces.photos(0, 2))
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with Gallery.open(tmp_path / "a", model_id=MODEL) as gallery:
        gallery.enroll("two", faces.photos(1, 2))
        index = open_index(gallery)
    with Gallery.open(tmp_path / "copy", model_id=MODEL) as restored:
        other = restored.enroll("other", faces.photos(2, 2))
        assert restored.changes.head().seq == index.mark.seq
        wanted = restored.changes.vectors_of_people([other.id])
        catch_up(restored, index)
        scores, ids = index.search(wanted.vectors[:1].astype(np.float32), 1)
        assert ids[0, 0] == wanted.ids[0]
        assert scores[0, 0] > 0.99
        # And one that is now behind the index.
        shutil.rmtree(tmp_path / "a")
    with Gallery.open(tmp_path / "a", model_id=MODEL) as fresh:
        fresh.enroll("x", faces.photos(3, 1))
        catch_up(fresh, index)
        assert index.ids().tolist() == [1]


def test_compare_and_repair_name_what_differs(gallery: Gallery, faces: Faces) -> None:
    gallery.enroll("one", faces.photos(0, 3))
    index = open_index(gallery)
    index.remove(np.array([2]))
    index.add(np.array([99]), faces.centres[:1], ["ghost"])
    found = repair(gallery, index)
    assert (found.photos, found.missing, found.surplus) == (3, (2,), (99,))
    assert not found.whole
    assert compare(gallery, index).whole


def test_repair_keeps_what_is_enrolled_before_the_index_is_read(
    gallery: Gallery, faces: Faces
) -> None:
    class Busy(FaissIndex):
        def ids(self) -> np.ndarray:
            if gallery.reader.count() == 1:
                gallery.enroll("late", faces.photos(1, 2))
                catch_up(gallery, self)
            return super().ids()

    gallery.enroll("one", faces.photos(0, 3))
    index = Busy(DIMENSION)
    assert repair(gallery, index).whole
    assert len(index) == 5


def test_repair_keeps_what_is_enrolled_after_the_gallery_is_read(
    gallery: Gallery, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo_ids = gallery.changes.photo_ids

    def then_enroll() -> np.ndarray:
        before = photo_ids()
        if gallery.reader.count() == 1:
            gallery.enroll("late", faces.photos(1, 1))
            catch_up(gallery, index)
        return before

    monkeypatch.setattr(gallery.changes, "photo_ids", then_enroll)
    gallery.enroll("one", faces.photos(0, 3))
    index = open_index(gallery)
    # Left over from before the gallery was restored; 4 is the next number it gives.
    index.add(np.array([4, 99]), faces.centres[:2], [])
    assert repair(gallery, index).surplus == (4, 99)
    assert index.ids().tolist() == [1, 2, 3, 4]


def test_changes_made_while_rebuilding_are_included(gallery: Gallery, faces: Faces) -> None:
    for n in range(5):
        gallery.enroll(f"p{n}", faces.photos(n, 2))

    class Slow(FaissIndex):
        def rebuild(self, chunks: object, mark: object) -> None:
            super().rebuild(chunks, mark)
            if gallery.reader.count() == 5:
                gallery.enroll("late", faces.photos(6, 2))
                gallery.remove_photo("1")

    index = Slow(DIMENSION)
    rebuild(gallery, index)
    assert compare(gallery, index).whole
    assert len(index) == 11


def test_choice_of_engine_is_checked(gallery: Gallery, faces: Faces) -> None:
    with pytest.raises(ValueError, match="empty"):
        open_index(gallery)
    with pytest.raises(ValueError, match="milvus://"):
        open_index(gallery, "redis://x", dimension=DIMENSION)
    gallery.enroll("one", faces.photos(0, 1))
    with pytest.raises(ValueError, match="64"):
        open_index(gallery, dimension=128)
    assert open_index(gallery, "auto").stats().engine == "faiss"


def test_discard_deletes_the_cache(gallery: Gallery, faces: Faces) -> None:
    gallery.enroll("one", faces.photos(0, 1))
    save_cache(gallery, open_index(gallery))
    assert (gallery.folder / "index.cache").exists()
    discard(gallery, "faiss")
    assert not (gallery.folder / "index.cache").exists()
