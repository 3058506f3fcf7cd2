"""REST: who may ask, from where, how much and how often."""

from __future__ import annotations

import base64
import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from app.auth import KeyStore, NotAuthenticated
from app.service import FaceService
from app.settings import Settings
from app.web import api, server
from app.web.limits import RateLimiter
from tests.app.helpers import BASE, Photos, error


def opened(settings: Settings, **changes: object) -> tuple[FaceService, TestClient]:
    service = FaceService.open(dataclasses.replace(settings, **changes))
    return service, TestClient(api.create(service), BASE, raise_server_exceptions=False)


def test_sizes_are_limited(settings: Settings, photos: Photos) -> None:
    service, client = opened(settings, max_upload_bytes=1000, max_request_bytes=30_000)
    with client:
        long = error(client.post("/v1/detect", files={"img": photos.nobody * 20}), 413)
        assert long["code"] == "too_large"
        assert error(client.post("/v1/detect", files={"img": photos.hopper}), 413)
        chunks = iter([b"x" * 10_000] * 4)
        kind = {"content-type": "application/json"}
        assert error(client.post("/v1/detect", content=chunks, headers=kind), 413)
    service.close()
    service, client = opened(settings, max_pixels=1000)
    with client:
        wide = error(client.post("/v1/detect", files={"img": photos.nobody}), 413)
        assert wide["code"] == "image_too_large"
        assert "megapixels" in wide["message"]
        sent = {"data": {"name": "Ann"}, "files": {"photos": photos.nobody}}
        enrolling = error(client.post("/v1/people", **sent), 413)
        assert enrolling["code"] == "image_too_large"
        assert enrolling["details"]["photos"][0]["status"] == "too_large"
    service.close()


def test_so_many_photos_at_once_in_both_forms(settings: Settings, photos: Photos) -> None:
    service, client = opened(settings, max_photos=2)
    encoded = {"image": base64.b64encode(photos.nobody).decode()}
    with client:
        for count, status in ((2, 422), (3, 400)):
            files = [("photos", photos.nobody)] * count
            form = client.post("/v1/people", data={"name": "Ann"}, files=files)
            body = {"name": "Ann", "photos": [encoded] * count}
            in_json = client.post("/v1/people", json=body)
            assert error(form, status)["code"] == error(in_json, status)["code"]
        assert error(form, 400) == error(in_json, 400)
        assert "more than 2 photos" in error(in_json, 400)["message"]
    service.close()


def test_other_sites_and_other_names_are_refused(client: TestClient) -> None:
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:9999"},
    ):
        assert error(client.delete("/v1/people/x", headers=headers), 403)["code"] == "refused"
    assert error(client.delete("/v1/people/x", headers={"origin": BASE}), 404)
    assert error(client.get("/v1/people", headers={"host": "evil.example"}), 403)
    assert client.get("/v1/people", headers={"host": "localhost:7860"}).status_code == 200


def test_no_other_site_may_read_answers(client: TestClient) -> None:
    foreign = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    assert error(client.get("/v1/model", headers=foreign), 403)["code"] == "refused"
    assert error(client.options("/v1/verify", headers=foreign), 403)["code"] == "refused"
    response = client.get("/v1/model")
    for name, value in {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }.items():
        assert response.headers[name] == value
    assert "default-src 'self'" in response.headers["content-security-policy"]


def test_keys_scopes_and_failures(settings: Settings, photos: Photos) -> None:
    service, client = opened(settings)
    reader, enroller = service.keys.add("reader"), service.keys.add("enroller", "enroll")
    client = TestClient(api.create(service), BASE, raise_server_exceptions=False)
    with client:
        assert client.get("/health").status_code == 200
        missing = client.get("/v1/people")
        assert error(missing, 401)["code"] == "not_authenticated"
        assert missing.headers["www-authenticate"] == "Bearer"
        assert error(client.get("/metrics"), 401)
        bearer = {"authorization": f"Bearer {reader}"}
        assert client.get("/v1/people", headers=bearer).status_code == 200
        assert client.get("/v1/people", headers={"x-api-key": enroller}).status_code == 200
        photo = {"files": {"photos": photos.collins}, "data": {"name": "E"}}
        assert error(client.post("/v1/people", headers=bearer, **photo), 403)["code"]
        made = client.post("/v1/people", headers={"x-api-key": enroller}, **photo)
        assert made.status_code == 201
        url = f"/v1/people/{made.json()['person_id']}"
        assert error(client.delete(url, headers={"x-api-key": enroller}), 403)
        guesses = [client.get("/v1/people", headers={"x-api-key": "guess"}) for _ in range(10)]
        assert all(error(guess, 401) for guess in guesses)
        while guesses[-1].status_code == 401 and len(guesses) < 60:
            guesses.append(client.get("/v1/people", headers={"x-api-key": "guess"}))
        blocked = guesses[-1]
        assert error(blocked, 429)["code"] == "too_many_requests"
        assert int(blocked.headers["retry-after"]) >= 1
    service.close()


@pytest.mark.usefixtures("stopped_clock")
def test_wrong_keys_are_counted_and_lock_out_no_right_one(settings: Settings) -> None:
    service, client = opened(settings)
    right = {"x-api-key": service.keys.add("ann")}
    with client, ThreadPoolExecutor(36) as pool:
        tried = list(pool.map(lambda n: guess(client, f"wrong {n}"), range(36)))
        assert tried.count(401) == 10
        assert tried.count(429) == 26
        assert client.get("/v1/people", headers=right).status_code == 200, "right keys still work"
    service.close()


