"""Keys: made, kept as hashes, scoped, revoked."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import pytest

from app import auth
from app.auth import LOCAL, DamagedKeys, KeyStore, NotAllowed, NotAuthenticated, Principal


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "keys.json")


def test_a_key_opens_and_its_secret_is_not_kept(store: KeyStore) -> None:
    secret = store.add("ann", "enroll")
    assert store.principal(secret) == Principal("ann", "enroll")
    text = store._document.file.read_text()
    assert secret not in text
    assert store._document.file.stat().st_mode & 0o077 == 0
    entry = json.loads(text)[0]
    assert hashlib.sha256(secret.encode()).hexdigest() == entry["sha256"]


def test_secrets_are_long_and_differ(store: KeyStore) -> None:
    secrets = {store.add(f"key{number}") for number in range(5)}
    assert len(secrets) == 5
    assert min(map(len, secrets)) >= 40


@pytest.mark.parametrize("secret", ["", "fv_", "wrong", "fv_" + "A" * 43, "ünïcode", "\x00"])
def test_a_wrong_secret_is_refused(store: KeyStore, secret: str) -> None:
    store.add("ann")
    with pytest.raises(NotAuthenticated):
        store.principal(secret)


def test_another_process_sees_a_new_and_a_revoked_key_at_once(store: KeyStore) -> None:
    other = KeyStore(store._document.file)
    secret = store.add("ann")
    assert other.principal(secret).name == "ann"
    assert other.principal(secret).name == "ann"
    assert store.revoke("ann")
    assert not store.revoke("ann")
    with pytest.raises(NotAuthenticated):
        other.principal(secret)


@pytest.mark.parametrize("name", ["", "a:b", "x" * 65, "new\nline"])
def test_a_name_must_be_usable_as_a_user_name(store: KeyStore, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        store.add(name)


def test_names_are_not_used_twice_and_scopes_are_known(store: KeyStore) -> None:
    store.add("ann")
    with pytest.raises(ValueError, match="already"):
        store.add("ann")
    with pytest.raises(ValueError, match="scope"):
        store.add("bob", "root")  # type: ignore[arg-type]


@pytest.mark.parametrize("has", auth.SCOPES)
@pytest.mark.parametrize("needs", auth.SCOPES)
def test_a_scope_includes_those_below(has: auth.Scope, needs: auth.Scope) -> None:
    principal = Principal("p", has)
    enough = ["read", "enroll", "admin"].index(has) >= ["read", "enroll", "admin"].index(needs)
    assert principal.may(needs) is enough
    if enough:
        principal.require(needs)
    else:
        with pytest.raises(NotAllowed, match=needs):
            principal.require(needs)


def test_the_page_login_needs_name_and_key_of_one_another(store: KeyStore) -> None:
    ann, bob = store.add("ann"), store.add("bob")
    assert store.login("ann", ann)
    assert not store.login("ann", bob)
    assert not store.login("ann", "")
    assert not store.login("eve", ann)


def test_without_keys_whoever_is_at_the_machine_may_do_all(store: KeyStore) -> None:
    assert store.user(None) == LOCAL
    secret = store.add("ann", "read")
    assert store.user(store.login("ann", secret)) == Principal("ann", "read")
    for stranger in (None, "eve", "ann"):
        with pytest.raises(NotAuthenticated):
            store.user(stranger)


def test_serving_beyond_this_machine_stays_closed_when_the_last_key_goes(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.json", required=True)
    store.add("ann", "admin")
    store.revoke("ann")
    with pytest.raises(NotAuthenticated):
        store.user(None)


def test_revoking_the_last_key_never_opens_a_running_server(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    running = KeyStore(file)
    assert not running.required
    KeyStore(file).add("ann", "admin")
    assert running.required
    KeyStore(file).revoke("ann")
    assert running.required
    with pytest.raises(NotAuthenticated):
        running.user(None)
    secret = KeyStore(file).add("eve", "read")
    assert running.user(running.login("eve", secret)) == Principal("eve", "read")


def test_a_server_started_with_keys_stays_closed_without_them(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    KeyStore(file).add("ann", "admin")
    running = KeyStore(file)
    file.unlink()
    assert running.required
    assert not KeyStore(file).required


def test_a_key_of_an_older_version_is_told_and_opens_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    old = {"name": "ann", "scope": "admin", "salt": "00", "hash": "00", "created": "2026-01-01"}
    file.write_text(json.dumps([old]))
    with pytest.raises(DamagedKeys):
        KeyStore(file)


def test_a_secret_of_a_million_letters_is_not_even_hashed(store: KeyStore) -> None:
    store.add("ann")
    with pytest.raises(NotAuthenticated):
        store.principal("x" * 1_000_000)


@pytest.mark.parametrize("change", ["add", "revoke"])
def test_two_programs_that_change_the_keys_at_once_lose_neither_change(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    store.add("ann")
    other = KeyStore(store._document.file)
    late = threading.Thread(target=other.add, args=("bob",))
    reading = store._document.read

    def slowly() -> bytes:
        content = reading()
        late.start()
        # Long enough for the other one to read and write in between, if it may.
        late.join(1)
        return content

    monkeypatch.setattr(store._document, "read", slowly)
    if change == "add":
        store.add("cleo")
    else:
        store.revoke("ann")
    late.join()
    names = [key["name"] for key in json.loads(store._document.file.read_text())]
    assert names == (["ann", "cleo", "bob"] if change == "add" else ["bob"])


def test_revoking_where_there_are_no_keys_leaves_nothing_behind(tmp_path: Path) -> None:
    assert not KeyStore(tmp_path / "none" / "keys.json").revoke("ann")
    assert not list(tmp_path.iterdir())
