"""Photos in a folder or a zip, and functions that read them safely."""

from __future__ import annotations

import lzma
import os
import stat
import threading
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePath, PurePosixPath
from typing import BinaryIO

from model.errors import BadImage
from model.faces.image import SUFFIXES

UNZIPPING_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, OSError,
                    NotImplementedError, EOFError, ValueError)  # fmt: skip
"""Every exception that a damaged or unsupported zip may raise."""
PhotoFile = tuple[str, Callable[[], bytes]]
"""A photo's path in its folder or zip, and a function that reads it."""


def folder_photos(folder: Path, max_bytes: int) -> list[PhotoFile]:
    """List all photos below a folder, by path."""
    inside = [file.relative_to(folder) for file in sorted(folder.rglob("*")) if file.is_file()]
    return [
        (path.as_posix(), file_reader(folder / path, max_bytes, within=folder))
        for path in filter(is_photo, inside)
    ]


def zip_photos(source: Path | BinaryIO, max_bytes: int) -> list[PhotoFile]:
    """List all photos in a zip; raises one of `UNZIPPING_ERRORS` if it is none."""
    archive, lock = zipfile.ZipFile(source), threading.Lock()
    return [
        (entry.filename, _zip_reader(archive, entry, lock, max_bytes))
        for entry in archive.infolist()
        # The name comes first: of an empty one Python 3.11 cannot tell whether it is a folder.
        if is_photo(PurePosixPath(entry.filename)) and not entry.is_dir()
    ]


def printable(path: str) -> str:
    """Return a path as valid UTF-8 text; other bytes become escapes such as ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_photo(path: PurePath) -> bool:
    """Return whether a path looks like a photo: it has an image suffix and is not hidden."""
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return path.suffix.lower() in SUFFIXES and not hidden


def file_reader(file: Path, max_bytes: int, *, within: Path) -> Callable[[], bytes]:
    """Return a function that reads a photo, up to one byte past the limit to detect large files.

    A CSV or folder may come from someone else. Nothing outside ``within`` is read, neither by path
    nor through a symlink, and only regular files are read, because a pipe might never end.
    """

    def read() -> bytes:
        try:
            real = file.resolve()
            if not real.is_relative_to(within.resolve()):
                raise ValueError("it lies outside the folder of the source")
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            with open(descriptor, "rb") as stream:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ValueError("it is not a regular file")
                return stream.read(max_bytes + 1)
        except (OSError, ValueError) as error:
            # A ValueError means an impossible path, and its text already says why.
            why = getattr(error, "strerror", error)
            raise BadImage(f"{printable(file.name)} cannot be read: {why}.") from error

    return read


def _zip_reader(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, lock: threading.Lock, max_bytes: int
) -> Callable[[], bytes]:
    """Like :func:`file_reader`, for a photo in a zip; ``lock`` guards the archive."""

    def read() -> bytes:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadImage(
                f"{entry.filename} is packed in a way that cannot be unpacked safely: a few bytes "
                "may unfold to gigabytes at once. Make an ordinary zip file."
            )
        try:
            # Stops zip bombs: at most one byte past the limit is unpacked, and the decoder
            # refuses that.
            with lock, archive.open(entry) as stream:
                return stream.read(max_bytes + 1)
        except UNZIPPING_ERRORS as error:
            raise BadImage(f"{entry.filename} cannot be read from the zip: {error}.") from error

    return read
