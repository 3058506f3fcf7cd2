"""What the live camera is answered, picture by picture."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from app.auth import KeyStore
from app.service import FaceService
from app.ui.live import ADDRESS
from app.usecases.results import Upload
from app.web import server
from tests.app.helpers import Photos


@pytest.fixture
def client(service: FaceService) -> TestClient:
    return TestClient(server.build(service), base_url="http://127.0.0.1")


def test_every_face_is_boxed_and_named_and_no_picture_comes_back(
    client: TestClient, service: FaceService, photos: Photos
) -> None:
    service.enroll("Grace <b>", [Upload("1.jpg", photos.hopper)])
    answer = client.post(ADDRESS, files={"img": photos.both}, data={"target_fpir": "0.01"})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["said"] == "Grace <b>, 1 unknown face"
    boxes = answer.json()["boxes"]
    assert len(re.findall("fv-found", boxes)) == 2
    assert "Grace &lt;b&gt;" in boxes
    assert "<b>" not in boxes
    assert "data:image" not in boxes


def test_a_picture_without_a_face_is_no_error(client: TestClient, photos: Photos) -> None:
    answer = client.post(ADDRESS, files={"img": photos.nobody})
    assert answer.status_code == 200
    assert answer.json()["boxes"] == ""


def test_only_a_login_may_look(client: TestClient, service: FaceService, photos: Photos) -> None:
    KeyStore(service.settings.keys_file).add("ann", "read")
    assert client.post(ADDRESS, files={"img": photos.both}).status_code == 401
    assert client.get(ADDRESS).status_code == 404
