"""Hostile files: whatever is uploaded, the answer is a clean 4xx or a proper result."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from starlette.testclient import TestClient

from app.service import FaceService
from app.settings import Settings
from app.web import api
from tests.app import helpers

KINDS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")
FAST, THOROUGH = 240, 5000
CODES = {400: ("bad_image",), 413: ("too_large", "image_too_large"), 415: ("wrong_type",)}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, bundle_folder: object) -> Iterator[TestClient]:
    settings = Settings(
        data=tmp_path_factory.mktemp("fuzz"),
        bundle=bundle_folder,
        rate_per_minute=0,
        max_pixels=1_000_000,
        audit=False,
    )
    service = FaceService.open(settings)
    with TestClient(
        api.create(service), "http://localhost", raise_server_exceptions=False
    ) as client:
        yield client
    service.close()


def seeds() -> list[bytes]:
    """A small valid picture of each kind, without a face, so that decoding is what is tried."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 48, 3), np.uint8)
    found = []
    for kind in KINDS:
        try:
            found.append(helpers.encoded(pixels, kind))
        except (KeyError, OSError):
            continue
    return found


def mutated(original: bytes, rng: random.Random) -> bytes:
    """Cut, flip, repeat, splice or stretch: what a broken or hostile sender does."""
    data = bytearray(original)
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(data)) if data else 0
        way = rng.randrange(6)
        if way == 0:
            del data[place:]
        elif way == 1 and data:
            data[place] = rng.randrange(256)
        elif way == 2:
            data[place:place] = rng.randbytes(rng.randrange(64))
        elif way == 3:
            data += data[place : place + 200]
        elif way == 4 and len(data) > 30:
            # Headers hold sizes; large numbers there ask for large memory.
            spot = rng.randrange(30)
            data[spot : spot + 4] = b"\xff\xff\xff\x7f"
        else:
            del data[place : place + rng.randrange(32)]
    return bytes(data)


def run(client: TestClient, count: int) -> None:
    rng = random.Random(7)
    originals = seeds()
    statuses: dict[int, int] = {}
    for number in range(count):
        data = mutated(originals[number % len(originals)], rng)
        response = client.post("/v1/detect", files={"img": ("x.jpg", data)})
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
        body = response.json()
        if response.status_code != 200:
            assert response.status_code in CODES, (response.text, data[:64])
            assert body["error"]["code"] in CODES[response.status_code]
            assert len(body["error"]["message"]) < 400
    # Some stay readable and some do not, or the mutations try nothing.
    assert statuses[400] > count / 10
    assert statuses[200] > 0


def test_mutated_pictures(client: TestClient) -> None:
    run(client, FAST)


@pytest.mark.slow
def test_thousands_of_mutated_pictures(client: TestClient) -> None:
    run(client, THOROUGH)


def bomb_png(width: int, height: int) -> bytes:
    """A few hundred bytes that claim to be a huge picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        length, check = len(body), zlib.crc32(kind + body)
        return struct.pack(">I", length) + kind + body + struct.pack(">I", check)

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + head + body


@pytest.mark.parametrize(
    ("size", "status"),
    [((2_000_000_000, 2_000_000_000), 413), ((100_000, 100_000), 413), ((0, 5), 400)],
)
def test_bombs_are_refused_by_their_header(
    client: TestClient, size: tuple[int, int], status: int
) -> None:
    response = client.post("/v1/detect", files={"img": bomb_png(*size)})
    assert response.status_code == status
    assert response.json()["error"]["code"] in CODES[status]


@pytest.mark.parametrize(
    "data",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n(/etc/passwd) run",
        b"%PDF-1.4",
        b"PK\x03\x04",
        b"\x7fELF",
        b"MZ",
        b"#!/bin/sh\nid",
        b"\x00" * 100,
    ],
    ids=range(8),
)
def test_other_kinds_of_files_are_told_by_content(client: TestClient, data: bytes) -> None:
    response = client.post("/v1/detect", files={"img": ("harmless.jpg", data, "image/jpeg")})
    assert response.status_code == 415
