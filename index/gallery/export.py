"""Export and import a gallery as one portable file: a zip archive with checksums.

Members: ``people.jsonl``, ``photos.jsonl`` (row ``i`` describes row ``i`` of the embeddings),
``embeddings.npy`` (float16), ``thumbnails/<i>`` and ``manifest.json`` with the SHA-256 of every
other member. For an encrypted gallery the whole archive is encrypted with the gallery key.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sqlite3
import time
import tokenize
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from index.crypto.encrypted_file import EncryptedReader, EncryptedWriter, is_encrypted
from index.types import NewPhoto
from model.atomic import made_whole
from model.errors import BundleMismatch, GalleryError, WrongKey
from model.types import Embedding

if TYPE_CHECKING:
    from index.gallery import Gallery

FORMAT, VERSION = "face-gallery", 2

_CLOCKS_APART = 24 * 3600.0
"""Most seconds by which the exporting machine's clock may be ahead of ours."""

_MAX_TEXT, _MAX_METADATA = 10_000, 50_000
"""Most characters of one text, and of one person's metadata as JSON."""

_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_UNREADABLE = (ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError,
               RuntimeError, SyntaxError, TypeError, ValueError, sqlite3.Error,
               tokenize.TokenError, zipfile.BadZipFile)  # fmt: skip
"""Exceptions that a malicious file can cause: any field may have any type."""


def write(gallery: Gallery, path: Path, key: bytes | None) -> Path:
    """Exports a gallery; the file gets its final name only when it is complete.

    Args:
        gallery: The gallery to export. The export holds its write lock, so it cannot change.
        key: Key to encrypt the file with, or None.

    Raises:
        GalleryError: If the file cannot be written.
    """
    try:
        _write_whole(gallery, path, key)
    except OSError as error:
        raise GalleryError(
            f"The export {path} cannot be written: {error.strerror or error}. Choose a folder "
            "that you may write to, on a disk with room for it."
        ) from error
    return path


def _write_whole(gallery: Gallery, path: Path, key: bytes | None) -> None:
    with made_whole(path, private=True) as partial, partial.open("wb") as file:
        if key is None:
            _write_archive(gallery, file)
        else:
            with EncryptedWriter(file, key) as stream:
                _write_archive(gallery, stream)


def _write_archive(gallery: Gallery, stream: BinaryIO | EncryptedWriter) -> None:
    with gallery.batch(), zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        counts, dimension = gallery.reader.counts(), gallery.reader.dimension() or 0
        sums: dict[str, str] = {}

        def member(name: str, parts: Iterable[bytes]) -> None:
            digest = hashlib.sha256()
            with archive.open(name, "w", force_zip64=True) as target:
                for part in parts:
                    digest.update(part)
                    target.write(part)
            sums[name] = digest.hexdigest()

        member("people.jsonl", _people_lines(gallery))
        member("photos.jsonl", _photo_lines(gallery))
        member("embeddings.npy", _embedding_bytes(gallery, counts.photos, dimension))
        for row, number in enumerate(gallery.changes.photo_ids()):
            image = gallery.reader.thumbnail(str(number))
            if image is not None:
                member(f"thumbnails/{row}", [image])
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "gallery_id": gallery.gallery_id,
            "model_id": gallery.model_id,
            "dimension": dimension,
            "people": counts.people,
            "photos": counts.photos,
            "sha256": sums,
        }
        archive.writestr("manifest.json", json.dumps(manifest, indent=1))


def _people_lines(gallery: Gallery) -> Iterator[bytes]:
    for person in gallery.reader.iter_people():
        yield _line(person, "id", "name", "metadata", "consent", "created", "updated")


def _photo_lines(gallery: Gallery) -> Iterator[bytes]:
    numbers = gallery.changes.photo_ids().tolist()
    for start in range(0, len(numbers), 4096):
        for photo in gallery.reader.photos_by_number(numbers[start : start + 4096]):
            yield _line(
                photo, "person_id", "content_hash", "quality", "source_name", "note", "created"
            )


def _line(record: object, *fields: str) -> bytes:
    values = {name: getattr(record, name) for name in fields}
    return json.dumps(values, ensure_ascii=False).encode() + b"\n"


def _embedding_bytes(gallery: Gallery, count: int, dimension: int) -> Iterator[bytes]:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f2", "fortran_order": False, "shape": (count, dimension)}
    )
    yield head.getvalue()
    for chunk in gallery.changes.iter_embeddings():
        yield chunk.vectors.tobytes()


