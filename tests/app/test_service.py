"""Verification, evidence, scopes and calibration, on a real model and real photos."""

from __future__ import annotations

import dataclasses
import io
import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from app.auth import NotAllowed, Principal
from app.batch.enroller import BatchEnroller
from app.batch.sources import Item
from app.service import FaceService
from app.settings import Settings
from app.usecases.progress import Cancelled
from app.usecases.results import ChoiceNeeded, Compared, Ignored
from app.web.schemas import serializers
from model import wording
from model.bundle import Bundle
from model.errors import BadImage, CalibrationError, FaceError, NoFace
from model.faces.image import load_image
from model.types import Face
from tests import samples
from tests.app import helpers
from tests.app.helpers import Photos, uploads


def test_same_and_different(service: FaceService, photos: Photos) -> None:
    same = service.verify(photos.collins, photos.collins_again)
    different = service.verify(photos.collins, photos.hopper, prior=0.5)
    assert same.verdict.decision == "same"
    assert different.verdict.decision == "different"
    assert different.verdict.posterior < 0.5
    assert same.verdict.calibration_id == service.calibration().id
    assert same.photo_a.faces[0].crop.shape == (112, 112, 3)


def test_order_of_the_photos_does_not_matter(service: FaceService, photos: Photos) -> None:
    forth = service.verify(photos.collins, photos.hopper).verdict.score
    back = service.verify(photos.hopper, photos.collins).verdict.score
    assert forth == pytest.approx(back, abs=1e-5)


def test_several_faces_are_never_picked_silently(service: FaceService, photos: Photos) -> None:
    result = service.verify(photos.both, photos.collins)
    assert isinstance(result, ChoiceNeeded)
    assert [(pair.face_a, pair.face_b) for pair in result.pairs] == [(2, 1), (1, 1)]
    assert result.pairs[0].verdict.decision == "same"
    chosen = service.verify(photos.both, photos.collins, face_a=1)
    assert chosen.verdict.score == pytest.approx(result.pairs[1].verdict.score, abs=1e-5)
    assert (chosen.face_a.number, chosen.face_b.number) == (1, 1)


def test_a_small_face_in_the_background_blocks_nothing(
    service: FaceService, photos: Photos
) -> None:
    portrait = Image.fromarray(samples.hopper())
    portrait.paste(Image.fromarray(samples.collins()).resize((200, 200)), (0, 0))
    picture = helpers.encoded(np.asarray(portrait))
    assert len(service.detect(picture).faces) == 2
    result = service.verify(picture, photos.hopper_again)
    assert isinstance(result, Compared)
    assert result.verdict.decision == "same"
    assert [face.number for face in result.photo_a.candidates] == [result.face_a.number]
    (stored,) = service.enroll("Grace", uploads(picture)).photos
    assert (stored.status, stored.details["background_faces"]) == ("accepted", 1)
    # Whoever means the one in the background says so.
    chosen = service.verify(picture, photos.collins, face_a=2)
    assert isinstance(chosen, Compared)
    assert chosen.face_a.number == 2


