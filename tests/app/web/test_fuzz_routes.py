"""Every route with generated bodies: an answer below 500, in the promised form, within seconds."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from app.service import FaceService
from app.settings import Settings
from app.web import api
from index.types import NewPhoto
from model.types import Embedding
from tests import samples
from tests.app import helpers
from tests.fuzzing import as_json, changed, damaged, junk, many, odd_text
from tests.index.helpers import unit

PERSON, OTHER, PHOTO = "@person", "@other", "@photo"
"""Stand for ids that are in the gallery when the request is sent."""
FACE, BLANK = "@face", "@blank"
"""Stand for pictures."""

Body = dict[str, Any]
PHOTOS: Body = {
    "photos": [{"image": FACE, "name": "a.jpg", "face": 1}, {"image": BLANK}],
    "overrides": {"conflict": "twins", "outlier": "old photo", "poor_quality": "only one"},
}
VERIFY: Body = {
    "img1": FACE, "img2": BLANK, "target_fmr": 1e-3, "prior": 0.5, "face1": 1, "face2": 1,
}  # fmt: skip
ROUTES: dict[tuple[str, str], Body] = {
    ("POST", "/v1/detect"): {"img": BLANK},
    ("POST", "/v1/embed"): {"img": FACE},
    ("POST", "/v1/verify"): VERIFY,
    ("POST", "/v1/verify-many"): {
        "photos": [{"image": FACE, "name": "a"}, {"image": BLANK, "name": "b"}],
        "pairs": [["a", "b"], ["a", "a"]],
        "target_fmr": 1e-3,
    },
    ("POST", "/v1/search"): {"img": FACE, "top": 5, "target_fpir": 0.01, "face": 1},
    ("POST", "/v1/people"): {"name": "Ann", "consent": "by mail", "new_person": False, **PHOTOS},
    ("POST", "/v1/people/{person_id}/photos"): PHOTOS,
    ("POST", "/v1/people/{person_id}/merge"): {"absorb": OTHER},
    ("PATCH", "/v1/people/{person_id}"): {"name": "Ann Lee"},
    ("DELETE", "/v1/people/{person_id}"): {},
    ("DELETE", "/v1/people/{person_id}/photos/{photo_id}"): {},
    ("GET", "/v1/people/{person_id}"): {},
    ("GET", "/v1/people"): {"query": "Ann", "limit": 100, "offset": 0},
    ("GET", "/v1/model"): {},
    ("GET", "/v1/calibration"): {},
    ("GET", "/health"): {},
    ("GET", "/ready"): {},
    ("GET", "/metrics"): {},
}
"""Each operation with a valid body, or the valid query of a GET."""

CHARSETS = (
    "utf-8", "latin-1", "utf-16", "utf-7", "undefined", "idna", "punycode", "unicode_escape",
    "raw_unicode_escape", "base64", "rot13", "mbcs", "cp037", "utf-8-sig", "x" * 300,
)  # fmt: skip


class Server:
    """An app in this process whose gallery always holds two people."""

    def __init__(self, service: FaceService) -> None:
        self.service = service
        self.random = np.random.default_rng(0)
        face = helpers.encoded(samples.collins())
        self.pictures = {FACE: face, BLANK: helpers.blank(64, 48)}
        self.client = TestClient(api.create(service), helpers.BASE, raise_server_exceptions=False)

    def photo(self) -> NewPhoto:
        """A face nobody else has."""
        model_id = self.service.context.bundle.model_id
        vector = unit(self.random.standard_normal(64))
        return NewPhoto(Embedding(vector, model_id), self.random.bytes(8).hex(), 0.9)

    def names(self) -> dict[str, str]:
        """What the stand-ins for ids mean now."""
        everyone = self.service.people(limit=50)
        for name in ("Ann", "Bo")[: max(0, 2 - len(everyone))]:
            self.service.context.gallery.enroll(name, [self.photo()])
        for person in everyone[20:]:
            self.service.forget(person.id)
        first, second = self.service.people(limit=2)
        photos = self.service.photos(first.id)
        return {PERSON: first.id, OTHER: second.id, PHOTO: photos[0].id if photos else "1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, bundle_folder: object) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("fuzz")
    own = Settings(
        data=data,
        bundle=bundle_folder,
        rate_per_minute=0,
        max_pixels=1_000_000,
        max_photos=5,
        audit=False,
    )
    service = FaceService.open(own)
    server = Server(service)
    with server.client:
        # The first request loads what all others share.
        server.client.post("/v1/embed", files={"img": server.pictures[FACE]})
        server.names()
        yield server
    service.close()


@st.composite
def paths(draw: st.DrawFn, template: str, names: dict[str, str]) -> str:
    path = template
    for place, known in (("{person_id}", PERSON), ("{photo_id}", PHOTO)):
        given_id = st.just(names[known])
        odd = odd_text.map(lambda text: quote(text[:3000], safe="", errors="surrogatepass"))
        if place in path:
            path = path.replace(place, draw(given_id | given_id | odd))
    return path


def in_json(value: Any, known: dict[str, str]) -> Any:
    """A body with its stand-ins replaced."""
    if isinstance(value, dict):
        return {key: in_json(each, known) for key, each in value.items()}
    if isinstance(value, list):
        return [in_json(each, known) for each in value]
    return known.get(value, value) if isinstance(value, str) else value


Part = tuple[str, str | None, bytes]
"""A part of a form: its name, its file name and its content."""


@st.composite
def parts(draw: st.DrawFn, body: Any, known: dict[str, bytes]) -> list[Part]:
    """The fields of a body as the parts of a form, some twice."""
    found: list[Part] = []
    for name, value in body.items() if isinstance(body, dict) else [("img", body)]:
        values = value if name == "photos" and isinstance(value, list) else [value]
        for each in values:
            if name == "photos" and isinstance(each, dict):
                each = each.get("image", "")
            if isinstance(each, str) and each in known:
                picture = draw(st.just(known[each]) | damaged(known[each]))
                found.append((name, draw(st.just("a.jpg") | odd_text), picture))
            elif isinstance(each, str):
                found.append((name, None, each.encode(errors="surrogatepass")))
            else:
                found.append((name, draw(st.none() | odd_text), as_json(each)))
    again = draw(st.integers(0, 9))
    return found + found[:1] * again if again > 6 else found


@st.composite
def forms(draw: st.DrawFn, body: Any, known: dict[str, bytes]) -> tuple[str, bytes]:
    """A multipart body and its content type; now and then its framing is damaged."""
    lines = b""
    for name, file, content in draw(parts(body, known)):
        head = 'Content-Disposition: form-data; name="' + name.replace('"', "%22") + '"'
        head += "" if file is None else f'; filename="{file}"'
        if draw(st.integers(0, 9)) == 0:
            head += "\r\n" + draw(odd_text) + ": " + draw(odd_text)
        lines += b"--edge\r\n" + head.encode(errors="surrogatepass") + b"\r\n\r\n" + content
        lines += b"\r\n"
    kind = "multipart/form-data; boundary=edge"
    if draw(st.booleans()):
        kind += "; charset=" + draw(st.sampled_from(CHARSETS))
    lines += b"--edge--\r\n"
    if draw(st.integers(0, 4)) == 0:
        lines = draw(damaged(lines))
    return kind, lines


@st.composite
def bodies(
    draw: st.DrawFn, valid: Body, server: Server, names: dict[str, str]
) -> tuple[str, bytes]:
    """A content type and a body near a valid one."""
    body = draw(changed(valid) | changed(valid, 1))
    if draw(st.integers(0, 3)) == 0:
        body = draw(junk) if draw(st.integers(0, 9)) == 0 else valid
    if draw(st.booleans()):
        return draw(forms(in_json(body, names), server.pictures))
    text = {
        name: base64.b64encode(draw(st.just(data) | damaged(data, 1))).decode()
        for name, data in server.pictures.items()
    }
    kinds = ("application/json",) * 8 + ("Application/JSON; charset=utf-16", "text/plain", "", "/")
    data = as_json(in_json(body, names | text))
    return draw(st.sampled_from(kinds)), draw(st.just(data) | st.just(data) | damaged(data, 1))


def test_every_route_is_tried(server: Server) -> None:
    described = server.client.get("/openapi.json").json()["paths"]
    assert set(ROUTES) == {
        (method.upper(), path) for path, methods in described.items() for method in methods
    }


def test_what_is_not_changed_is_accepted(server: Server) -> None:
    """Else the changes would try nothing behind the first check."""
    known = {name: base64.b64encode(data).decode() for name, data in server.pictures.items()}
    for (method, path), valid in ROUTES.items():
        names = server.names()
        path = path.replace("{person_id}", names[PERSON]).replace("{photo_id}", names[PHOTO])
        body = in_json(valid, names | known)
        sent = {"params": body} if method == "GET" else {"json": body}
        status = server.client.request(method, path, **sent).status_code
        wanted = (422,) if path == "/v1/verify" else (200, 201, 409)
        assert status in wanted, (method, path, status)


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_no_request_is_answered_with_a_server_error(server: Server, route: tuple[str, str]) -> None:
    method, template = route
    statuses: dict[int, int] = {}

    @many
    @given(st.data())
    def answered(data: st.DataObject) -> None:
        names = server.names()
        path = data.draw(paths(template, names))
        if method == "GET":
            query = data.draw(changed(ROUTES[route]))
            asked = query.items() if isinstance(query, dict) else [("query", query)]
            sent = "&".join(
                f"{quote(str(key), errors='replace')}={quote(str(value), errors='replace')}"
                for key, value in asked
            )
            response = server.client.request(method, f"{path}?{sent}"[:60_000])
        else:
            kind, body = data.draw(bodies(ROUTES[route], server, names))
            response = server.client.request(
                method, path, content=body, headers={"Content-Type": kind}
            )
        status = response.status_code
        statuses[status] = statuses.get(status, 0) + 1
        assert status < 500, response.text
        if status >= 400:
            error = json.loads(response.text)["error"]
            assert set(error) == {"code", "message", "details"}

    answered()
    print(method, template, dict(sorted(statuses.items())))