def read(
    gallery: Gallery,
    path: Path,
    key: bytes | None,
    existing: str = "error",
    *,
    thumbnails: bool = True,
) -> int:
    """Imports an exported file, all or nothing.

    Args:
        key: The gallery key, needed if the file is encrypted.
        existing: ``error`` or ``skip`` people whose id is already in the gallery.

    Returns:
        The number of people added.

    Raises:
        GalleryError: If the file is damaged, or a person exists and ``existing`` is ``error``.
        BundleMismatch: If it holds embeddings of another model.
        WrongKey: If it is encrypted and the key is missing or wrong.
    """
    if existing not in ("error", "skip"):
        raise ValueError(f"existing must be 'error' or 'skip', got {existing!r}")
    try:
        with _opened(path, key) as archive:
            manifest = _verify(archive, path.name)
            if manifest["model_id"] != gallery.model_id:
                raise BundleMismatch(
                    f"The export {path.name} holds embeddings of the model {manifest['model_id']}, "
                    f"the gallery those of {gallery.model_id}.",
                    gallery=gallery.model_id,
                    model=manifest["model_id"],
                )
            pictures = set(archive.namelist()) if thumbnails else set()
            return _import(gallery, archive, manifest, path.name, existing, pictures)
    except _UNREADABLE as error:
        raise GalleryError(f"The export {path.name} cannot be read: {error}.") from error


@contextmanager
def _opened(path: Path, key: bytes | None) -> Iterator[zipfile.ZipFile]:
    with open(path, "rb") as file:
        if not is_encrypted(path):
            yield zipfile.ZipFile(file)
        elif key is None:
            raise WrongKey(f"The export {path.name} is encrypted; open the gallery with its key.")
        else:
            yield zipfile.ZipFile(io.BufferedReader(EncryptedReader(file, key), 1 << 20))


def _verify(archive: zipfile.ZipFile, file: str) -> dict:
    """Checks every member against the manifest before use."""
    members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    # Uncompressed members that do not overlap cannot form a zip bomb.
    if not stored or sum(member.file_size for member in members) > archive.start_dir:
        raise GalleryError(f"The export {file} was packed by another program; use the original.")
    manifest = json.loads(archive.read("manifest.json"))
    if manifest["format"] != FORMAT or manifest["version"] > VERSION:
        raise GalleryError(f"The export {file} was written by a newer program; use that one.")
    names = set(archive.namelist()) - {"manifest.json"}
    if names != set(manifest["sha256"]):
        raise GalleryError(f"The export {file} is damaged: its list of contents does not fit.")
    for name, wanted in manifest["sha256"].items():
        with archive.open(name) as member:
            digest = hashlib.file_digest(member, "sha256")  # type: ignore[arg-type]
            if digest.hexdigest() != wanted:
                raise GalleryError(f"The export {file} is damaged: {name} has a wrong checksum.")
    return manifest


def _is_date(value: Any) -> bool:
    """Whether a value is a past time, or None: version 1 had no dates."""
    if value is None:
        return True
    # Python's JSON accepts NaN and infinity; both fail the comparison.
    return type(value) in (int, float) and 0 <= value <= time.time() + _CLOCKS_APART


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_TEXT


def _checked_person(person: dict) -> dict:
    texts = _is_text(person["name"]) and _is_text(person["consent"])
    dates = _is_date(person.get("created")) and _is_date(person.get("updated"))
    metadata = person["metadata"]
    kinds = texts and dates and isinstance(metadata, dict)
    if not kinds or len(json.dumps(metadata)) > _MAX_METADATA or not _ID.fullmatch(person["id"]):
        raise ValueError(f"the record {person!r:.100} is not a person's")
    return person


def _checked_photo(photo: dict) -> dict:
    # Version 1 had no notes.
    texts = (photo["content_hash"], photo["source_name"], photo.get("note", ""))
    quality = photo["quality"]
    kinds = all(map(_is_text, texts)) and _is_date(photo.get("created"))
    if not kinds or not (quality is None or 0 <= quality <= 1):
        raise ValueError(f"the record {photo!r:.100} is not a photo's")
    return photo


def _import(
    gallery: Gallery,
    archive: zipfile.ZipFile,
    manifest: dict,
    file: str,
    existing: str,
    pictures: set[str],
) -> int:
    rows_of: dict[str, list[tuple[int, dict]]] = {}
    with archive.open("photos.jsonl") as lines:
        for row, line in enumerate(lines):
            photo = _checked_photo(json.loads(line))
            rows_of.setdefault(photo.pop("person_id"), []).append((row, photo))
    with archive.open("embeddings.npy") as member:
        vectors = np.lib.format.read_array(member, allow_pickle=False)
    added = 0
    with gallery.batch(), archive.open("people.jsonl") as lines:
        for line in lines:
            person = _checked_person(json.loads(line))
            if gallery.reader.get_many([person["id"]]):
                if existing == "skip":
                    continue
                raise GalleryError(
                    f"{person['name']} of the export {file} is in the gallery already. "
                    "Choose to leave people who are here as they are, and import again."
                )
            photos = [
                NewPhoto(
                    Embedding(vectors[row].astype(np.float32), manifest["model_id"]),
                    thumbnail=archive.read(name)
                    if (name := f"thumbnails/{row}") in pictures
                    else None,
                    **photo,
                )
                for row, photo in rows_of.get(person["id"], [])
            ]
            gallery.enroll(
                person["name"],
                photos,
                person["metadata"],
                person["consent"],
                person_id=person["id"],
                created=person.get("created"),
                updated=person.get("updated"),
            )
            added += 1
    return added
