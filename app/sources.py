"""Where a batch enrollment takes its photos from: a folder, a CSV file, or a zip."""

from __future__ import annotations

import csv
import lzma
import re
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from index.records import MAX_NAME, usable_name
from model.errors import BadImage, FaceError

PHOTO_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif",
                 ".heic", ".heif", ".ppm")  # fmt: skip
UNZIPPING_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, OSError,
                    NotImplementedError, EOFError, ValueError)  # fmt: skip
"""Whatever a damaged or foreign zip file may raise."""
_NUMBERED = re.compile(r"(.+?)[ _.-]*\d+")


class BadSource(FaceError):
    """A source of photos does not exist or cannot be read."""

    code = "bad_source"


@dataclass(frozen=True)
class Item:
    """One photo of a batch.

    Attributes:
        file: How the source calls it; unique within the source.
        name: The person's name.
        read: Gives the encoded photo, or at least so much of it that it is seen to be too long.
        consent: How the person agreed.
        metadata: Further columns of a CSV.
    """

    file: str
    name: str
    read: Callable[[], bytes] = field(repr=False, compare=False)
    consent: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


def open_source(source: Path, max_bytes: int) -> list[Item]:
    """All photos of a source, those of one person together.

    Args:
        source: A folder (``person/photo.jpg`` or ``Person_0001.jpg``), a zip of one, or a CSV
            with the columns ``name`` and ``path`` (from the CSV's own folder) and perhaps
            ``consent`` and others, which are kept as metadata.
        max_bytes: Longer photos are not read to their end.

    Raises:
        BadSource: There is no such source, or it holds no photos.
    """
    if source.is_dir():
        items = list(_from_folder(source, max_bytes))
    elif source.suffix.lower() == ".csv":
        items = list(_from_csv(source, max_bytes))
    elif zipfile.is_zipfile(source):
        items = list(_from_zip(source, max_bytes))
    elif not source.exists():
        raise BadSource(f"There is no folder or file {str(source)!r}.")
    else:
        raise BadSource(f"{str(source)!r} is neither a folder, nor a CSV, nor a zip.")
    if not items:
        raise BadSource(
            f"{str(source)!r} holds no photos. Expected are person/photo.jpg, Person_0001.jpg, or "
            "a CSV with the columns name and path."
        )
    order = {name: place for place, name in enumerate(dict.fromkeys(i.name for i in items))}
    return sorted(items, key=lambda item: order[item.name])


def person_name(path: PurePath) -> str | None:
    """Whose photo a path is: the folder's name, else the file's without its number."""
    if len(path.parts) > 1:
        name = path.parts[-2]
    else:
        numbered = _NUMBERED.fullmatch(path.stem)
        if numbered is None:
            return None
        name = numbered[1]
    return name.replace("_", " ").strip() or None


def _item(file: str, name: str, read: Callable[[], bytes], *others: Any) -> Item:
    """An item; under a name that cannot be kept it is one that fails when it is read."""
    try:
        return Item(file, usable_name(name), read, *others)
    except ValueError as error:
        problem = f"The person of {file!a} cannot be enrolled: {error}."

    def fail() -> bytes:
        raise BadImage(problem)

    return Item(file, ascii(name)[:MAX_NAME], fail, *others)


def _from_folder(folder: Path, max_bytes: int) -> Iterator[Item]:
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        if is_photo(inside) and file.is_file() and (name := person_name(inside)):
            yield _item(inside.as_posix(), name, file_reader(file, max_bytes))


def _from_csv(source: Path, max_bytes: int) -> Iterator[Item]:
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file)
            columns = table.fieldnames or []
            if not {"name", "path"} <= set(columns):
                raise BadSource(
                    f"{source.name} has the columns {', '.join(columns) or 'none'}; name and path "
                    "are needed."
                )
            for row in table:
                path, name = (row["path"] or "").strip(), (row["name"] or "").strip()
                if not path or not name:
                    raise BadSource(f"Line {table.line_num} of {source.name} has no name or path.")
                others = {
                    key: value
                    for key, value in row.items()
                    if key and value and key not in ("name", "path", "consent")
                }
                reader = file_reader(source.parent / path, max_bytes)
                yield _item(path, name, reader, row.get("consent") or "", others)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadSource(f"{source.name} cannot be read as CSV: {error}.") from error


def _from_zip(source: Path, max_bytes: int) -> Iterator[Item]:
    try:
        archive = zipfile.ZipFile(source)
    except UNZIPPING_ERRORS as error:
        raise BadSource(f"{source.name} cannot be read as a zip file: {error}.") from error
    lock = threading.Lock()
    for entry in archive.infolist():
        path = PurePosixPath(entry.filename)
        if not entry.is_dir() and is_photo(path) and (name := person_name(path)):
            yield _item(entry.filename, name, zip_reader(archive, entry, lock, max_bytes))


def is_photo(path: PurePath) -> bool:
    """Whether a path within a source looks like a photo: by its ending, and not hidden."""
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return path.suffix.lower() in PHOTO_ENDINGS and not hidden


def file_reader(file: Path, max_bytes: int) -> Callable[[], bytes]:
    """Reads a photo, or at least one byte more than allowed, so that it is seen to be too long."""

    def read() -> bytes:
        try:
            with file.open("rb") as stream:
                return stream.read(max_bytes + 1)
        except OSError as error:
            raise BadImage(f"{file.name} cannot be read: {error.strerror}.") from error

    return read


def zip_reader(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, lock: threading.Lock, max_bytes: int
) -> Callable[[], bytes]:
    """The same for a photo in a zip file; ``lock`` is the archive's."""

    def read() -> bytes:
        try:
            # A bomb never unfolds: one byte past the limit and the decoder refuses it.
            with lock, archive.open(entry) as stream:
                return stream.read(max_bytes + 1)
        except UNZIPPING_ERRORS as error:
            raise BadImage(f"{entry.filename} cannot be read from the zip: {error}.") from error

    return read
