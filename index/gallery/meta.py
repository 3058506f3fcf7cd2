"""The metadata of a gallery: its id, model, keys and pending erasures."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Any

from index.crypto.keys import SecretsElsewhere, Vault, seal, unseal
from index.gallery.database import Connection, Database, MetaValue
from model.errors import BundleMismatch, GalleryError, WrongKey

_PROOF = b"the key of this gallery"

CACHE_MARK = "erasure"
"""Entry that marks a pending erasure until cache files are deleted and the log is empty."""

LOG_MARK = "log_erasure"
"""The same for an erasure that only has to empty the log."""

OWN_TABLE = "table"
"""Location of the secrets if there is no separate store."""

Marks = dict[str, MetaValue]


@dataclass(frozen=True)
class GalleryMeta:
    """Fixed facts of an open gallery.

    Attributes:
        gallery_id: Random id given at creation.
        vault: Creates and decrypts the secrets of people and photos.
        tag_key: Key of the fingerprints used to look up names and photos.
        cache_slot: Number of the secret that encrypts index cache files.
        dimension: Length of the vectors; None if it was not set when the gallery was opened.
    """

    gallery_id: str
    model_id: str
    vault: Vault
    tag_key: bytes
    cache_slot: int
    dimension: int | None = None


def establish(
    database: Database,
    model_id: str | None,
    key: bytes | None,
    dimension: int | None = None,
    store: SecretsElsewhere | None = None,
) -> GalleryMeta:
    """Reads the metadata of a gallery, or creates it for a new one.

    Raises:
        BundleMismatch: If the gallery belongs to another model, or ``dimension`` is given and its
            vectors have another length.
        WrongKey: If the key is missing, wrong, or given for an unencrypted gallery.
        GalleryError: If the gallery is new and no model is given.
    """
    with database.read() as connection:
        known = read_meta(connection, "gallery_id")
    if known is None:
        with database.write() as connection:
            if read_meta(connection, "gallery_id") is None:
                _create(connection, database, model_id, Vault(key, store))
    with database.read() as connection:
        facts = _recognise(connection, database, model_id, key, store)
        stored = read_meta(connection, "dimension")
        slot = connection.execute("SELECT value FROM secrets WHERE id = ?", (facts.cache_slot,))
        (handle,) = slot.fetchone()
    if facts.vault.open([handle]) == [None]:
        # A backup from before an erasure: the erasure has also deleted this cache key.
        with database.write() as connection:
            begin_erasure(connection, facts)
    if dimension is not None and dimension != stored:
        with database.write() as connection:
            require_dimension(connection, dimension)
    return replace(facts, dimension=dimension or stored)


def _create(connection: Connection, database: Database, model_id: str | None, vault: Vault) -> None:
    if not model_id:
        raise GalleryError(
            f"There is no gallery in {database.name} yet, and without the id of a model none "
            "can be started."
        )
    (_, tag_stored), (_, cache_stored) = vault.create(2)
    (cache_slot,) = add_secrets(connection, [cache_stored])
    for name, value in (
        ("gallery_id", uuid.uuid4().hex),
        ("model_id", model_id),
        ("tag_key", tag_stored),
        ("cache_slot", cache_slot),
        ("secrets", _place_of_secrets(vault)),
        ("proof", seal(vault.master, _PROOF, b"proof") if vault.master else b""),
    ):
        write_meta(connection, name, value)


def _place_of_secrets(vault: Vault) -> str:
    return OWN_TABLE if vault.store is None else "store"


def _recognise(
    connection: Connection,
    database: Database,
    model_id: str | None,
    key: bytes | None,
    store: SecretsElsewhere | None,
) -> GalleryMeta:
    proof = read_meta(connection, "proof")
    if proof and key is None:
        raise WrongKey(
            f"The gallery {database.name} is encrypted and no key was given. Set "
            "FACE_GALLERY_KEY or FACE_GALLERY_KEY_FILE."
        )
    if key is not None and not proof:
        raise WrongKey(
            f"The gallery {database.name} is not encrypted, but a key was given. To encrypt it, "
            "export it and import the file into a new gallery opened with the key."
        )
    if key is not None:
        try:
            unseal(key, proof, b"proof")
        except WrongKey as error:
            raise WrongKey(
                f"The key does not open the gallery {database.name}: it was encrypted with "
                "another one."
            ) from error
    stored = read_meta(connection, "model_id")
    if model_id is not None and model_id != stored:
        held = connection.execute("SELECT 1 FROM photos LIMIT 1").fetchone()
        remedy = (
            "Use that model, or enroll everyone again in a new gallery."
            if held
            else f"No photo is stored in it: {database.start_over}, and start again."
        )
        raise BundleMismatch(
            f"The gallery {database.name} is for embeddings of the model {stored}, the loaded "
            f"model is {model_id}. {remedy}",
            gallery=stored,
            model=model_id,
        )
    vault = Vault(key, store)
    if (read_meta(connection, "secrets") or OWN_TABLE) != _place_of_secrets(vault):
        raise WrongKey(
            f"The gallery {database.name} was started {'without' if store else 'with'} a store of "
            "its own for secrets; open it the same way."
        )
    return GalleryMeta(
        gallery_id=read_meta(connection, "gallery_id"),
        model_id=stored,
        vault=vault,
        tag_key=vault.open_one(read_meta(connection, "tag_key")),
        cache_slot=read_meta(connection, "cache_slot"),
    )


def require_dimension(connection: Connection, dimension: int) -> None:
    """Sets the length of the gallery's vectors, or checks it if already set.

    Raises:
        BundleMismatch: If the gallery's vectors have another length.
    """
    stored = read_meta(connection, "dimension")
    if stored is None:
        write_meta(connection, "dimension", dimension)
    elif stored != dimension:
        raise BundleMismatch(
            f"The gallery is for vectors of {stored} numbers, not of {dimension}. Use embeddings "
            "of its own model, or start a new gallery.",
            gallery=stored,
            given=dimension,
        )


def cache_key(connection: Connection, facts: GalleryMeta) -> bytes:
    """The key of index cache files written until the next erasure."""
    row = connection.execute("SELECT value FROM secrets WHERE id = ?", (facts.cache_slot,))
    return facts.vault.open_one(row.fetchone()[0])


def begin_erasure(connection: Connection, facts: GalleryMeta) -> None:
    """Makes all existing index caches unreadable and requests that the log be emptied."""
    ((_, stored),) = facts.vault.create(1)
    overwrite_secret(connection, facts, facts.cache_slot, stored)
    write_meta(connection, CACHE_MARK, uuid.uuid4().hex)


def begin_log_erasure(connection: Connection) -> None:
    """Requests that the log be emptied, after a change that affects no index cache."""
    write_meta(connection, LOG_MARK, uuid.uuid4().hex)


def waiting_erasures(connection: Connection) -> Marks:
    """Marks of pending erasures, whose old bytes may remain in the log or in cache files."""
    marks = {name: read_meta(connection, name) for name in (CACHE_MARK, LOG_MARK)}
    return {name: mark for name, mark in marks.items() if mark}


def end_erasures(connection: Connection, done: Marks) -> None:
    """Clears marks, except those that another erasure has replaced since they were read."""
    for name, mark in done.items():
        if read_meta(connection, name) == mark:
            write_meta(connection, name, 0)


def add_secrets(connection: Connection, stored: list[bytes]) -> list[int]:
    """Appends stored secrets and returns their numbers."""
    return connection.insert("secrets", [(value,) for value in stored])


def shred(connection: Connection, facts: GalleryMeta, numbers: list[int]) -> None:
    """Overwrites secrets in place; the data they encrypted becomes unreadable."""
    for number in numbers:
        overwrite_secret(connection, facts, number, None)


def overwrite_secret(
    connection: Connection, facts: GalleryMeta, number: int, stored: bytes | None
) -> None:
    """Replaces a stored secret by another one, or by zeros."""
    found = connection.execute("SELECT value FROM secrets WHERE id = ?", (number,))
    (old,) = found.fetchone()
    if facts.vault.store is not None:
        # Delete it from the store only after the commit: a rollback needs the old secret.
        connection.execute("INSERT INTO dropped_secrets (handle) VALUES (?)", (old,))
    # Same length, so that SQLite overwrites the bytes in place.
    value = bytes(len(old)) if stored is None else stored
    connection.execute("UPDATE secrets SET value = ? WHERE id = ?", (value, number))


def read_meta(connection: Connection, key: str) -> Any:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else connection.unpack(row[0])


def write_meta(connection: Connection, key: str, value: MetaValue) -> None:
    connection.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, connection.pack(value)),
    )