def test_a_doubtful_find_blocks_nothing_and_is_named(
    service: FaceService, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    detect = service.context.pipeline.detector.detect

    def unsure(image: np.ndarray) -> list[Face]:
        first, *rest = detect(image)
        return [first, *(dataclasses.replace(face, certain=False) for face in rest)]

    monkeypatch.setattr(service.context.pipeline.detector, "detect", unsure)
    main, spot = service.detect(photos.both).faces
    assert main.ignored == Ignored(possible_faces=1)
    assert spot.ignored == Ignored(), "a face does not name itself"
    result = service.verify(photos.both, photos.hopper)
    assert isinstance(result, Compared)
    assert serializers.verified(result, "model").faces.img1.ignored.possible_faces == 1
    (stored,) = service.enroll("Grace", uploads(photos.both)).photos
    assert (stored.status, stored.details["possible_faces"]) == ("accepted", 1)
    assert main.ignored.message in stored.message
    # The batch says the same of a copy of the photo, in its report and in a dry run.
    item = Item("copy.jpg", "Grace", lambda: photos.both + b"x")
    for dry_run in (True, False):
        enroller = BatchEnroller(service.context, dry_run=dry_run)
        ((line,),) = enroller.run([item])
        assert line.status == "accepted"
        assert main.ignored.message in line.message


def test_the_same_photo_twice_is_called_that(service: FaceService, photos: Photos) -> None:
    twice = service.verify(photos.hopper, photos.hopper)
    assert twice.same_file
    assert twice.headline == serializers.verified(twice, "model").headline == wording.SAME_FILE
    again = helpers.encoded(load_image(photos.hopper), "PNG")
    assert service.verify(photos.hopper, again).same_file
    assert not service.verify(photos.hopper, photos.hopper_again).same_file


@pytest.mark.parametrize("number", [0, 3, -1])
def test_a_face_that_is_not_there(service: FaceService, photos: Photos, number: int) -> None:
    with pytest.raises(NoFace, match="face number"):
        service.verify(photos.both, photos.collins, face_a=number)


def test_no_face_and_no_picture_name_the_photo(service: FaceService, photos: Photos) -> None:
    with pytest.raises(NoFace, match="second photo"):
        service.verify(photos.collins, photos.nobody)
    with pytest.raises(BadImage):
        service.verify(photos.collins, b"not a picture")
    assert service.detect(photos.nobody).faces == ()


def test_limits_on_photos_are_kept(settings: Settings, photos: Photos) -> None:
    small = dataclasses.replace(settings, max_pixels=1000, data=settings.data / "small")
    service = FaceService.open(small)
    with pytest.raises(BadImage, match="megapixels"):
        service.detect(photos.collins)
    service.close()


def test_so_many_faces_of_a_photo_are_looked_at_and_no_more(
    settings: Settings, photos: Photos
) -> None:
    service = FaceService.open(dataclasses.replace(settings, max_faces=1))
    assert len(service.detect(photos.both).faces) == 1
    service.close()


ENROLL = {
    "enroll": lambda s, p: s.enroll("X", uploads(p.collins)),
    "rename": lambda s, p: s.rename("x", "y"),
}
ADMIN = {
    "forget": lambda s, p: s.forget("x"),
    "merge": lambda s, p: s.merge("x", "y"),
    "remove_photo": lambda s, p: s.remove_photo("x", "1"),
    "export": lambda s, p: s.export(Path("/nonexistent")),
    "import": lambda s, p: s.import_(Path("/nonexistent")),
    "calibrate": lambda s, p: s.calibrate_on(b""),
    "activate": lambda s, p: s.activate(None),
}


@pytest.mark.parametrize(
    ("scope", "call"),
    [("read", call) for call in (ENROLL | ADMIN).values()]
    + [("enroll", call) for call in ADMIN.values()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_scope_keeps_the_rest_closed(
    service: FaceService, photos: Photos, scope: str, call: object
) -> None:
    with pytest.raises(NotAllowed):
        call(service.acting_as(Principal("p", scope)), photos)  # type: ignore[operator]
    assert service.count() == 0


def test_evidence_points_at_what_was_covered(service: FaceService, photos: Photos) -> None:
    face = service.detect(photos.collins).faces[0]
    evidence = service.occlusion_map(face.crop, face.crop)
    assert evidence.score == pytest.approx(1, abs=1e-4)
    assert evidence.map_a.shape == (112, 112)
    assert np.isfinite(evidence.map_a).all()
    # Two equal crops are as alike as can be: whatever is covered takes something away.
    assert evidence.map_a.min() >= -1e-4
    assert evidence.map_a.max() > 0.001
    np.testing.assert_allclose(evidence.map_a, evidence.map_b, atol=1e-3)


def test_evidence_tells_how_far_it_is_and_stops_at_once(
    service: FaceService, photos: Photos
) -> None:
    crop = service.detect(photos.collins).faces[0].crop
    told: list[tuple[int, int]] = []
    stop = threading.Event()

    def tell(stage: str, done: int, total: int) -> None:
        told.append((done, total))
        if len(told) == 3:
            stop.set()

    with pytest.raises(Cancelled):
        service.occlusion_map(crop, crop, progress=tell, cancel=stop)
    assert len(told) == 3
    assert told[-1][0] < told[-1][1] / 2


def own_photos(people: int, *, junk: bool = True) -> bytes:
    """A zip of folders: faces made from the samples, two photos a person."""
    target = io.BytesIO()
    originals = (samples.collins(), samples.hopper())
    with zipfile.ZipFile(target, "w") as archive:
        for number in range(people):
            image = originals[number % 2][:, :: -1 if number % 4 > 1 else 1]
            tinted = (image * (1 - 0.06 * (number // 4))).astype(np.uint8)
            for shot, pixels in enumerate((tinted, samples.second_photo(tinted))):
                archive.writestr(f"all/p{number}/{shot}.jpg", helpers.encoded(pixels))
        if junk:
            archive.writestr("all/p0/broken.jpg", b"\xff\xd8\xff broken")
            archive.writestr("../../escape/x.txt", b"no")
            archive.writestr("__MACOSX/p0/._1.jpg", b"no")
    return target.getvalue()


def test_calibrate_on_own_photos_then_activate(settings: Settings) -> None:
    service = FaceService.open(settings)
    before = service.calibration().id
    stages: list[str] = []
    result = service.calibrate_on(
        own_photos(10), progress=lambda stage, done, total: stages.append(stage)
    )
    assert (result.people, result.photos, result.moved) == (10, 20, True)
    shipped = service.calibration().threshold(1e-4)
    assert result.calibration.threshold(1e-4).threshold >= shipped.threshold - 1e-9
    assert result.calibration.threshold(1e-4).supported == shipped.supported
    assert [name for name, _ in result.skipped] == ["all/p0/broken.jpg"]
    assert service.calibration().id == before
    assert "Looking at the photos" in stages
    service.activate(result.calibration)
    service.close()
    service = FaceService.open(settings)
    assert service.calibration().id == result.calibration.id
    service.activate(None)
    assert service.calibration().id == before
    service.close()


def test_a_calibration_of_another_model_is_left_aside(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    file = settings.active_calibration
    file.parent.mkdir(parents=True)
    dataclasses.replace(Bundle.load(settings.bundle).calibration, model_id="other").save(file)
    service = FaceService.open(settings)
    assert service.calibration().id == service.context.bundle.calibration.id
    assert file.name in caplog.text
    assert "weights of another model" in caplog.text
    service.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed on Linux")
@pytest.mark.parametrize("damaged", ["calibrations/active.json", "keys.json"])
def test_a_start_that_fails_leaves_nothing_open(settings: Settings, damaged: str) -> None:
    FaceService.open(settings).close()
    file = settings.data / damaged
    file.parent.mkdir(exist_ok=True)
    file.write_text("[")
    with pytest.raises(FaceError):
        FaceService.open(settings)
    held = (Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
    gallery = str(settings.gallery_folder)
    assert not [each for each in held if each.exists() and str(each.readlink()).startswith(gallery)]


def test_calibration_can_be_stopped_and_needs_enough(service: FaceService) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        service.calibrate_on(own_photos(2), cancel=stop)
    with pytest.raises(CalibrationError, match="2 people"):
        service.calibrate_on(own_photos(2))
    with pytest.raises(CalibrationError, match="zip"):
        service.calibrate_on(b"not a zip")


def test_folders_within_a_persons_folder_are_that_persons(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    files = {
        "Ann/2023/1.jpg": photos.collins,
        "Ann/2024/1.jpg": photos.collins_again,
        "0042/2023/1.jpg": photos.hopper,
        "0042/2.jpg": photos.hopper_again,
        "portrait.jpg": photos.hopper,
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for name, data in files.items():
            file = tmp_path / "mine" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            target.writestr(name, data)
    service = FaceService.open(dataclasses.replace(settings, own_photos=tmp_path / "mine"))
    for source in (archive.getvalue(), Path()):
        with pytest.raises(CalibrationError, match="2 people, 2 of them with two") as few:
            service.calibrate_on(source)
        [(name, why)] = few.value.details["skipped"]
        assert name == "portrait.jpg"
        assert "whose photo" in why
    service.close()


def test_only_the_allowed_folder_is_read(settings: Settings, tmp_path: Path) -> None:
    service = FaceService.open(settings)
    with pytest.raises(CalibrationError, match="own_photos"):
        service.calibrate_on(Path("/etc"))
    service.close()
    place = tmp_path / "mine"
    (place / "few" / "a").mkdir(parents=True)
    service = FaceService.open(dataclasses.replace(settings, own_photos=place))
    for outside in ("/etc", "..", "few/../../data", "missing"):
        with pytest.raises(CalibrationError, match="no folder"):
            service.calibrate_on(Path(outside))
    with pytest.raises(CalibrationError, match="0 people"):
        service.calibrate_on(Path("few"))
    service.close()
