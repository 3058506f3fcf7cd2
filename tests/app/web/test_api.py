"""REST: both forms of every request, DeepFace's names, errors as promised."""

from __future__ import annotations

import base64
import json
import logging

import pytest
from starlette.testclient import TestClient

from app.service import FaceService
from model import wording
from model.errors import IndexUnavailable
from tests.app.helpers import Photos, error


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_verify_in_both_forms_with_deepface_names(client: TestClient, photos: Photos) -> None:
    by_form = client.post(
        "/v1/verify",
        files={"img1": ("a.jpg", photos.collins), "img2": ("b.jpg", photos.collins_again)},
        data={"target_fmr": "0.001", "prior": "0.5"},
    )
    assert by_form.status_code == 200, by_form.text
    body = by_form.json()
    # What DeepFace.verify answers, under the names it uses.
    assert body["verified"] is True
    assert body["distance"] == pytest.approx(1 - body["score"])
    assert body["distance"] <= body["threshold"]
    assert body["threshold"] == pytest.approx(1 - body["score_threshold"])
    assert set(body["facial_areas"]) == {"img1", "img2"}
    area = body["facial_areas"]["img1"]
    assert set(area) == {"x", "y", "w", "h", "left_eye", "right_eye"}
    # The person's own left eye is on the right of the picture.
    assert area["left_eye"][0] > area["right_eye"][0]
    assert body["model"]
    assert body["time"] > 0
    # And what is ours.
    assert body["decision"] == "same"
    assert body["target_fmr"] == 0.001
    assert 0.5 < body["posterior"] <= 1
    assert body["fmr"]["trials"] > 0
    assert body["request_id"] == by_form.headers["x-request-id"]
    by_json = client.post(
        "/v1/verify",
        json={
            "img1": text(photos.collins),
            "img2": "data:image/jpeg;base64," + text(photos.collins_again),
            "target_fmr": 0.001,
        },
    ).json()
    assert by_json["score"] == pytest.approx(body["score"], abs=1e-5)


def test_many_pairs_in_both_forms(client: TestClient, photos: Photos) -> None:
    sent = {"a": photos.hopper, "b": photos.hopper_again, "c": photos.collins, "d": photos.nobody,
            "e": b"no picture"}  # fmt: skip
    pairs = [["a", "b"], ["a", "c"], ["c", "d"], ["a", "a"], ["e", "a"]]
    by_form = client.post(
        "/v1/verify-many",
        files=[("photos", (name, data)) for name, data in sent.items()],
        data={"pairs": json.dumps(pairs), "target_fmr": "0.001"},
    )
    assert by_form.status_code == 200, by_form.text
    answers = by_form.json()["answers"]
    assert [[each["first"], each["second"]] for each in answers] == pairs
    decisions = [each["verdict"] and each["verdict"]["decision"] for each in answers]
    assert decisions == ["same", "different", None, "same", None]
    assert [each["error"] for each in answers] == [None, None, "no_face", None, "bad_image"]
    twice = answers[3]
    assert twice["same_file"]
    assert twice["headline"] == twice["verdict"]["headline"] == wording.SAME_FILE
    alone = client.post(
        "/v1/verify", files={"img1": sent["a"], "img2": sent["b"]}, data={"target_fmr": "0.001"}
    ).json()
    assert answers[0]["headline"] == answers[0]["verdict"]["headline"] == alone["headline"]
    assert answers[0]["verdict"]["score"] == pytest.approx(alone["score"], abs=1e-5)
    in_json = {
        "photos": [{"image": text(data), "name": name} for name, data in sent.items()],
        "pairs": pairs, "target_fmr": 0.001,
    }  # fmt: skip
    by_json = client.post("/v1/verify-many", json=in_json)
    assert by_json.json()["answers"] == answers


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": []},
        {"pairs": [["a"]]},
        {"pairs": [["a", "other"]]},
        {"pairs": [["a", "b"]] * 1001},
        {"photos": [{"image": "", "name": "a"}, {"image": "", "name": "a"}]},
        {"target_fmr": 2},
    ],
)
def test_pairs_that_cannot_be_right_are_refused_before_a_photo_is_decoded(
    client: TestClient, service: FaceService, monkeypatch: pytest.MonkeyPatch, change: dict
) -> None:
    monkeypatch.setattr(service.context.pipeline, "photo", None)
    photos = [{"image": "", "name": "a"}, {"image": "", "name": "b"}]
    body = {"photos": photos, "pairs": [["a", "b"]]} | change
    assert error(client.post("/v1/verify-many", json=body), 422)["code"] == "invalid"


