"""The page over HTTP as a browser calls it: what a session keeps, and how long a login lasts."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from app.auth import LOCAL, KeyStore, Scope
from app.service import FaceService
from app.settings import Settings
from app.ui import private_folder
from app.ui.gradio_patches import STREAMS_PER_CALLER, PageMount
from app.ui.widgets.photo_picker import picker_value
from app.usecases.results import Upload
from app.web import server
from app.web.callers import Caller
from app.web.limits import TooManyRequests
from tests.app.helpers import Photos

Browser = Callable[[], TestClient]


@pytest.fixture
def browser(service: FaceService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """Opens the page of a server that runs while the client is entered."""
    # The folder goes with the server; that of the process is for the other tests.
    monkeypatch.setattr(private_folder, "FOLDER", tmp_path / "private")
    return lambda: TestClient(server.build(service), base_url="http://127.0.0.1")


def press(client: TestClient, element: str, *given: object, session: str = "mine") -> str:
    """Press a button; returns its first output."""
    return send(client, element, "click", *given, session=session)["output"]["data"][0]


def send(
    client: TestClient, element: str, event: str, *given: object, session: str = "mine"
) -> dict:
    """Send an event of an element; returns how it ended."""
    config = client.get("/config").json()
    (number,) = (
        each["id"] for each in config["components"] if each["props"].get("elem_id") == element
    )
    (called,) = (
        each["id"] for each in config["dependencies"] if [number, event] in each["targets"]
    )
    call = {"data": given, "fn_index": called, "session_hash": session}
    assert client.post("/gradio_api/queue/join", json=call).status_code == 200
    answer = client.get("/gradio_api/queue/data", params={"session_hash": session}).text
    told = [json.loads(line.removeprefix("data: ")) for line in answer.split("\n\n") if line]
    (done,) = (each for each in told if each["msg"] == "process_completed")
    return done


def test_a_session_keeps_neither_the_photo_nor_the_answer(browser: Browser, photos: Photos) -> None:
    with browser() as client:
        given = picker_value([Upload("hopper.jpg", photos.hopper)])
        shown = press(client, "search-run", given, 0.01)
        assert "data:image" in shown
        sessions = client.app.router.routes[-1].app.state_holder.session_data
        kept = json.dumps(sessions["mine"].config_values, default=str)
        assert base64.b64encode(photos.hopper).decode() not in kept
        assert json.dumps(shown)[1:-1] not in kept


def test_nobody_can_have_a_session_written_into_a_file(browser: Browser, photos: Photos) -> None:
    with browser() as client:
        press(client, "search-run", picker_value([Upload("hopper.jpg", photos.hopper)]), 0.01)
        mine = {"session_hash": "mine"}
        for address in ("/gradio_api/deep_link", "/gradio_api/deep_link/"):
            assert client.get(address, params=mine).status_code == 404, address
        for address in ("//gradio_api/deep_link", "/deep_link", "/gradio_api%2Fdeep_link"):
            answer = client.get(address, params=mine)
            assert answer.status_code >= 400 or "html" in answer.headers["content-type"], address


def test_a_login_ends_with_its_key_though_another_gets_the_name(
    service: FaceService, browser: Browser, photos: Photos
) -> None:
    keys = KeyStore(service.settings.keys_file)
    given = picker_value([Upload("hopper.jpg", photos.hopper)])
    old = keys.add("ann", "read")
    with browser() as client:
        assert client.post("/login", data={"username": "ann", "password": old}).is_success
        cookies = dict(client.cookies)
        assert "data:image" in press(client, "search-run", given, 0.01)
        keys.revoke("ann")
        new = keys.add("ann", "admin")
        for path in ("/config", "/gradio_api/info", "/gradio_api/queue/data?session_hash=x"):
            assert client.get(path).status_code == 401, path
        join = {"data": [], "fn_index": 0, "session_hash": "theirs"}
        assert client.post("/gradio_api/queue/join", json=join).status_code == 401
        assert client.post("/login", data={"username": "ann", "password": old}).is_client_error
        client.cookies.clear()
        assert client.post("/login", data={"username": "ann", "password": new}).is_success
        assert "data:image" in press(client, "search-run", given, 0.01, session="new")
        # The new key's login does not bring the old one back.
        mine = dict(client.cookies)
        client.cookies.clear()
        client.cookies.update(cookies)
        assert client.post("/gradio_api/queue/join", json=join).status_code == 401
        # Whoever loads the page with it is asked to log in, and nobody else.
        assert 'name="password"' in client.get("/").text
        client.cookies.clear()
        client.cookies.update(mine)
        assert '"auth_required":true' not in client.get("/").text


def test_a_page_opened_before_the_first_key_asks_for_it_without_a_restart(
    service: FaceService, browser: Browser
) -> None:
    with browser() as client:
        assert '"auth_required":true' not in client.get("/").text
        KeyStore(service.settings.keys_file).add("ann", "read")
        assert 'name="password"' in client.get("/").text
        assert client.get("/config").status_code == 401


def test_a_session_belongs_to_the_login_that_opened_it(
    service: FaceService, browser: Browser, photos: Photos
) -> None:
    keys = KeyStore(service.settings.keys_file)
    secrets = {scope: keys.add(scope, scope) for scope in ("read", "admin")}
    given = picker_value([Upload("hopper.jpg", photos.hopper)])
    with browser() as client:
        client.post("/login", data={"username": "admin", "password": secrets["admin"]})
        assert "data:image" in press(client, "search-run", given, 0.01)
        client.cookies.clear()
        client.post("/login", data={"username": "read", "password": secrets["read"]})
        call = {"data": [], "fn_index": 0, "session_hash": "mine"}
        for path in ("queue/join", "run/predict", "cancel", "reset"):
            assert client.post(f"/gradio_api/{path}", json=call).status_code == 403, path
        twice = b'{"session_hash": "own", "data": [], "fn_index": 0, "session_hash": "mine"}'
        kind = {"content-type": "application/json"}
        answer = client.post("/gradio_api/queue/join", content=twice, headers=kind)
        assert answer.status_code == 403
        for path in ("queue/data?session_hash=mine", "heartbeat/mine", "heartbeat/mine/"):
            assert client.get(f"/gradio_api/{path}").status_code == 403, path
        assert "data:image" in press(client, "search-run", given, 0.01, session="own")


def test_an_export_is_downloaded_by_the_login_that_made_it_alone(
    service: FaceService, browser: Browser
) -> None:
    keys = KeyStore(service.settings.keys_file)
    secrets = {scope: keys.add(scope, scope) for scope in ("read", "admin")}
    with browser() as client:
        client.post("/login", data={"username": "admin", "password": secrets["admin"]})
        ended = send(client, "gallery-export", "click")
        (address,) = re.findall(r"/page/download/[\w-]+", json.dumps(ended))
        mine = dict(client.cookies)
        client.cookies.clear()
        assert client.get(address).status_code == 404
        client.post("/login", data={"username": "read", "password": secrets["read"]})
        assert client.get(address).status_code == 404
        client.cookies.clear()
        client.cookies.update(mine)
        assert client.get(address).status_code == 200


def test_the_login_is_a_strict_cookie_and_its_token_is_not_handed_out(
    service: FaceService, browser: Browser
) -> None:
    key = KeyStore(service.settings.keys_file).add("ann", "read")
    with browser() as client:
        answer = client.post("/login", data={"username": "ann", "password": key})
        (cookie,) = answer.headers.get_list("set-cookie")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "Secure" not in cookie, "there is no TLS"
        token = next(iter(dict(client.cookies).values()))
        for path in ("token", "token/", "user", "login_check", "app_id", "call/x/y"):
            answer = client.get(f"/gradio_api/{path}")
            assert answer.status_code == 404
            assert token not in answer.text


def test_a_login_ends_by_post_alone(service: FaceService, browser: Browser) -> None:
    key = KeyStore(service.settings.keys_file).add("ann", "read")
    with browser() as client:
        client.post("/login", data={"username": "ann", "password": key})
        cookies = dict(client.cookies)
        assert client.get("/logout").status_code in (404, 405)
        assert client.get("/config").status_code == 200
        assert client.post("/logout").is_success
        client.cookies.update(cookies)
        assert client.get("/config").status_code == 401


def test_the_login_is_a_secure_cookie_behind_a_proxy(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folder, "FOLDER", tmp_path / "private")
    key = KeyStore(settings.keys_file).add("ann", "read")
    service = FaceService.open(dataclasses.replace(settings, behind_proxy=True))
    with TestClient(server.build(service), base_url="http://127.0.0.1") as client:
        answer = client.post("/login", data={"username": "ann", "password": key})
        assert "Secure" in answer.headers["set-cookie"]
    service.close()


def test_wrong_logins_lock_out_no_right_one(service: FaceService, browser: Browser) -> None:
    key = KeyStore(service.settings.keys_file).add("ann", "read")
    with browser() as client:
        wrong = {"username": "ann", "password": "wrong"}
        codes = [client.post("/login", data=wrong).status_code for _ in range(30)]
        assert codes[0] == 400
        assert codes[-1] == 429
        assert client.post("/login", data={"username": "ann", "password": key}).is_success


def test_streams_that_stay_open_are_bounded(service: FaceService, browser: Browser) -> None:
    with browser() as client:
        (page,) = (r for r in client.app.router.routes if isinstance(r, PageMount))
        caller = Caller("here", LOCAL)
        with contextlib.ExitStack() as opened:
            for number in range(STREAMS_PER_CALLER):
                opened.enter_context(page._stream(caller, f"/gradio_api/heartbeat/{number}"))
            with pytest.raises(TooManyRequests), page._stream(caller, "/gradio_api/queue/data"):
                pass
            with page._stream(Caller("elsewhere", LOCAL), "/gradio_api/queue/data"):
                pass
        assert not page._streams


def test_what_only_a_proxy_may_say_is_not_believed(browser: Browser) -> None:
    with browser() as client:
        said = {"x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}
        assert "evil.example" not in client.get("/", headers=said).text
        assert client.get("/config", headers=said).json()["root"].startswith("http:")


def test_files_are_taken_in_for_admins_alone_and_not_after_their_key(
    service: FaceService, browser: Browser
) -> None:
    keys = KeyStore(service.settings.keys_file)
    secrets = {scope: keys.add(scope, scope) for scope in ("enroll", "admin")}

    def upload(ending: str = "") -> int:
        files = {"files": ("people.zip", b"people")}
        return client.post("/gradio_api/upload" + ending, files=files).status_code

    with browser() as client:
        assert upload() == 401
        client.post("/login", data={"username": "enroll", "password": secrets["enroll"]})
        assert upload() == 403
        assert upload("%0A") == 404
        client.post("/login", data={"username": "admin", "password": secrets["admin"]})
        assert upload() == 200
        keys.revoke("admin")
        assert upload() == 401


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("scope", ["read", "admin"])
@pytest.mark.parametrize("element", ["gallery-file", "model-measure"])
def test_a_file_that_was_not_uploaded_is_neither_read_nor_deleted(
    service: FaceService, browser: Browser, tmp_path: Path, element: str, scope: Scope,
    streamed: bool,
) -> None:  # fmt: skip
    theirs = tmp_path / "photos.zip"
    theirs.write_bytes(b"not the page's")
    meta = {"_type": "gradio.FileData"}
    named = {"path": str(theirs), "is_stream": streamed, "meta": meta}
    key = KeyStore(service.settings.keys_file).add("ann", scope)
    with browser() as client:
        client.post("/login", data={"username": "ann", "password": key})
        if element == "gallery-file":
            ended = send(client, element, "upload", "", None, 0, named, False)
        else:
            ended = send(client, element, "click", named, None)
    assert not ended["success"]
    assert theirs.read_bytes() == b"not the page's"


def test_only_what_the_page_sends_is_taken_in(service: FaceService, browser: Browser) -> None:
    with browser() as client:
        for path in (
            "process_recording",
            "component_server",
            "vibe-edit",
            "call/search",
            "upload\n",
        ):
            answer = client.post(f"/gradio_api/{quote(path)}", files={"video": ("a.mp4", b"x")})
            assert answer.status_code == 404, path
        KeyStore(service.settings.keys_file).add("ann", "read")
        assert client.post("/login%0A", data={"username": "a", "password": "b"}).status_code == 401


def test_no_connection_is_held_open_without_a_login(service: FaceService, browser: Browser) -> None:
    KeyStore(service.settings.keys_file).add("ann", "read")
    with browser() as client:
        assert client.get("/gradio_api/heartbeat/mine").status_code == 401
