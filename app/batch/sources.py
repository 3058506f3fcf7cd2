"""Sources of a batch enrollment: a folder, a CSV file or a zip."""

from __future__ import annotations

import csv
import lzma
import os
import stat
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from app.batch.person_names import people_of
from index.types import MAX_NAME, usable_name
from model.errors import BadImage, FaceError
from model.faces.image import SUFFIXES

UNZIPPING_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, OSError,
                    NotImplementedError, EOFError, ValueError)  # fmt: skip
"""Every exception that a damaged or unsupported zip may raise."""
OWN_COLUMNS = ("path", "name", "consent")
"""CSV columns with a fixed meaning; all others are stored with the person as metadata."""

MAX_CONSENT, MAX_METADATA = 2000, 10_000
"""Most characters of the consent in a CSV row, and of its metadata columns together."""

Key = tuple[str, str]
"""A photo of a source: its file and the person's name. A CSV may list a file for two people."""


class BadSource(FaceError):
    """A source of photos does not exist or cannot be read."""

    code = "bad_source"


@dataclass(frozen=True)
class Problem:
    """Why a photo cannot be enrolled, regardless of its content: ``no_name`` or ``bad_row``."""

    status: str
    message: str


@dataclass(frozen=True)
class Item:
    """One photo of a batch.

    Attributes:
        file: The photo's name in the source.
        name: The person's name; may be empty if there is a ``problem``.
        read: Returns the encoded photo, cut one byte past the size limit.
        metadata: Further columns of a CSV.
        problem: Why it is not read at all.
    """

    file: str
    name: str
    read: Callable[[], bytes] = field(repr=False, compare=False)
    consent: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    problem: Problem | None = None

    @property
    def key(self) -> Key:
        return self.file, self.name


def open_source(source: Path, max_bytes: int) -> list[Item]:
    """List all photos of a source, grouped by person.

    Args:
        source: A folder (``person/photo.jpg`` or ``Person_0001.jpg``), a zip of one, or a CSV
            with the columns ``name`` and ``path`` (relative to the CSV's folder), optionally
            ``consent``, and others, which are stored as metadata.
        max_bytes: Size limit; larger photos are not read to their end.
    """
    if source.is_dir():
        items = list(_from_folder(source, max_bytes))
    elif source.suffix.lower() == ".csv":
        items = list(_from_csv(source, max_bytes))
    elif _is_zip(source):
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


def printable(path: str) -> str:
    """Return a path as valid UTF-8 text; other bytes become escapes such as ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _item(file: str, name: str | None, read: Callable[[], bytes], *facts: Any) -> Item:
    """Create an item; without a valid name it has a problem."""
    file = printable(file)
    if name is None:
        message = (
            f"{file!a} does not say who it shows. Put it into a folder with the person's name, or "
            "call it Person_0001.jpg."
        )
        return Item(file, "", read, problem=Problem("no_name", message))
    try:
        return Item(file, usable_name(name), read, *facts)
    except ValueError as error:
        message = f"The person of {file!a} cannot be enrolled: {error}."
        return Item(file, ascii(name)[:MAX_NAME], read, problem=Problem("no_name", message))


def _from_folder(folder: Path, max_bytes: int) -> Iterator[Item]:
    inside = [file.relative_to(folder) for file in sorted(folder.rglob("*")) if file.is_file()]
    photos = list(filter(is_photo, inside))
    for path, name in zip(photos, people_of(photos, wrapped=False), strict=True):
        yield _item(path.as_posix(), name, file_reader(folder / path, max_bytes, within=folder))


def _from_csv(source: Path, max_bytes: int) -> Iterator[Item]:
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            # Spreadsheets use semicolons in locales with a decimal comma.
            semicolons = header.count(";") > header.count(",")
            table = csv.DictReader(file, delimiter=";" if semicolons else ",")
            columns = [_column(text) for text in table.fieldnames or []]
            if not {"name", "path"} <= set(columns):
                raise BadSource(
                    f"{source.name} has the columns {', '.join(columns) or 'none'}; name and path "
                    "are needed."
                )
            table.fieldnames = columns
            for row in table:
                yield _from_row(source, table.line_num, row, max_bytes)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadSource(f"{source.name} cannot be read as CSV: {error}.") from error


def _column(text: str) -> str:
    text = text.strip()
    return text.lower() if text.lower() in OWN_COLUMNS else text


def _from_row(source: Path, number: int, row: dict[str, str | None], max_bytes: int) -> Item:
    path, name, consent = ((row.get(column) or "").strip() for column in OWN_COLUMNS)
    reader = file_reader(source.parent / path, max_bytes, within=source.parent)
    others = {
        column: value for column, value in row.items()
        if column and value and column not in OWN_COLUMNS
    }  # fmt: skip
    wrong = None
    if not path or not name:
        wrong = "has no name or path"
    elif len(consent) > MAX_CONSENT or sum(map(len, others.values())) > MAX_METADATA:
        wrong = f"has more than {MAX_CONSENT} characters of consent, or {MAX_METADATA} of others"
    if wrong:
        problem = Problem("bad_row", f"Line {number} of {source.name} {wrong}.")
        return Item(path or f"line {number}", name[:MAX_NAME], reader, problem=problem)
    return _item(path, name, reader, consent, others)


def _is_zip(source: Path) -> bool:
    try:
        return zipfile.is_zipfile(source)
    except zipfile.BadZipFile:
        # It ends like one, such as a part of several; opening it says what is wrong.
        return True


def _from_zip(source: Path, max_bytes: int) -> Iterator[Item]:
    try:
        archive = zipfile.ZipFile(source)
    except UNZIPPING_ERRORS as error:
        raise BadSource(f"{source.name} cannot be read as a zip file: {error}.") from error
    lock = threading.Lock()
    entries = [
        entry for entry in archive.infolist()
        # The name comes first: of an empty one Python 3.11 cannot tell whether it is a folder.
        if is_photo(PurePosixPath(entry.filename)) and not entry.is_dir()
    ]  # fmt: skip
    names = people_of([PurePosixPath(entry.filename) for entry in entries])
    for entry, name in zip(entries, names, strict=True):
        yield _item(entry.filename, name, zip_reader(archive, entry, lock, max_bytes))


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


def zip_reader(
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
