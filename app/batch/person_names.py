"""Derive a person's name from the path of a photo in a folder or zip."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import PurePath

_WORDS_OF_CAMERAS = {"dsc", "dscf", "dscn", "face", "image", "img", "photo", "pic", "picture",
                     "pxl", "scan", "screenshot"}  # fmt: skip


def people_of(paths: Sequence[PurePath], *, wrapped: bool = True) -> list[str | None]:
    """Return the person's name for each path of a source; None if the path has no name.

    Folders common to all photos are not names. Below them, the first folder is the person's name.
    A photo outside such a folder takes its name from the file, as in ``Ann_Lee_0001.jpg``. If all
    photos are in one folder, the folder is the name, unless most file names contain one.

    Args:
        wrapped: True if a common folder may exist only because of packing, as in a zip. If
            False, a single common folder is always the person's name.
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
    """Return the folders common to all photos, down to the one that contains the people."""
    levels = zip(*(path.parts[:-1] for path in paths), strict=False)
    shared = takewhile(lambda folders: len(set(folders)) == 1, levels)
    root = tuple(folders[0] for folders in shared)
    # In Ann/2023 and Ann/2024, the years are not names: Ann is the person.
    while root and any(
        len(path.parts) > len(root) + 1 and _name(path.parts[len(root)]) is None for path in paths
    ):
        root = root[:-1]
    return root


def _from_file(path: PurePath) -> str | None:
    # By hand: a pattern would take a long name of separators apart in every possible way.
    digits = sum(1 for _ in takewhile(str.isdecimal, reversed(path.stem)))
    name = _name(path.stem[:-digits].rstrip(" _.-")) if digits else None
    words = {word for word in (name or "").lower().split() if _name(word)}
    return None if words <= _WORDS_OF_CAMERAS else name


def _name(text: str) -> str | None:
    name = text.replace("_", " ").strip()
    return name if any(map(str.isalpha, name)) else None