def test_several_faces_answer_with_every_pair(client: TestClient, photos: Photos) -> None:
    files = {"img1": photos.both, "img2": photos.collins}
    found = error(client.post("/v1/verify", files=files), 409)
    assert found["code"] == "several_faces"
    assert [face["number"] for face in found["details"]["faces"]["img1"]] == [1, 2]
    pairs = {(pair["face1"], pair["face2"]): pair for pair in found["details"]["pairs"]}
    assert pairs[2, 1]["verified"]
    assert not pairs[1, 1]["verified"]
    chosen = client.post("/v1/verify", files=files, data={"face1": "2"}).json()
    assert chosen["score"] == pytest.approx(pairs[2, 1]["score"], abs=1e-5)


def test_detect_and_embed(client: TestClient, photos: Photos) -> None:
    found = client.post("/v1/detect", files={"img": photos.both}).json()
    assert (found["width"], found["height"]) == (1024, 600)
    assert len(found["faces"]) == 2
    assert client.post("/v1/detect", files={"img": photos.nobody}).json()["faces"] == []
    vectors = client.post("/v1/embed", json={"img": text(photos.both)}).json()
    first, second = (result["embedding"] for result in vectors["results"])
    assert sum(value * value for value in first) == pytest.approx(1, abs=1e-4)
    assert first != second
    assert vectors["results"][0]["face_confidence"] > 0.9


