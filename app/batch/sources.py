"""Where a batch enrollment takes its photos from: a folder, a CSV file, or a zip."""

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
"""Whatever a damaged or foreign zip file may raise."""
OWN_COLUMNS = ("path", "name", "consent")
"""Columns of a CSV with a meaning; all others are kept with the person as they are."""

MAX_CONSENT, MAX_METADATA = 2000, 10_000
"""Most characters of the consent in a row of a CSV, and of its further columns together."""

Key = tuple[str, str]
"""A photo of a source: its file and the person's name. A CSV may list a file for two people."""


class BadSource(FaceError):
    """A source of photos does not exist or cannot be read."""

    code = "bad_source"


@dataclass(frozen=True)
class Problem:
    """Why a photo cannot be enrolled, whatever it shows: ``no_name`` or ``bad_row``."""

    status: str
    message: str


@dataclass(frozen=True)
class Item:
    """One photo of a batch.

    Attributes:
        file: How the source calls it.
        name: The person's name; may be empty with a ``problem``.
        read: Gives the encoded photo, or at least so much of it that it is seen to be too long.
        consent: How the person agreed.
        metadata: Further columns of a CSV.
        problem: Why it is not even to be read.
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


def printable(path: str) -> str:
    """A path as text that any file takes: bytes that are no UTF-8 stand as ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _item(file: str, name: str | None, read: Callable[[], bytes], *facts: Any) -> Item:
    """An item; without a name that can be kept it is one with a problem."""
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
            # As spreadsheets write it where the comma is the decimal point.
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


def _from_zip(source: Path, max_bytes: int) -> Iterator[Item]:
    try:
        archive = zipfile.ZipFile(source)
    except UNZIPPING_ERRORS as error:
        raise BadSource(f"{source.name} cannot be read as a zip file: {error}.") from error
    lock = threading.Lock()
    entries = [
        entry for entry in archive.infolist()
        if not entry.is_dir() and is_photo(PurePosixPath(entry.filename))
    ]  # fmt: skip
    names = people_of([PurePosixPath(entry.filename) for entry in entries])
    for entry, name in zip(entries, names, strict=True):
        yield _item(entry.filename, name, zip_reader(archive, entry, lock, max_bytes))


def is_photo(path: PurePath) -> bool:
    """Whether a path within a source looks like a photo: by its ending, and not hidden."""
    hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
    return path.suffix.lower() in SUFFIXES and not hidden


def file_reader(file: Path, max_bytes: int, *, within: Path) -> Callable[[], bytes]:
    """Reads a photo, or at least one byte more than allowed, so that it is seen to be too long.

    A list or a folder may come from someone else: nothing outside ``within`` is read, whether by
    its path or through a link, and nothing but regular files; a pipe would never end.
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
            # A ValueError is for a path that no file can have, and is its own explanation.
            why = getattr(error, "strerror", error)
            raise BadImage(f"{printable(file.name)} cannot be read: {why}.") from error

    return read


def zip_reader(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, lock: threading.Lock, max_bytes: int
) -> Callable[[], bytes]:
    """The same for a photo in a zip file; ``lock`` is the archive's."""

    def read() -> bytes:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadImage(
                f"{entry.filename} is packed in a way that cannot be unpacked safely: a few bytes "
                "may unfold to gigabytes at once. Make an ordinary zip file."
            )
        try:
            # A bomb never unfolds: one byte past the limit and the decoder refuses it.
            with lock, archive.open(entry) as stream:
                return stream.read(max_bytes + 1)
        except UNZIPPING_ERRORS as error:
            raise BadImage(f"{entry.filename} cannot be read from the zip: {error}.") from error

    return read
