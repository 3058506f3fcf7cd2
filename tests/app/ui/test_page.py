"""The page without a browser: what it takes in, what it serves, and what it does not."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import stat
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from app import samples
from app.auth import LOCAL, KeyStore
from app.service import FaceService
from app.settings import Settings
from app.ui import private_folder
from app.ui.cards import people as people_cards
from app.ui.downloads import PREFIX, Downloads
from app.ui.page import build
from app.ui.widgets import confirmations
from app.ui.widgets.background import SessionJobs, steps
from app.ui.widgets.photo_picker import picker_value, read_uploads
from app.usecases.results import Upload
from app.web import server
from app.web.callers import Caller
from model.errors import BadImage, IndexUnavailable
from model.faces.image import load_image
from tests.app.helpers import Photos

LIMITS = Settings(data=Path("unused"), bundle=Path("unused"), max_upload_bytes=1000, max_photos=3)


@pytest.fixture
def client(service: FaceService) -> TestClient:
    return TestClient(server.build(service), base_url="http://127.0.0.1")


@hypothesis_settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.text(max_size=50), st.binary(max_size=200)), max_size=3))
def test_what_a_picker_sends_arrives_unchanged(photos: list[tuple[str, bytes]]) -> None:
    uploads = [Upload(name, data) for name, data in photos]
    assert read_uploads(picker_value(uploads), LIMITS) == uploads


junk = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "data", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@hypothesis_settings(deadline=None, max_examples=80)
@given(junk.map(json.dumps) | st.text(max_size=60))
def test_anything_else_is_refused_as_a_bad_image(value: str) -> None:
    with contextlib.suppress(BadImage):
        assert all(isinstance(each.data, bytes) for each in read_uploads(value, LIMITS))


def test_too_large_and_too_many_are_refused_by_name() -> None:
    with pytest.raises(BadImage, match=r"big\.jpg has 1\.1 kB; at most 1 kB"):
        read_uploads(picker_value([Upload("big.jpg", bytes(1100))]), LIMITS)
    with pytest.raises(BadImage, match="4 photos are too many"):
        read_uploads(picker_value([Upload("a", b"x")] * 4), LIMITS)


def test_samples_are_small_pictures_with_a_source() -> None:
    sources = (samples.FOLDER / "SOURCES.md").read_text()
    for file in samples.FOLDER.glob("*.jpg"):
        assert file.stat().st_size < 100_000
        line = sources.split(f"`{file.name}`")[1].split("\n- ")[0]
        assert "public domain" in line
        assert "<https://" in line
    for sample in (*samples.pairs(), *samples.singles()):
        assert all(load_image(photo.data).shape[2] == 3 for photo in sample.photos)


def fetching(downloads: Downloads, user: str | None = None) -> TestClient:
    app = FastAPI()
    app.include_router(downloads.router)

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "caller": Caller("here", LOCAL, user)}, receive, send)

    return TestClient(known)


def people(file: Path) -> int:
    return file.write_bytes(b"people")


def test_a_download_works_once_and_leaves_no_file(tmp_path: Path) -> None:
    downloads = Downloads(tmp_path)
    client = fetching(downloads)
    address, size, result = downloads.offer(
        "gallery.faces", lambda file: file.write_bytes(b"people"), None
    )
    assert (size, result) == (6, 6)
    assert len(address.rsplit("/", 1)[1]) >= 43  # 256 bits
    first = client.get(address)
    assert first.content == b"people"
    assert "gallery.faces" in first.headers["content-disposition"]
    assert first.headers["cache-control"] == "no-store"
    assert not list(tmp_path.iterdir())
    assert client.get(address).status_code == 404


def test_a_download_is_for_the_login_that_made_it(tmp_path: Path) -> None:
    downloads = Downloads(tmp_path)
    address, _, _ = downloads.offer("gallery.faces", people, "ann:1")
    for other in (None, "bob:2", "ann:2"):
        assert fetching(downloads, other).get(address).status_code == 404
    assert fetching(downloads, "ann:1").get(address).content == b"people", "still there for ann"


def test_a_download_nobody_fetches_is_deleted_in_time(tmp_path: Path) -> None:
    downloads = Downloads(tmp_path, seconds=2)
    address, _, _ = downloads.offer("gallery.faces", people, None)
    assert list(tmp_path.rglob("gallery.faces"))
    until = time.monotonic() + 60
    while list(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())
    assert fetching(downloads).get(address).status_code == 404


def test_addresses_that_were_never_offered_are_not_remembered(tmp_path: Path) -> None:
    downloads = Downloads(tmp_path)
    client = fetching(downloads)
    for number in range(3):
        assert client.get(f"{PREFIX}guess{number}").status_code == 404
    assert not downloads._fetched


def test_a_download_broken_off_is_deleted_in_time(tmp_path: Path) -> None:
    downloads = Downloads(tmp_path, seconds=10)
    client = fetching(downloads)
    address, _, _ = downloads.offer("gallery.faces", people, None)
    assert client.get(address, headers={"Range": "bytes=900-"}).status_code == 416
    assert client.get(address).status_code == 404
    until = time.monotonic() + 60
    while list(tmp_path.iterdir()) and time.monotonic() < until:
        time.sleep(0.05)
    assert not list(tmp_path.iterdir())


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def fail(file: Path) -> None:
        file.write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Downloads(tmp_path).offer("gallery.faces", fail, None)
    assert not list(tmp_path.iterdir())


def test_an_imported_file_is_deleted_even_when_the_key_was_revoked(
    service: FaceService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folder, "FOLDER", tmp_path)
    upload = tmp_path / "gallery.faces"
    upload.write_bytes(b"people")
    page = build(service, service.settings)
    imports = next(each.fn for each in page.fns.values() if each.name == "do_import")
    KeyStore(service.settings.keys_file).add("ann", "read")
    answer = imports(str(upload), "skip", Namespace(username=None))
    assert any("A key is needed" in str(said) for said in answer.values())
    assert not upload.exists()


def test_who_may_not_calibrate_has_nothing_read(
    service: FaceService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = tmp_path / "photos.zip"
    upload.write_bytes(b"x")
    monkeypatch.setattr(private_folder, "FOLDER", tmp_path)
    monkeypatch.setattr("app.ui.tabs.model._source", lambda *_: pytest.fail("the file was read"))
    keys = KeyStore(service.settings.keys_file)
    user = keys.login("ann", keys.add("ann", "read"))
    page = build(service, service.settings)
    measure = next(each.fn for each in page.fns.values() if each.name == "measure")
    (answer,) = measure(str(upload), None, Namespace(username=user, session_hash="mine"))
    assert any("admin" in str(said) for said in answer.values())
    assert not upload.exists()


def test_a_refused_import_names_the_file_but_not_where_it_lies(
    service: FaceService, tmp_path: Path, photos: Photos
) -> None:
    service.enroll("Grace", [Upload("hopper.jpg", photos.hopper)])
    page = build(service, service.settings)
    imports = next(each.fn for each in page.fns.values() if each.name == "do_import")
    local = Namespace(username=None)

    def said(content: bytes, existing: str) -> str:
        upload = tmp_path / "gallery.faces"
        upload.write_bytes(content)
        return " ".join(map(str, imports(str(upload), existing, local).values()))

    service.export(tmp_path / "exported")
    exported = (tmp_path / "exported").read_bytes()
    for content in (b"no gallery", exported, exported[:-200]):
        words = said(content, "error")
        assert "gallery.faces" in words
        assert str(tmp_path) not in words
        assert "existing=" not in words
    assert "Added 0 people" in said(exported, "skip")


@pytest.mark.parametrize("away", [False, True])
def test_a_photo_is_removed_for_good_only_when_the_index_has_let_go_of_it(
    service: FaceService, photos: Photos, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    person = service.enroll("Grace", [Upload("hopper.jpg", photos.hopper)]).person_id

    def refuse() -> int:
        raise IndexUnavailable("The engine is away.")

    if away:
        monkeypatch.setattr(service.context.search, "sync", refuse)
    said, _ = confirmations.STEPS["remove"].do(service, person, service.photos(person)[0].id)
    assert "Removed photo 1 (hopper.jpg)" in said
    assert ("for good" in said) is not away
    assert (people_cards.LAST_TRACES in said) is away


def test_events_that_look_at_photos_share_the_workers(service: FaceService) -> None:
    settings = replace(service.settings, workers=3)
    page = build(service, settings)
    pickers = {"verify-first", "verify-second", "search-photo", "enroll-photos"}
    looking = [
        each for each in page.fns.values()
        if each.name == "run_sample"
        or (
            each.fn and each.name != "follow"
            and pickers & {given.elem_id for given in each.inputs}
        )
    ]  # fmt: skip
    assert len(looking) == 10
    assert {(each.concurrency_id, each.concurrency_limit) for each in looking} == {("photos", 3)}


def test_stopping_reaches_only_the_own_session() -> None:
    stops = SessionJobs()
    with stops.work("mine") as mine, stops.work("other") as other:
        stops.stop("mine")
        assert mine.is_set()
        assert not other.is_set()
        stops.stop("mine")


def test_work_nobody_waits_for_is_called_off() -> None:
    stops = SessionJobs()

    def page() -> Iterator[threading.Event]:
        with stops.work("mine") as stopping:
            yield stopping

    running = page()
    stopping = next(running)
    assert not stopping.is_set()
    running.close()
    assert stopping.is_set()


def test_steps_tell_progress_then_the_result_or_the_error() -> None:
    def work(fails: bool, progress: Callable[..., None]) -> list[str]:
        progress("half", 1, 2)
        if fails:
            raise BadImage("no picture")
        return ["done"]

    heard = list(steps(partial(work, False)))
    assert heard[-1] == ["done"]
    assert heard[:-1] in ([], [("half", 1, 2)])
    with pytest.raises(BadImage):
        list(steps(partial(work, True)))


def test_nothing_on_the_page_comes_from_elsewhere(client: TestClient) -> None:
    page = client.get("/").text
    styles = client.get("/theme.css").text
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']([^\"']+)", page)
    assert loaded
    assert not [address for address in loaded if re.match(r"(https?:)?//", address)]
    for css in (page, styles):
        assert not re.search(r"url\([\"']?(https?:)?//", css)
        assert not re.search(r"@import\s", css)


def test_the_page_is_no_second_api_and_records_nothing(client: TestClient) -> None:
    described = client.get("/gradio_api/info").json()
    assert described["named_endpoints"] == {}
    assert described["unnamed_endpoints"] == {}
    config = client.get("/config").json()
    assert config["run_history"] is False
    assert config["analytics_enabled"] is False


def test_gradio_files_live_in_a_folder_only_the_owner_can_enter() -> None:
    folder = Path(os.environ["GRADIO_TEMP_DIR"])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_uploaded_file_cannot_be_fetched(client: TestClient) -> None:
    secret = base64.b64encode(os.urandom(60))
    stored = client.post("/gradio_api/upload", files={"files": ("photo.jpg", secret, "image/jpeg")})
    assert stored.status_code == 200
    (path,) = stored.json()
    try:
        assert Path(path).read_bytes() == secret
        for address in (
            f"/gradio_api/file={path}", f"/gradio_api/file={quote(path, safe='')}",
            f"/gradio_api/file/{path.lstrip('/')}", f"/file={path}", f"/file/{path.lstrip('/')}",
            f"//gradio_api/file={path}", f"/gradio_api//file={path}", f"/GRADIO_API/file={path}",
            f"/gradio_api/./file={path}", f"/gradio_api%2Ffile={path}",
            f"/gradio_api/file%3D{path}", f"/gradio_api/stream/{path}",
        ):  # fmt: skip
            answer = client.get(address)
            assert secret not in answer.content, address
            assert answer.status_code >= 400 or "html" in answer.headers["content-type"], address
    finally:
        Path(path).unlink()


@pytest.mark.parametrize("element", ["gallery-file", "model-zip"])
def test_a_file_named_by_address_is_not_fetched(service: FaceService, element: str) -> None:
    from gradio import Error
    from gradio.processing_utils import async_move_files_to_cache

    page = build(service, service.settings)
    file = next(each for each in page.blocks.values() if each.elem_id == element)
    given = {"path": "http://93.184.216.34/x.faces", "meta": {"_type": "gradio.FileData"}}
    with pytest.raises(Error, match="not read"):
        asyncio.run(async_move_files_to_cache(given, file))