def test_embedding_needs_no_index(
    client: TestClient, service: FaceService, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise IndexUnavailable("The search engine is away.")

    monkeypatch.setattr(service.context.search, "stats", away)
    answer = client.post("/v1/embed", files={"img": photos.hopper})
    assert answer.status_code == 200, answer.text
    bundle = service.context.bundle
    assert (answer.json()["model"], answer.json()["model_id"]) == (bundle.name, bundle.model_id)


def test_the_life_of_a_person(client: TestClient, photos: Photos) -> None:
    made = client.post(
        "/v1/people",
        data={"name": "  Eileen   Collins ", "consent": "by mail"},
        files=[("photos", ("a.jpg", photos.collins)), ("photos", ("b.jpg", photos.nobody))],
    )
    assert made.status_code == 201
    body = made.json()
    assert (body["name"], body["created"], body["accepted"]) == ("Eileen Collins", True, 1)
    assert [photo["status"] for photo in body["photos"]] == ["accepted", "no_face"]
    url = f"/v1/people/{body['person_id']}"
    more = client.post(
        url + "/photos", json={"photos": [{"image": text(photos.collins_again), "name": "c.jpg"}]}
    )
    assert more.status_code == 201
    assert client.get("/v1/people").json()["total"] == 1
    assert client.get("/v1/people?query=eileen").json()["people"][0]["photos"] == 2
    assert client.get("/v1/people?query=zz").json()["people"] == []
    person = client.get(url).json()
    assert [photo["name"] for photo in person["photo_list"]] == ["a.jpg", "c.jpg"]
    assert person["consent"] == "by mail"
    found = client.post("/v1/search", files={"img": photos.collins}, data={"top": "1"}).json()
    assert found["faces"][0]["known"]
    assert found["faces"][0]["candidates"][0]["identity"] == "Eileen Collins"
    assert client.patch(url, json={"name": "E. Collins"}).json()["name"] == "E. Collins"
    photo = person["photo_list"][0]["id"]
    assert client.delete(f"{url}/photos/{photo}").json()["photos"] == 1
    assert error(client.delete(f"{url}/photos/{photo}"), 404)["code"] == "unknown_person"
    gone = client.delete(url).json()
    assert (gone["people"], gone["photos"], gone["complete"]) == (1, 1, True)
    for response in (client.get(url), client.delete(url), client.patch(url, json={"name": "X"})):
        assert error(response, 404)["code"] == "unknown_person"
    assert not client.post("/v1/search", files={"img": photos.collins}).json()["faces"][0]["known"]


def test_enrollment_that_stores_nothing_is_a_conflict(client: TestClient, photos: Photos) -> None:
    client.post("/v1/people", data={"name": "Grace"}, files={"photos": photos.hopper})
    refused = client.post(
        "/v1/people", data={"name": "Else"}, files={"photos": photos.hopper_again}
    )
    found = error(refused, 409)
    assert found["code"] == "enrollment_conflict"
    assert found["details"]["photos"][0]["status"] == "conflict"
    forced = client.post(
        "/v1/people",
        data={"name": "Else", "overrides": '{"conflict": "her sister"}'},
        files={"photos": photos.hopper_again},
    )
    assert forced.status_code == 201
    kept = client.get(f"/v1/people/{forced.json()['person_id']}").json()["photo_list"]
    assert [each["note"] for each in kept] == ["conflict: her sister"]
    listed = client.get("/v1/people").json()["people"]
    assert [each["name"] for each in listed] == ["Grace", "Else"], "oldest first"
    merged = client.post(
        f"/v1/people/{forced.json()['person_id']}/merge",
        json={"absorb": client.get("/v1/people?query=grace").json()["people"][0]["id"]},
    )
    assert merged.json()["photos"] == 2


def test_model_calibration_health_and_metrics(client: TestClient, service: FaceService) -> None:
    model = client.get("/v1/model").json()
    assert model["model_id"] == service.context.bundle.model_id
    assert model["dim"] == service.context.pipeline.dim
    calibration = client.get("/v1/calibration").json()
    assert calibration["id"] == service.calibration().id
    assert [each["target_fmr"] for each in calibration["thresholds"]][:2] == [0.1, 0.01]
    assert sum(calibration["histograms"]["impostor"]) == calibration["impostor_pairs"]
    running = service.context.pipeline.embedder
    health = {"status": "ok", "engine": running.engine, "device": running.device}
    assert client.get("/health").json().items() >= health.items()
    assert client.get("/ready").json()["status"] == "ok"
    figures = client.get("/metrics")
    assert 'face_requests_total{method="GET",route="/v1/model",status="200"} 1.0' in figures.text
    assert figures.headers["content-type"].startswith("text/plain")


def test_methods_callers_make_up_share_one_figure(client: TestClient) -> None:
    for method in ("BREW", "WHEN"):
        client.request(method, "/health")
    figures = client.get("/metrics").text
    assert 'method="other"' in figures
    assert "BREW" not in figures
    assert "WHEN" not in figures


def form_in(charset: str) -> dict:
    """A form with an unknown field that says it is written in this charset."""
    kind = f"multipart/form-data; boundary=edge; charset={charset}"
    part = b'--edge\r\nContent-Disposition: form-data; name="x"\r\n\r\n1!\r\n--edge--\r\n'
    return {"content": part, "headers": {"content-type": kind}}


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400, "malformed"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400, "malformed"),
        (form_in("undefined"), 400, "malformed"),
        (form_in("punycode"), 400, "malformed"),
        (form_in("latin-1"), 422, "invalid"),
        ({"content": b"x", "headers": {"content-type": "text/plain"}}, 415, "wrong_type"),
        ({"content": b"x"}, 415, "wrong_type"),
        ({"json": {}}, 422, "invalid"),
        ({"json": {"img": "https://example.com/a.jpg"}}, 422, "invalid"),
        ({"json": {"img": "/etc/passwd "}}, 422, "invalid"),
        ({"json": {"img": text(b"GIF no"), "extra": 1}}, 422, "invalid"),
        ({"json": {"img": text(b"hello")}}, 415, "wrong_type"),
        ({"json": {"img": text(b"\xff\xd8\xff cut")}}, 400, "bad_image"),
        ({"json": {"img": ""}}, 400, "bad_image"),
        ({"files": {"img": b"hello"}}, 415, "wrong_type"),
        ({"files": [("img", b"GIF8"), ("img", b"GIF8")]}, 422, "invalid"),
        ({"data": {"img": "GIF8"}, "files": {"x": b"GIF8"}}, 422, "invalid"),
    ],
)
def test_bad_requests_are_told_apart(
    client: TestClient, request_: dict, status: int, code: str
) -> None:
    assert error(client.post("/v1/detect", **request_), status)["code"] == code


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"target_fmr": "0"}, "'target_fmr' must be a number above 0 and below 1"),
        ({"target_fmr": "nan"}, "'target_fmr' must be a number above 0 and below 1"),
        ({"prior": "1"}, "'prior' must be a number above 0 and below 1"),
        ({"face1": "0"}, "'face1' must be a whole number from 1 to 1000"),
        ({"face2": "one"}, "'face2' must be a whole number from 1 to 1000"),
        ({"face3": "1"}, "'face3' is not known here; /docs lists the fields"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_allowed(
    client: TestClient, photos: Photos, fields: dict[str, str], words: str
) -> None:
    files = {"img1": photos.collins, "img2": photos.hopper}
    found = error(client.post("/v1/verify", files=files, data=fields), 422)
    message = f"The field {words}."
    assert found["message"] == message
    assert found["details"]["fields"] == [{"field": next(iter(fields)), "message": message}]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], "The request must be an object."),
        ({"photos": [{"image": ""}]}, "The field 'name' is missing."),
        ({"name": " ", "photos": [{"image": ""}]}, "'name' must be 1 to 200 characters"),
        ({"name": "A", "photos": []}, "The field 'photos' must not be empty."),
        ({"name": "A", "photos": {}}, "The field 'photos' must be a list."),
        ({"name": "A", "photos": ["x"]}, "The field 'photos.0' must be an object."),
        ({"name": "A", "photos": [{"image": 5}]}, "'photos.0.image' must be the picture itself"),
        ({"name": "A", "photos": [{"image": "?"}]}, "'photos.0.image' must be the picture itself"),
        ({"name": "A", "photos": [{"image": ""}], "overrides": []}, "'overrides' must be an obj"),
        (
            {"name": "A", "photos": [{"image": ""}], "overrides": {"age": "x"}},
            "'overrides.age' must be named one of conflict, outlier, poor_quality.",
        ),
    ],
)
def test_a_wrong_enrollment_is_explained_in_our_words(
    client: TestClient, body: object, words: str
) -> None:
    assert words in error(client.post("/v1/people", json=body), 422)["message"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("?limit=0", "'limit' must be a whole number from 1 to 1000"),
        ("?offset=x", "'offset' must be a whole number from 0 to 1000000000"),
        ("?query=" + "x" * 201, "'query' must be text of at most 200 characters"),
        ("/a%00b", "'person_id' must be a person's id"),
    ],
)
def test_a_wrong_address_is_explained_in_our_words(
    client: TestClient, path: str, words: str
) -> None:
    assert words in error(client.get("/v1/people" + path), 422)["message"]


