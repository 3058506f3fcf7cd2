"""Attacks on the web server that once worked, each kept out by a test."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.auth import KeyStore
from app.service import FaceService
from app.settings import Settings
from app.ui import private_folder
from app.web import errors, server
from app.web.callers import Caller
from app.web.dependencies import AppState
from app.web.limits import Busy
from app.web.middleware import body as arriving
from app.web.middleware.site import host_name
from tests.app.helpers import BASE, error

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module", autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The page's folder goes with the server; that of the process is for the other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_folder, "FOLDER", tmp_path_factory.mktemp("private") / "folder")
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path) -> Iterator[TestClient]:
    """API and page together, as they are served."""
    data = tmp_path_factory.mktemp("attacked")
    service = FaceService.open(Settings(data=data, bundle=bundle_folder, rate_per_minute=0))
    with TestClient(server.build(service), BASE, raise_server_exceptions=False) as client:
        yield client
    service.close()


FOREIGN = (
    {"origin": "https://evil.example"},
    {"origin": "http://127.0.0.1:9999"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
)


@pytest.mark.parametrize("headers", FOREIGN, ids=range(len(FOREIGN)))
def test_another_site_reads_nothing_by_any_method(
    site: TestClient, headers: dict[str, str]
) -> None:
    for path in ("/", "/config", "/gradio_api/token", "/v1/people", "/health", "/docs", "/logout"):
        for method in ("GET", "HEAD", "OPTIONS", "POST"):
            answer = site.request(method, path, headers=headers)
            assert answer.status_code == 403, (method, path)
            assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "faces.example"])
def test_no_answer_allows_another_origin(settings: Settings, host: str) -> None:
    """Also not to a login: it is there that Gradio would allow others."""
    key = KeyStore(settings.keys_file).add("ann", "admin")
    service = FaceService.open(settings)
    with TestClient(server.build(service), f"http://{host}") as client:
        assert client.post("/login", data={"username": "ann", "password": key}).status_code == 200
        for origin in (f"http://{host}", "http://localhost:9999", "https://a.faces.example"):
            for path in ("/", "/config", "/gradio_api/token", "/gradio_api/startup-events"):
                answer = client.get(path, headers={"origin": origin})
                assert answer.status_code == 403 or origin == f"http://{host}"
                assert not [name for name in answer.headers if name.startswith("access-control")]
        assert client.get("/config", headers={"origin": f"http://{host}"}).status_code == 200
    service.close()


def test_another_port_of_a_public_name_is_another_site(settings: Settings) -> None:
    public = Settings(data=settings.data, bundle=settings.bundle, public_names=("faces.example",))
    service = FaceService.open(public)
    with TestClient(server.build(service, page=False), BASE) as client:
        for origin, status in (
            ("https://faces.example", 200),
            ("https://faces.example:9999", 403),
            ("https://sibling.faces.example", 403),
        ):
            assert client.get("/health", headers={"origin": origin}).status_code == status
    service.close()


def test_other_sites_may_link_to_the_page_alone(site: TestClient) -> None:
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    assert site.get("/", headers=link).status_code == 200
    for path in ("/logout", "/page/download/x", "/v1/people", "/config"):
        assert error(site.get(path, headers=link), 403)["code"] == "refused"


@pytest.mark.parametrize(
    "host",
    ["evil@127.0.0.1", "127.0.0.1@evil.example", "127.0.0.1/x", "", " localhost", "localhost#", "[",
     "127.0.0.1:99999999", "localhost:80:80"],
)  # fmt: skip
def test_a_malformed_host_is_no_name_of_this_server(site: TestClient, host: str) -> None:
    assert host_name(host) == ""
    if host.isprintable() and host == host.strip():
        assert error(site.get("/health", headers={"host": host}), 403)["code"] == "refused"


def test_what_needs_no_key_is_exactly_this(settings: Settings) -> None:
    KeyStore(settings.keys_file).add("ann", "admin")
    service = FaceService.open(settings)
    app = server.build(service)
    with TestClient(app, BASE, follow_redirects=False) as client:
        paths = {
            *app.openapi()["paths"],
            "/",
            "/docs",
            "/redoc",
            "/openapi.json",
            "/config",
            "/logout",
        }
        paths |= {f"/gradio_api/{name}" for name in ("info", "token", "queue/data", "heartbeat/x")}
        read = {path for path in paths if client.get(path).status_code == 200}
        assert read == {"/", "/health", "/ready", "/docs", "/openapi.json"}
        assert client.get("/metrics").status_code == 401
    service.close()


BOMBS = {
    "numbers": b'{"photos": [' + b"1," * 3_000_000 + b"1]}",
    "objects": b'{"photos": [' + b"{}," * 2_000_000 + b"{}]}",
    "unknown keys": b"{" + b",".join(b'"k%d":1' % number for number in range(1_000_000)) + b"}",
    "nested": b"[" * 2_000_000,
    "a long number": b'{"img": ' + b"9" * 10_000_000 + b"}",
    "escapes": b'{"img": "' + b"\\u0041" * 2_000_000 + b'"}',
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_json_bomb_is_refused_at_once_with_a_short_answer(site: TestClient, name: str) -> None:
    for path in ("/v1/people", "/v1/detect"):
        started = time.process_time()
        answer = site.post(path, content=BOMBS[name], headers=JSON)
        assert time.process_time() - started < 1.0
        assert answer.status_code in (400, 415, 422)
        assert len(answer.content) < 20_000


def test_problems_told_of_one_request_are_bounded(site: TestClient) -> None:
    answer = site.post("/v1/people", json={"name": "Ann", "photos": [1] * 5000})
    assert len(error(answer, 422)["details"]["fields"]) == errors.MAX_PROBLEMS == 20


def test_a_body_is_not_parsed_for_a_key_that_may_not_send_it(settings: Settings) -> None:
    service = FaceService.open(settings)
    key = {"x-api-key": service.keys.add("reader", "read")}
    with TestClient(server.build(service, page=False), BASE) as client:
        for method, path in (
            ("POST", "/v1/people"),
            ("POST", "/v1/people/x/photos"),
            ("PATCH", "/v1/people/x"),
            ("POST", "/v1/people/x/merge"),
        ):
            answer = client.request(method, path, content=b"no json", headers=key | JSON)
            assert error(answer, 403)["code"] == "not_allowed"
    service.close()


@pytest.mark.parametrize("piece", [b"\r\n--", b"\r", b"\r\n--x\r\n", b"A: b\r\n"])
def test_the_server_stays_awake_while_a_form_is_parsed(site: TestClient, piece: bytes) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="img"; filename="a"\r\n\r\n'
    form = {"content-type": "multipart/form-data; boundary=xy"}
    body = head.replace(b"--x", b"--xy") + piece * (8_000_000 // len(piece)) + b"\r\n--xy--\r\n"
    site.get("/health")
    slowest, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal slowest
        while not done.is_set():
            started = time.monotonic()
            site.get("/health")
            slowest = max(slowest, time.monotonic() - started)

    watching = threading.Thread(target=watch)
    watching.start()
    answer = site.post("/v1/detect", content=body, headers=form)
    done.set()
    watching.join()
    assert answer.status_code in (400, 413, 415)
    assert slowest < 0.5


def slow(pieces: list[tuple[float, bytes]]) -> object:
    async def receive() -> dict:
        await asyncio.sleep(pieces[0][0])
        _, piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    return receive


def test_a_body_that_stands_still_or_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "WINDOW_SECONDS", 0.2)
    for pieces in ([(60, b"x")], [(0.01, b"x")] * 500, [(0.0, bytes(5000)), (60, b"x")]):
        started = time.monotonic()
        with pytest.raises(errors.SlowUpload):
            asyncio.run(arriving.read_body(slow(list(pieces)), 10**6, 60))
        assert time.monotonic() - started < 5
    steady = [(0.05, bytes(500))] * 20
    assert len(asyncio.run(arriving.read_body(slow(steady), 10**6, 60))) == 10_000
    with pytest.raises(errors.SlowUpload):
        asyncio.run(arriving.read_body(slow([(0.05, bytes(500))] * 100), 10**6, 1))


def test_strangers_take_no_place_of_those_with_a_key(service: FaceService) -> None:
    """Someone who logs in slowly, and others who fill all places for that."""
    state = AppState(service)
    stranger = Caller("10.0.0.1", None)
    scope = {"type": "http", "method": "POST", "path": "/login", "headers": [], "caller": stranger}

    async def main() -> None:
        waiting = asyncio.Event()

        async def receive() -> dict:
            waiting.set()
            await asyncio.sleep(60)
            return {}

        body = arriving.BodyMiddleware(service, state=state)
        sending = asyncio.create_task(body(scope, receive, receive))
        await waiting.wait()
        assert state.login_arrivals.arriving == {stranger.counted_as: 1}
        assert not state.arrivals.arriving
        for number in range(state.login_arrivals.places):
            state.login_arrivals.arriving[f"address {number}"] += 1
        with pytest.raises(Busy):
            state.login_arrivals.require_room()
        state.arrivals.require_room()
        sending.cancel()

    asyncio.run(main())


def test_ready_sees_that_no_request_finds_a_place(site: TestClient) -> None:
    assert site.get("/ready").status_code == 200
    state: AppState = site.app.state.shared
    for number in range(state.arrivals.places):
        state.arrivals.arriving[str(number)] += 1
    assert error(site.get("/ready"), 503)["code"] == "busy"
    state.arrivals.arriving.clear()


def test_a_login_is_short(settings: Settings) -> None:
    KeyStore(settings.keys_file).add("ann", "admin")
    service = FaceService.open(settings)
    with TestClient(server.build(service), BASE) as client:
        long = {"username": "ann", "password": "x" * 100_000}
        assert client.post("/login", data=long).status_code == 413
        assert client.post("/login", content=json.dumps(long), headers=JSON).status_code == 413
        # Anything else of a stranger is refused before its body is read.
        assert client.post("/gradio_api/queue/join", content=bytes(100_000)).status_code == 401
    service.close()
