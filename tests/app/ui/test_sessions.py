"""The page over HTTP as a browser calls it: what a session keeps, and how long a login lasts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from app.auth import KeyStore, Scope
from app.service import FaceService
from app.ui import private_folder
from app.ui.widgets.photo_picker import picker_value
from app.usecases.results import Upload
from app.web import server
from tests.app.helpers import Photos

Browser = Callable[[], TestClient]


@pytest.fixture
def browser(service: FaceService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """Opens the page of a server that runs while the client is entered."""
    # The folder goes with the server; that of the process is for the other tests.
    monkeypatch.setattr(private_folder, "FOLDER", tmp_path / "private")
    return lambda: TestClient(server.build(service), base_url="http://127.0.0.1")


def press(client: TestClient, element: str, *given: object) -> str:
    """Press a button; returns its first output."""
    return send(client, element, "click", *given)["output"]["data"][0]


def send(client: TestClient, element: str, event: str, *given: object) -> dict:
    """Send an event of an element; returns how it ended."""
    config = client.get("/config").json()
    (number,) = (
        each["id"] for each in config["components"] if each["props"].get("elem_id") == element
    )
    (called,) = (
        each["id"] for each in config["dependencies"] if [number, event] in each["targets"]
    )
    call = {"data": given, "fn_index": called, "session_hash": "mine"}
    assert client.post("/gradio_api/queue/join", json=call).status_code == 200
    answer = client.get("/gradio_api/queue/data", params={"session_hash": "mine"}).text
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
        assert "A key is needed" not in press(client, "search-run", given, 0.01)
        keys.revoke("ann")
        new = keys.add("ann", "admin")
        assert "A key is needed" in press(client, "search-run", given, 0.01)
        assert client.post("/login", data={"username": "ann", "password": old}).is_client_error
        assert client.post("/login", data={"username": "ann", "password": new}).is_success
        assert "A key is needed" not in press(client, "search-run", given, 0.01)
        # The new key's login does not bring the old one back.
        mine = dict(client.cookies)
        client.cookies.clear()
        client.cookies.update(cookies)
        assert "A key is needed" in press(client, "search-run", given, 0.01)
        # Whoever loads the page with it is asked to log in, and nobody else.
        assert '"auth_required":true' in client.get("/").text
        client.cookies.clear()
        client.cookies.update(mine)
        assert '"auth_required":true' not in client.get("/").text


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


def test_only_what_the_page_sends_is_taken_in(browser: Browser) -> None:
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
        assert client.post("/login%0A", data={"username": "a", "password": "b"}).status_code == 404


def test_no_connection_is_held_open_without_a_login(service: FaceService, browser: Browser) -> None:
    KeyStore(service.settings.keys_file).add("ann", "read")
    with browser() as client:
        assert client.get("/gradio_api/heartbeat/mine").status_code == 401