def test_unknown_paths_methods_and_ids(client: TestClient) -> None:
    assert error(client.get("/v1/nothing"), 404)["code"] == "not_found"
    assert error(client.put("/v1/verify"), 405)["code"] == "method_not_allowed"
    assert error(client.get("/v1/people/"), 404)["code"] == "not_found"
    assert error(client.delete("/v1/people/x/photos/-1"), 422)["code"] == "invalid"


def test_no_face_is_a_sentence_about_the_photo(client: TestClient, photos: Photos) -> None:
    found = error(
        client.post("/v1/verify", files={"img1": photos.nobody, "img2": photos.hopper}), 422
    )
    assert found["code"] == "no_face"
    assert "first photo" in found["message"]


def test_what_is_no_picture_is_named(client: TestClient, photos: Photos) -> None:
    def verify(first: bytes, second: bytes, status: int) -> str:
        files = {"img1": first, "img2": second}
        return error(client.post("/v1/verify", files=files), status)["message"]

    assert "'img2' is not a picture" in verify(photos.hopper, b"hello", 415)
    assert "HEIC, AVIF or TIFF" in verify(photos.hopper, b"hello", 415)
    assert verify(photos.hopper, b"\xff\xd8\xff cut", 400).startswith("The second photo cannot")
    assert verify(b"", photos.hopper, 400).startswith("The first photo cannot")


@pytest.mark.parametrize(
    ("sent", "status", "code", "words"),
    [
        (["nobody"], 422, "no_face", "The photo was not stored. No face"),
        (["nobody", "nobody"], 422, "no_face", "None of the 2 photos was stored. The first: No"),
        (["cut"], 400, "bad_image", "The photo was not stored. The file"),
        (["nobody", "cut"], 409, "enrollment_conflict", "None of the 2 photos"),
        (["both"], 409, "enrollment_conflict", "The photo was not stored. There are 2 faces"),
    ],
)
def test_an_enrollment_that_stores_nothing_says_why(
    client: TestClient, photos: Photos, sent: list[str], status: int, code: str, words: str
) -> None:
    files = [("photos", getattr(photos, name, b"\xff\xd8\xff cut")) for name in sent]
    found = error(client.post("/v1/people", data={"name": "Ann"}, files=files), status)
    assert found["code"] == code
    assert found["message"].startswith(words)
    assert len(found["details"]["photos"]) == len(sent)


def test_a_request_id_is_kept_when_it_is_harmless(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "app.access"):
        given = client.get("/health", headers={"x-request-id": "trace-42"})
    assert given.headers["x-request-id"] == given.json()["request_id"] == "trace-42"
    assert "/health 200" in caplog.text
    evil = client.get("/health", headers={"x-request-id": "a b\tc<script>"})
    assert len(evil.headers["x-request-id"]) == 16


def test_an_unexpected_error_tells_nothing_but_its_id(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: FaceService) -> None:
        raise RuntimeError("secret path /home/x")

    monkeypatch.setattr(FaceService, "model_info", fail)
    response = client.get("/v1/model")
    assert error(response, 500)["code"] == "internal"
    assert "secret" not in response.text
    assert "secret path" in caplog.text


def test_the_description_is_complete_and_offline(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    nameless = [
        f"{name}.{field}"
        for name, part in schema["components"]["schemas"].items()
        for field, value in part.get("properties", {}).items()
        if not value.get("description") and "$ref" not in value
    ]
    assert not nameless
    page = client.get("/docs").text
    assert "http://" not in page
    assert "https://" not in page
    script = page.split('<script src="')[1].split('"')[0]
    assert client.get(script).status_code == 200


def test_a_large_photo_is_not_written_to_the_disk(
    client: TestClient, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disk(self: object) -> None:
        raise AssertionError("a photo went to a file")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", disk)
    large = photos.nobody + bytes(3_000_000)
    answer = client.post("/v1/detect", files={"img": large})
    assert answer.status_code == 200, answer.text
