"""Two servers on one PostgreSQL gallery share keys, calibration, audit log and limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.audit import AuditLog
from app.auth import KeyStore, NotAuthenticated, Principal
from app.cli.main import main
from app.service import FaceService
from app.settings import Settings
from app.web import api
from model.errors import BundleMismatch, GalleryUnavailable
from tests.app import helpers
from tests.app.helpers import BASE, Photos
from tests.index.postgresql_server import PostgresServer, start_server
from tests.waiting import eventually


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresServer]:
    server = start_server()
    yield server
    server.remove()


@pytest.fixture
def shared(settings: Settings, postgresql: PostgresServer) -> Settings:
    return replace(settings, gallery=postgresql.new_gallery())


@pytest.fixture
def servers(shared: Settings, tmp_path: Path) -> Iterator[tuple[FaceService, FaceService]]:
    one = FaceService.open(shared)
    two = FaceService.open(replace(shared, data=tmp_path / "other"))
    yield one, two
    one.close()
    two.close()


def test_keys_made_and_revoked_anywhere_hold_everywhere(
    servers: tuple[FaceService, FaceService],
) -> None:
    one, two = servers
    secret = one.keys.add("ann", "enroll")
    assert one.keys.principal(secret) == Principal("ann", "enroll")
    assert eventually(lambda: two.keys.required, 1), "within a second"
    assert two.keys.principal(secret) == Principal("ann", "enroll")
    with pytest.raises(ValueError, match="already"):
        two.keys.add("ann")
    assert two.keys.revoke("ann")

    def refused() -> bool:
        try:
            one.keys.principal(secret)
        except NotAuthenticated:
            return True
        return False

    assert eventually(refused, 1), "within a second"


def test_an_activated_calibration_is_used_by_all_and_after_a_restart(
    servers: tuple[FaceService, FaceService], shared: Settings, tmp_path: Path
) -> None:
    one, two = servers
    own = one.calibration().id
    mine = helpers.made_up_calibration(one.context.bundle, seed=7)
    assert mine.id != own
    one.activate(mine)
    assert one.calibration().id == mine.id
    assert eventually(lambda: two.calibration().id == mine.id, 1)
    third = FaceService.open(replace(shared, data=tmp_path / "third"))
    assert third.calibration().id == mine.id
    third.close()
    two.activate(None)
    assert eventually(lambda: one.calibration().id == own, 1)


def test_a_calibration_that_was_put_back_does_not_return_with_a_server_that_brought_it(
    shared: Settings,
) -> None:
    files = replace(shared, gallery="")
    alone = FaceService.open(files)
    own, mine = alone.calibration().id, helpers.made_up_calibration(alone.context.bundle, seed=7)
    alone.activate(mine)
    alone.close()
    for expected in (mine.id, own):
        server = FaceService.open(shared)
        assert server.calibration().id == expected
        server.activate(None)
        server.close()


def test_the_audit_log_is_one_chain(
    servers: tuple[FaceService, FaceService], photos: Photos
) -> None:
    for number in range(4):
        servers[number % 2].detect(photos.nobody)
    assert not servers[0].settings.audit_file.exists()
    log = servers[0].context.stores.shared
    assert [json.loads(line)["what"] for line in log] == ["detect"] * 4
    assert AuditLog(log).check() is None
    with log._pool.connection() as connection:
        connection.execute("DELETE FROM audit WHERE seq = 2")
    assert AuditLog(log).check() == 2


def test_a_limit_counts_requests_at_all_servers(shared: Settings, tmp_path: Path) -> None:
    limited = replace(shared, rate_per_minute=6)
    opened = [FaceService.open(replace(limited, data=tmp_path / name)) for name in "ab"]
    clients = [TestClient(api.create(service), BASE) for service in opened]
    answers = [clients[number % 2].get("/v1/model") for number in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 6 + [429] * 2
    assert 0 < int(answers[-1].headers["retry-after"]) <= 10
    for service in opened:
        service.close()


def test_another_model_is_refused(shared: Settings, tmp_path: Path) -> None:
    FaceService.open(shared).close()
    other = helpers.make_bundle(tmp_path / "bundle", dim=32)
    with pytest.raises(BundleMismatch):
        FaceService.open(replace(shared, bundle=other))


def test_ready_says_how_far_behind_the_index_is(
    servers: tuple[FaceService, FaceService], photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    client = TestClient(api.create(two), BASE)
    assert client.get("/ready").json()["behind"] == 0
    monkeypatch.setattr(two.context.search, "sync", lambda **_: 0)
    one.enroll("Ann", helpers.uploads(photos.collins, photos.collins_again))
    assert client.get("/ready").json()["behind"] == 2
    monkeypatch.setattr("app.web.routes.operations.MOST_BEHIND", 1)
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0


def test_without_the_database_nobody_gets_in_but_the_process_is_alive(
    servers: tuple[FaceService, FaceService],
    postgresql: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("index.postgresql.shared_state.DEAF_SECONDS", 0.1)
    one, _ = servers
    key = {"x-api-key": one.keys.add("ann", "admin")}
    client = TestClient(api.create(one), BASE)
    assert client.get("/v1/model", headers=key).status_code == 200
    postgresql.stop("immediate")
    try:
        assert eventually(lambda: client.get("/v1/model", headers=key).status_code == 503)
        with pytest.raises(GalleryUnavailable):
            one.keys.principal(key["x-api-key"])
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code == 503
    finally:
        postgresql.start()
    assert eventually(lambda: client.get("/v1/model", headers=key).status_code == 200, 30)


def test_the_commands_use_the_shared_keys_and_the_first_server_brings_its_own(
    shared: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    shared.prepare()
    KeyStore(shared.keys_file).add("ann", "admin")
    options = ["--data", str(shared.data), "--gallery", shared.gallery]
    assert main(["keys", "add", "bob", *options]) == 0
    shared.keys_file.unlink()
    capsys.readouterr()
    assert main(["keys", "list", *options]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["ann", "bob"]
    assert main(["audit", *options]) == 1
