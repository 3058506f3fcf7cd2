"""Sources of a batch enrollment: a folder, a CSV file or a zip."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from app.batch.person_names import people_of
from app.batch.photo_files import (
    UNZIPPING_ERRORS,
    PhotoFile,
    file_reader,
    folder_photos,
    printable,
    zip_photos,
)
from index.types import MAX_NAME, usable_name
from model.errors import FaceError

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
        items = list(_named(folder_photos(source, max_bytes), wrapped=False))
    elif source.suffix.lower() == ".csv":
        items = list(_from_csv(source, max_bytes))
    elif _is_zip(source):
        items = list(_named(_unzipped(source, max_bytes), wrapped=True))
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


def _unzipped(source: Path, max_bytes: int) -> list[PhotoFile]:
    try:
        return zip_photos(source, max_bytes)
    except UNZIPPING_ERRORS as error:
        raise BadSource(f"{source.name} cannot be read as a zip file: {error}.") from error


def _named(photos: Sequence[PhotoFile], *, wrapped: bool) -> Iterator[Item]:
    names = people_of([PurePosixPath(file) for file, _ in photos], wrapped=wrapped)
    for (file, read), name in zip(photos, names, strict=True):
        yield _item(file, name, read)


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
