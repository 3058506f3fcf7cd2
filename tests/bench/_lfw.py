"""Where the measurements find Labeled Faces in the Wild."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.paths import ROOT


def lfw_photos(folder: Path | None = None, *, people: str | None = None) -> list[Path]:
    """Paths of LFW's photos, sorted.

    Args:
        folder: The folder that holds ``lfw_funneled/`` and the protocol lists; by default
            ``data/lfw_home`` in the folder FACE_SHARED names, or in ``shared`` beside the project.
        people: Keep only the people of this protocol list, such as ``peopleDevTrain.txt``.
    """
    if folder is None:
        shared = Path(os.environ.get("FACE_SHARED", ROOT.parent / "shared"))
        folder = shared / "data" / "lfw_home"
    photos = sorted((folder / "lfw_funneled").glob("*/*.jpg"))
    if not photos:
        sys.exit(f"No photos in {folder / 'lfw_funneled'}; give the folder with --lfw.")
    if people is None:
        return photos
    lines = (folder / people).read_text().splitlines()
    names = {line.split("\t")[0] for line in lines if "\t" in line}
    return [photo for photo in photos if photo.parent.name in names]
