"""Resume a batch: find the photos that an earlier run already stored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from app.batch.report import Line
from app.batch.sources import Item, Key
from index.crypto.keys import name_key
from index.gallery import Gallery
from model.errors import FaceError


def stored_before(gallery: Gallery, items: Sequence[Item], lines: Mapping[Key, Line]) -> set[Key]:
    """Return the items whose report line is still true: the same photo is stored as it says."""
    return {
        item.key for item in items if item.key in lines and _holds(gallery, item, lines[item.key])
    }


def _holds(gallery: Gallery, item: Item, line: Line) -> bool:
    # Lines of a dry run have no photo id.
    if not line.stored or not line.photo_id:
        return False
    owner = gallery.reader.get_many([line.person_id]).get(line.person_id)
    if owner is None or name_key(owner.name) != name_key(item.name):
        return False
    try:
        digest = hashlib.sha256(item.read()).hexdigest()
    except FaceError:
        return False
    return any(
        (photo.id, photo.person_id) == (line.photo_id, line.person_id)
        for photo in gallery.reader.photos_with_hash(digest)
    )
