"""Who may do what: API keys, their scopes, and the page's login.

A key is 256 random bits, shown once. Only its SHA-256 is kept: a slow hash protects passwords that
can be guessed, and these cannot. The page's login takes the key's name as user and the key as
password, so there is one kind of credential.
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
"""Longer texts are no keys of ours and are not even hashed."""


class NotAuthenticated(FaceError):
    """No credentials, or wrong ones."""

    code = "not_authenticated"


class NotAllowed(FaceError):
    """The credentials are right, but their scope does not cover this."""

    code = "not_allowed"


class DamagedKeys(FaceError):
    """The file of keys cannot be read; nobody gets in."""

    code = "damaged_keys"


@dataclass(frozen=True)
class Principal:
    """Someone acting: the name that goes to the audit log, and the highest scope."""

    name: str
    scope: Scope

    def may(self, scope: Scope) -> bool:
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    def require(self, scope: Scope) -> None:
        """Raises:
        NotAllowed: The principal's scope does not include ``scope``.
        """
        if not self.may(scope):
            raise NotAllowed(
                f"The key {self.name!r} has the scope {self.scope!r}, but this needs {scope!r}.",
                scope=self.scope,
                needed=scope,
            )


LOCAL = Principal("local", "admin")
"""Whoever sits at this machine, where no keys are set up."""


@dataclass(frozen=True)
class Key:
    """One stored key; the secret itself is not in it."""

    name: str
    scope: Scope
    sha256: str
    created: str

    @property
    def user(self) -> str:
        """What a page's login is kept under: the name, and which key of that name it was."""
        return f"{self.name}:{self.sha256[:16]}"


class KeyStore:
    """The keys of one installation, in a file or shared by its servers.

    Args:
        place: Where the keys are.
        required: Whether a key is needed even while there is none; so when serving beyond
            this machine. Once there was a key it stays so: revoking the last one closes the
            door instead of opening it, until the program starts anew.

    Raises:
        DamagedKeys: They are there but cannot be read. So for every method.
    """

    def __init__(self, place: Path | Document, *, required: bool = False) -> None:
        self._document = FileDocument(place) if isinstance(place, Path) else place
        self._required = required
        self._lock = threading.Lock()
        self._stamp: object | None = None
        self._keys: dict[str, Key] = {}
        self._refresh()

    def keys(self) -> list[Key]:
        """All keys, as they are now."""
        with self._lock:
            self._refresh()
            return list(self._keys.values())

    @property
    def required(self) -> bool:
        """Whether nobody gets in without a key."""
        self.keys()
        return self._required

    def add(self, name: str, scope: Scope = "read") -> str:
        """Make a key and return its secret, which is not kept.

        Raises:
            ValueError: The name is taken or not usable, or the scope is unknown.
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
        """Remove a key; False when there was none of that name."""
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
        """Who holds this secret.

        Raises:
            NotAuthenticated: Nobody does.
        """
        found = self._holder(secret)
        return Principal(found.name, found.scope)

    def login(self, name: str, secret: str) -> str | None:
        """The page's login: the user it is kept under, or None where ``secret`` is not the key
        called ``name``."""
        try:
            found = self._holder(secret)
        except NotAuthenticated:
            return None
        return found.user if hmac.compare_digest(found.name.encode(), name.encode()) else None

    def user(self, user: str | None) -> Principal:
        """The principal of a page's logged-in user; where no key is required, of anyone.

        Args:
            user: As :meth:`login` gave it.

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
        # How long the look-up takes tells of the digest at most, from which no secret follows.
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
        # The message may reach someone who is not logged in: no path, no contents.
        return DamagedKeys(
            f"The keys in {self._document.name!r} cannot be read: damaged, or of an older "
            "version. Bring it back from a backup, or remove it and make new keys: python -m "
            "app keys add NAME."
        )


def secret_of(headers: Mapping[str, str]) -> str:
    """The secret a request carries.

    Raises:
        NotAuthenticated: It carries none.
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
