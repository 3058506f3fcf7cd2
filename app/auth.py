"""API keys, their scopes, and the page's login.

A key is 256 random bits, shown once. Only its SHA-256 is stored: slow hashes protect guessable
passwords, and these keys cannot be guessed. The page's login uses the key's name as user name and
the key as password, so there is only one kind of credential.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from pydantic import TypeAdapter

from app.documents import Document, FileDocument
from model.errors import FaceError

Scope = Literal["read", "enroll", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Each scope includes those before it: ``read`` compares and searches, ``enroll`` adds and
renames, ``admin`` removes, exports and changes the calibration."""

MAX_SECRET = 256
"""Most characters of a key; longer input is rejected without hashing."""


class NotAuthenticated(FaceError):
    """No credentials, or wrong ones."""

    code = "not_authenticated"


class NotAllowed(FaceError):
    """The credentials are valid, but their scope does not allow this."""

    code = "not_allowed"


class DamagedKeys(FaceError):
    """The stored keys cannot be read; all access is refused."""

    code = "damaged_keys"


@dataclass(frozen=True)
class Principal:
    """An authenticated caller: the name for the audit log, and the highest scope."""

    name: str
    scope: Scope

    def may(self, scope: Scope) -> bool:
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    def require(self, scope: Scope) -> None:
        """Check that the principal has this scope."""
        if not self.may(scope):
            raise NotAllowed(
                f"The key {self.name!r} has the scope {self.scope!r}, but this needs {scope!r}.",
                scope=self.scope,
                needed=scope,
            )


LOCAL = Principal("local", "admin")
"""The local user, if no keys are set up."""


@dataclass(frozen=True)
class Key:
    """One stored key, without the secret itself."""

    name: str
    scope: Scope
    sha256: str
    created: str

    @property
    def user(self) -> str:
        """The user id of a page login: the name plus part of the hash, as names can be reused."""
        return f"{self.name}:{self.sha256[:16]}"


class KeyStore:
    """The keys of one installation, in a file or shared by its servers.

    Args:
        required: Require a key even if none exists, as when serving other machines. Once a key
            has existed, keys stay required until the program restarts, so that revoking the
            last key denies access instead of opening it.

    Raises:
        DamagedKeys: The stored keys cannot be read. Every method raises this.
    """

    def __init__(self, place: Path | Document, *, required: bool = False) -> None:
        self._document = FileDocument(place) if isinstance(place, Path) else place
        self._required = required
        self._lock = threading.Lock()
        self._stamp: object | None = None
        self._keys: dict[str, Key] = {}
        self._refresh()

    def keys(self) -> list[Key]:
        with self._lock:
            self._refresh()
            return list(self._keys.values())

    @property
    def required(self) -> bool:
        self.keys()
        return self._required

    def add(self, name: str, scope: Scope = "read") -> str:
        """Create a key and return its secret, which is not stored.

        Raises:
            ValueError: The name is taken or invalid, or the scope is unknown.
        """
        if scope not in SCOPES:
            raise ValueError(f"scope is {scope!r}; allowed are {', '.join(SCOPES)}.")
        if not name or not name.isprintable() or len(name) > 64 or ":" in name:
            raise ValueError("A key's name has 1 to 64 printable characters and no colon.")
        secret = f"fv_{secrets.token_urlsafe(32)}"
        made = datetime.now(UTC).isoformat(timespec="seconds")
        key = Key(name, scope, _sha256(secret), made)

        def with_it(stored: bytes | None) -> bytes:
            keys = self._parsed(stored)
            if any(each.name == name for each in keys):
                raise ValueError(f"There is a key {name!r} already; revoke it first.")
            return _text([*keys, key])

        self._document.change(with_it)
        return secret

    def revoke(self, name: str) -> bool:
        """Remove a key; returns False if no key has that name."""
        if self._document.stamp() is None:
            return False
        found: list[Key] = []

        def without_it(stored: bytes | None) -> bytes:
            keys = self._parsed(stored)
            found.extend(key for key in keys if key.name == name)
            return _text([key for key in keys if key.name != name])

        self._document.change(without_it)
        return bool(found)

    def principal(self, secret: str) -> Principal:
        """Return the principal of this secret.

        Raises:
            NotAuthenticated: No key has this secret.
        """
        found = self._holder(secret)
        return Principal(found.name, found.scope)

    def login(self, name: str, secret: str) -> str | None:
        """Check a page login; returns the user id, or None if ``secret`` is not key ``name``."""
        try:
            found = self._holder(secret)
        except NotAuthenticated:
            return None
        return found.user if hmac.compare_digest(found.name.encode(), name.encode()) else None

    def user(self, user: str | None) -> Principal:
        """Return the principal of a page user; if no key is required, the local user.

        Raises:
            NotAuthenticated: A key is required, and there is no user or the key was revoked.
        """
        if not self.required:
            return LOCAL
        for key in self.keys():
            if key.user == user:
                return Principal(key.name, key.scope)
        raise NotAuthenticated(
            "A key is needed, and yours does not exist or was revoked. Load the page again to log "
            "in. A page opened before there was any key asks for one after the server's next start."
        )

    def _holder(self, secret: str) -> Key:
        digest = _sha256(secret) if len(secret) <= MAX_SECRET else ""
        # A timing attack could reveal at most the digest, not the secret.
        found = next((key for key in self.keys() if key.sha256 == digest), None)
        if found is None:
            raise NotAuthenticated(
                "This API key is unknown or was revoked. Check it, or ask for one."
            )
        return found

    def _refresh(self) -> None:
        stamp = self._document.stamp()
        if stamp is None:
            self._keys, self._stamp = {}, None
        elif stamp != self._stamp:
            try:
                content = self._document.read()
            except OSError as error:
                raise self._damaged() from error
            self._keys = {key.name: key for key in self._parsed(content)}
            self._required = self._required or bool(self._keys)
            self._stamp = stamp

    def _parsed(self, content: bytes | None) -> list[Key]:
        try:
            return _KEYS.validate_json(content) if content is not None else []
        except ValueError as error:
            raise self._damaged() from error

    def _damaged(self) -> DamagedKeys:
        # The message may reach a caller who is not logged in, so it has no path and no content.
        return DamagedKeys(
            f"The keys in {self._document.name!r} cannot be read: damaged, or of an older "
            "version. Bring it back from a backup, or remove it and make new keys: python -m "
            "app keys add NAME."
        )


def secret_of(headers: Mapping[str, str]) -> str:
    """Return the secret in a request's headers.

    Raises:
        NotAuthenticated: There is none.
    """
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        secret = headers.get("x-api-key", "")
    if not secret:
        raise NotAuthenticated(
            "An API key is needed: send 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
        )
    return secret


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _text(keys: list[Key]) -> bytes:
    return json.dumps([asdict(key) for key in keys], indent=2).encode()


_KEYS = TypeAdapter(list[Key])
