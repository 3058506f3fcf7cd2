"""Prepared faces: whole shards, resumable, and read back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from model.errors import FaceError
from model.faces.align import align
from model.faces.detect import Detector
from model.faces.image import load_image
from tests.training.distill import stores
from training.distill import store
from training.distill.store import FaceStore, prepare
from training.distill.stored_faces import StoredFaces, split


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stores.store(tmp_path_factory.mktemp("stores") / "faces", ["a", "b", "c"])


def test_a_store_holds_what_the_detector_and_the_teachers_say(prepared: Path) -> None:
    faces = FaceStore.open(prepared)
    assert len(faces) == 6
    assert faces.people.tolist() == ["people/a"] * 2 + ["people/b"] * 2 + ["people/c"] * 2
    photo = load_image(prepared.parent / "faces-photos" / faces.paths[3])
    crop = align(photo, Detector().detect(photo)[0].landmarks)
    np.testing.assert_array_equal(faces.crop(3), crop)
    pixels = (crop.astype(np.float32) - 127.5) / 127.5
    halves = []
    for cell in (28, 56):
        cells = pixels.reshape(112 // cell, cell, 112 // cell, cell, 3).mean((1, 3))
        vector = cells.transpose(2, 0, 1).ravel()
        halves.append(vector / np.linalg.norm(vector))
    np.testing.assert_allclose(faces.vector(3), np.concatenate(halves), atol=2e-3)
    assert faces.teachers == ("a.onnx", "b.onnx")


def test_a_shard_that_was_not_finished_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SHARD", 2)
    folder = stores.store(tmp_path / "faces", ["a", "b"])
    whole = FaceStore.open(folder)
    kept = (folder / "0000000.crops.npy").stat().st_mtime_ns
    (folder / "0000002.facts.npz").unlink()
    assert len(FaceStore.open(folder)) == 2
    graphs = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    prepare(tmp_path / "faces-photos", graphs, folder, people="people")
    again = FaceStore.open(folder)
    assert again.paths.tolist() == whole.paths.tolist()
    np.testing.assert_array_equal(again.vector(3), whole.vector(3))
    assert (folder / "0000000.crops.npy").stat().st_mtime_ns == kept


def test_other_teachers_and_empty_folders_are_refused(prepared: Path, tmp_path: Path) -> None:
    with pytest.raises(FaceError, match="other teachers"):
        prepare(prepared.parent / "faces-photos", [prepared.parent / "a.onnx"], prepared)
    with pytest.raises(FaceError, match="no pictures"):
        prepare(tmp_path, [], tmp_path / "out")
    with pytest.raises(FaceError, match="no prepared faces"):
        FaceStore.open(tmp_path)


def test_nobody_and_no_relative_is_on_both_sides(prepared: Path) -> None:
    about = json.loads((prepared / store.ABOUT).read_text())
    assert about["depth"] == 1
    everyone = StoredFaces.open([prepared, prepared])
    names = np.array([f"people/{number % 40}/{number % 3}" for number in range(len(everyone))])
    many = StoredFaces(
        everyone.stores, *(np.tile(column, 100) for column in (everyone.store, everyone.row)),
        np.array([f"people/{number % 400}/{number % 3}" for number in range(1200)]),
        np.tile(everyone.files, 100), np.tile(everyone.yaw, 100),
    )  # fmt: skip
    training, held_out = split(many, frozenset({"people/7/1"}))
    families = [{name.rsplit("/", 1)[0] for name in part.people} for part in (training, held_out)]
    assert not families[0] & families[1]
    assert 5 < len(families[1]) < 40
    assert "people/7/1" not in {*training.people, *held_out.people}
    assert len(names) == len(everyone)


def test_turned_faces_are_shown_more_often(prepared: Path) -> None:
    faces = StoredFaces.open([prepared])
    turned = StoredFaces(
        faces.stores, faces.store, faces.row, faces.people, faces.files,
        np.array([0, 40, -40, 10, 0, 0], np.float32),
    )  # fmt: skip
    counts = np.bincount(turned.order(0, 0), minlength=6)
    assert counts.tolist() == [1, 3, 3, 1, 1, 1]
    assert turned.order(0, 0).tolist() != turned.order(0, 1).tolist()
