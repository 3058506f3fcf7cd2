"""What the page's events answer, called without a browser."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from app import auth
from app.auth import KeyStore
from app.service import FaceService
from app.ui.page import build
from app.ui.widgets.photo_picker import picker_value
from app.usecases.results import Upload
from tests.app.helpers import Photos, made_up_calibration


def handler(page: Any, module: str, name: str) -> Callable[..., object]:
    return next(
        each.fn for each in page.fns.values()
        if (each.name, getattr(each.fn, "__module__", "")) == (name, f"app.ui.tabs.{module}")
    )  # fmt: skip


def test_an_enrollment_that_breaks_off_shows_what_it_has_stored(
    service: FaceService, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    enroll = FaceService.enroll

    def full(self: FaceService, name: str, uploads: list[Upload], **options: object) -> object:
        if uploads[0].name == "second.jpg":
            raise OSError("disk full")
        return enroll(self, name, uploads, **options)

    monkeypatch.setattr(FaceService, "enroll", full)
    page = build(service, service.settings)
    run = handler(page, "enroll", "run")
    given = picker_value(
        [Upload("first.jpg", photos.hopper), Upload("second.jpg", photos.hopper_again)]
    )
    *_, last = run("Grace", "", given, None, Namespace(username=None, session_hash="mine"))
    words = " ".join(map(str, last.values()))
    assert "Something went wrong" in words
    assert "nothing was changed" not in words
    assert "first.jpg" in words
    assert "1 photo of 2 stored" in words
    assert "may be stored as well" in words
    assert [person.photos for person in service.named("Grace")] == [1]


def test_results_that_are_no_longer_kept_cannot_be_insisted_on(
    service: FaceService, photos: Photos
) -> None:
    page = build(service, service.settings)
    given = picker_value([Upload("a.jpg", photos.hopper)])
    request = Namespace(username=None, session_hash="mine")
    for name, choice in (("run_override", "twins"), ("run_face", 1)):
        run = handler(page, "enroll", name)
        *_, last = run("Grace", "", given, None, [], choice, request)
        words = " ".join(map(str, last.values()))
        assert "These results are too old" in words
        assert "fv-progress" not in words
    assert service.count() == 0


def test_a_measurement_that_is_no_longer_kept_changes_nothing(service: FaceService) -> None:
    own = made_up_calibration(service.context.bundle, seed=1)
    service.activate(own)
    page = build(service, service.settings)
    request = Namespace(username=None, session_hash="mine")
    said = handler(page, "model", "use_result")(None, request)
    assert "Measure again" in " ".join(map(str, said.values()))
    assert service.calibration().id == own.id
    said = handler(page, "model", "use_result")(own.to_json(), request)
    assert "In use from now on" in " ".join(map(str, said.values()))
    handler(page, "model", "go_back")(request)
    assert service.calibration().id == service.context.bundle.calibration.id


def test_folders_on_the_server_are_listed_for_admins_only(
    service: FaceService, tmp_path: Path
) -> None:
    (tmp_path / "own" / "Ann").mkdir(parents=True)
    page = build(service, replace(service.settings, own_photos=tmp_path / "own"))
    keys = KeyStore(service.settings.keys_file)
    users = {scope: keys.login(scope, keys.add(scope, scope)) for scope in ("enroll", "admin")}

    def shown(scope: auth.Scope) -> dict:
        values = handler(page, "model", "show")(Namespace(username=users[scope]))
        return {each.elem_id: value for each, value in values.items()}

    assert "choices" not in shown("enroll")["model-folder"]
    assert shown("enroll")["model-folder"]["visible"] is False
    assert shown("enroll")["model-own"]["visible"] is False
    assert shown("admin")["model-folder"]["choices"] == [("All of own", "."), "Ann"]
    assert shown("admin")["model-own"]["visible"] is True


def test_an_export_is_hidden_from_and_refused_to_all_but_admins(service: FaceService) -> None:
    page = build(service, service.settings)
    keys = KeyStore(service.settings.keys_file)
    for scope, allowed in (("enroll", False), ("admin", True)):
        request = Namespace(username=keys.login(scope, keys.add(scope, scope)))
        shown = handler(page, "gallery", "show")("", None, 0, request)
        (transfer,) = (shown[each] for each in shown if each.elem_id == "gallery-transfer")
        assert transfer["visible"] is allowed
        answer = "".join(map(str, handler(page, "gallery", "do_export")(request).values()))
        assert ("needs 'admin'" in unescape(answer)) is not allowed
