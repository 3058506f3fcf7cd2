"""Whose photo a file of a folder or zip is, from where it lies and what it is called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePath

_NUMBERED = re.compile(r"(.+?)[ _.-]*\d+")
_WORDS_OF_CAMERAS = {"dsc", "dscf", "dscn", "face", "image", "img", "photo", "pic", "picture",
                     "pxl", "scan", "screenshot"}  # fmt: skip


def people_of(paths: Sequence[PurePath], *, wrapped: bool = True) -> list[str | None]:
    """Whose photo each path of a source is; None where it does not say.

    Folders that wrap all photos name nobody. Below them the first folder names the person; a
    photo in no folder is named by its file, as in ``Ann_Lee_0001.jpg``. When all photos lie in
    one folder, it names their person unless most files name one themselves.

    Args:
        paths: The photos.
        wrapped: A folder around all of them may be there for their being packed together, as in
            a zip file. If not, the one they lie in names the person whatever the files are called.
    """
    root = _wrapping(paths)
    below = [path.parts[len(root) :] for path in paths]
    if root and all(len(parts) == 1 for parts in below):
        named = [_from_file(path) for path in paths]
        if not wrapped or 2 * sum(name is not None for name in named) < len(paths):
            return [next(filter(None, map(_name, reversed(root))), None)] * len(paths)
    return [
        _name(parts[0]) if len(parts) > 1 else _from_file(path)
        for path, parts in zip(paths, below, strict=True)
    ]


def _wrapping(paths: Sequence[PurePath]) -> tuple[str, ...]:
    """The folders all photos lie in, down to the one that holds people."""
    levels = zip(*(path.parts[:-1] for path in paths), strict=False)
    shared = takewhile(lambda folders: len(set(folders)) == 1, levels)
    root = tuple(folders[0] for folders in shared)
    # Ann/2023 and Ann/2024 are no people: the folder above them is one.
    while root and any(
        len(path.parts) > len(root) + 1 and _name(path.parts[len(root)]) is None for path in paths
    ):
        root = root[:-1]
    return root


def _from_file(path: PurePath) -> str | None:
    numbered = _NUMBERED.fullmatch(path.stem)
    name = _name(numbered[1]) if numbered else None
    words = {word for word in (name or "").lower().split() if _name(word)}
    return None if words <= _WORDS_OF_CAMERAS else name


def _name(text: str) -> str | None:
    name = text.replace("_", " ").strip()
    return name if any(map(str.isalpha, name)) else None
