"""Keys and encryption: AES-256-GCM from ``cryptography``.

Every person and every photo has its own random secret. Identifying data (name, metadata, vector,
thumbnail, file name) is stored encrypted with it. Erasing means overwriting the 32 bytes of the
secret in place; copies of the encrypted data in database pages or backups then become unreadable.
With a gallery key, the secrets are themselves encrypted with it. Without one they are stored in
the clear: the data is not protected, but can still be erased.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from model.errors import WrongKey

KEY_BYTES = 32
NONCE_BYTES = 12
KEY_VARIABLE = "FACE_GALLERY_KEY"
KEY_FILE_VARIABLE = "FACE_GALLERY_KEY_FILE"


def seal(key: bytes, plain: bytes, purpose: bytes) -> bytes:
    """Encrypts ``plain``; only the same key and purpose decrypt it."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, purpose)


def unseal(key: bytes, sealed: bytes, purpose: bytes) -> bytes:
    """Decrypts the result of :func:`seal`.

    Raises:
        WrongKey: If the key or the purpose is wrong, or the bytes were changed.
    """
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose)
    except (InvalidTag, ValueError) as error:
        raise WrongKey(
            f"The {purpose.decode()} record cannot be opened: the key is wrong or the record is "
            "damaged. Check the gallery key, or restore the gallery from an export."
        ) from error


class SecretsElsewhere(Protocol):
    """A separate secret store; see :class:`index.postgresql.secret_store.SecretStore`."""

    def put(self, values: Sequence[bytes]) -> list[bytes]: ...

    def get(self, handles: Sequence[bytes]) -> list[bytes | None]: ...

    def drop(self, handles: Sequence[bytes]) -> None: ...

    def close(self) -> None: ...


class Vault:
    """Creates and decrypts the secrets of people and photos.

    Args:
        master: The gallery key of 32 bytes, or None for an unencrypted gallery.
        store: A separate secret store; None for the gallery's own table.
    """

    def __init__(self, master: bytes | None, store: SecretsElsewhere | None = None) -> None:
        self.master = master
        self.store = store

    @property
    def encrypted(self) -> bool:
        return self.master is not None

    def create(self, count: int) -> list[tuple[bytes, bytes]]:
        """Creates secrets; returns each with its stored form."""
        secrets = [os.urandom(KEY_BYTES) for _ in range(count)]
        stored = [self._wrap(secret) for secret in secrets]
        if self.store is not None and count:
            stored = self.store.put(stored)
        return list(zip(secrets, stored, strict=True))

    def open(self, stored: Sequence[bytes]) -> list[bytes | None]:
        """Returns the secrets of stored forms; None for secrets erased in the store."""
        found: Sequence[bytes | None] = stored
        if self.store is not None and stored:
            found = self.store.get(stored)
        return [None if value is None else self._unwrap(value) for value in found]

    def open_one(self, stored: bytes) -> bytes:
        """Returns the secret of a stored form.

        Raises:
            WrongKey: If the key is wrong, or the secret was erased in the store.
        """
        (secret,) = self.open([stored])
        if secret is None:
            raise WrongKey("A secret of the gallery is not in the store of its secrets.")
        return secret

    def _wrap(self, secret: bytes) -> bytes:
        return secret if self.master is None else seal(self.master, secret, b"secret")

    def _unwrap(self, stored: bytes) -> bytes:
        return stored if self.master is None else unseal(self.master, stored, b"secret")


def tag(key: bytes, text: str) -> bytes:
    """A keyed hash of ``text`` (16 bytes), for lookups that do not reveal the text."""
    return hmac.digest(key, text.encode(), hashlib.sha256)[:16]


def name_key(name: str) -> str:
    """Normalises a name for comparison: ignores case, spacing and Unicode variants."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def new_key() -> str:
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def parse_key(text: str, origin: str = "the given text") -> bytes:
    """Parses a gallery key in base64 or hexadecimal.

    Args:
        origin: Source of the text, for the error message.

    Raises:
        WrongKey: If it is not 32 bytes in either encoding.
    """
    text = text.strip()
    for decode in (bytes.fromhex, lambda value: base64.b64decode(value, validate=True)):
        try:
            key = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(key) == KEY_BYTES:
            return key
    raise WrongKey(
        f"The gallery key in {origin} is not 32 bytes in base64 or hexadecimal. Make one with "
        "`python -m index key --out FILE`."
    )


def read_key(path: str | Path) -> bytes:
    """Reads a gallery key from a file."""
    try:
        # Bytes that are not text are not a key either; the message must not quote them.
        text = Path(path).read_bytes().decode(errors="replace")
    except OSError as error:
        raise WrongKey(f"The gallery key file {path} cannot be read: {error.strerror}.") from error
    return parse_key(text, str(path))


def key_from(environment: Mapping[str, str] | None = None) -> bytes | None:
    """Reads the gallery key from ``FACE_GALLERY_KEY`` or the file in ``FACE_GALLERY_KEY_FILE``.

    Returns:
        The key, or None if neither variable is set.

    Raises:
        WrongKey: If the key or its file cannot be read.
    """
    environment = os.environ if environment is None else environment
    if text := environment.get(KEY_VARIABLE):
        return parse_key(text, KEY_VARIABLE)
    if name := environment.get(KEY_FILE_VARIABLE):
        return read_key(name)
    return None
