"""What an earlier run did that this one need not do again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from app.batch.report import Line
from app.batch.sources import Item, Key
from index.crypto.keys import name_key
from index.gallery import Gallery
from model.errors import FaceError


def stored_before(gallery: Gallery, items: Sequence[Item], lines: Mapping[Key, Line]) -> set[Key]:
    """Items whose line in the report holds: this very photo is in this gallery, as it says."""
    return {
        item.key for item in items if item.key in lines and _holds(gallery, item, lines[item.key])
    }


def _holds(gallery: Gallery, item: Item, line: Line) -> bool:
    # A dry run leaves lines without a photo's id.
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