def guess(client: TestClient, secret: str) -> int:
    return client.get("/v1/people", headers={"x-api-key": secret}).status_code


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request is allowed anew while a slow machine is still asking."""
    monkeypatch.setitem(RateLimiter.__init__.__kwdefaults__, "clock", lambda: 0.0)


@pytest.mark.usefixtures("stopped_clock")
def test_rate_limits_by_address_and_by_key(settings: Settings) -> None:
    service, client = opened(settings, rate_per_minute=5)
    with client:
        codes = [client.get("/v1/model").status_code for _ in range(7)]
        assert codes == [200] * 5 + [429] * 2
        assert client.get("/health").status_code == 200
        key = {"x-api-key": service.keys.add("ann")}
        clients = [TestClient(client.app, BASE, client=(f"10.0.0.{n}", 1)) for n in (1, 2)]
        codes = [each.get("/v1/model", headers=key).status_code for each in clients * 3]
        assert codes == [200] * 5 + [429]
    service.close()


@pytest.mark.usefixtures("stopped_clock")
def test_the_page_has_the_same_limit_as_the_api(settings: Settings) -> None:
    service = FaceService.open(dataclasses.replace(settings, rate_per_minute=5))
    client = TestClient(server.build(service), BASE, raise_server_exceptions=False)
    file = {"files": ("a.zip", b"x")}
    codes = [client.post("/gradio_api/upload", files=file).status_code for _ in range(4)]
    assert codes == [200] * 4
    assert client.post("/gradio_api/queue/join", json={}).status_code == 422
    for path in ("/gradio_api/upload", "/gradio_api/queue/join", "/gradio_api/run/predict"):
        assert error(client.post(path, files=file), 429)["code"] == "too_many_requests"
    assert client.get("/").status_code == 200
    service.close()


def test_errors_beside_the_page_have_the_form_of_the_api(service: FaceService) -> None:
    client = TestClient(server.build(service), BASE, follow_redirects=False)
    for method, path, status, code in (
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/v1/nope", 404, "not_found"),
        ("GET", "/v1/people/", 404, "not_found"),
        ("GET", "/v1/verify", 405, "method_not_allowed"),
        ("PUT", "/v1/people", 405, "method_not_allowed"),
        ("GET", "/gradio_api/file=/etc/passwd", 404, "not_found"),
        ("GET", "/page/download/used", 404, "gone"),
    ):
        response = client.request(method, path)
        assert error(response, status)["code"] == code
        assert ("allow" in response.headers) == (status == 405)
    assert client.get("/").status_code == 200


def test_the_page_works_behind_a_proxy_that_asks_under_its_own_name(
    settings: Settings, photos: Photos
) -> None:
    service, client = opened(settings, public_names=("Faces.example",))
    with client:
        for origin, status in (
            ("https://faces.example", 200),
            ("https://FACES.example", 200),
            ("https://evil.example", 403),
            ("https://faces.example.evil", 403),
            ("null", 403),
            ("https://[", 403),
        ):
            headers = {"origin": origin, "host": "127.0.0.1:7860"}
            answer = client.post("/v1/detect", files={"img": photos.nobody}, headers=headers)
            assert answer.status_code == status, origin
        headers = {"origin": "https://faces.example", "sec-fetch-site": "same-site"}
        assert error(client.post("/v1/detect", headers=headers), 403)
    service.close()


def test_damaged_keys_let_nobody_in(settings: Settings) -> None:
    service, client = opened(settings)
    with client:
        settings.keys_file.write_text("[")
        refused = client.get("/v1/model")
        assert refused.headers["retry-after"] == "5"
        found = error(refused, 503)
        assert found["code"] == "damaged_keys"
        assert str(settings.data) not in found["message"]
    service.close()


def test_the_first_key_closes_a_running_server_and_the_last_one_does_not_open_it(
    settings: Settings,
) -> None:
    service, client = opened(settings)
    elsewhere = {"host": "faces.example"}
    with client:
        assert client.get("/v1/model").status_code == 200
        assert error(client.get("/v1/model", headers=elsewhere), 403)
        secret = KeyStore(settings.keys_file).add("ann", "admin")
        assert error(client.get("/v1/model"), 401)
        key = {"authorization": f"Bearer {secret}"}
        assert client.get("/v1/model", headers=key | elsewhere).status_code == 200
        KeyStore(settings.keys_file).revoke("ann")
        assert error(client.get("/v1/model"), 401)
        assert error(client.get("/v1/model", headers=key), 401)
        with pytest.raises(NotAuthenticated):
            service.for_user(None)
    service.close()


def test_a_full_queue_turns_away(settings: Settings, photos: Photos) -> None:
    service, client = opened(settings, workers=1, queue=0)
    with client:
        state = client.app.state.shared
        state.queue.admitted = 1
        busy = client.post("/v1/detect", files={"img": photos.nobody})
        assert error(busy, 503)["code"] == "busy"
        assert busy.headers["retry-after"] == "1"
        assert error(client.get("/ready"), 503)
        state.queue.admitted = 0
        assert client.post("/v1/detect", files={"img": photos.nobody}).status_code == 200
    service.close()
