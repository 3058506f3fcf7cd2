from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from app import samples
from model.embedding.embedder import Embedder
from model.errors import FaceError
from tests.model.helpers import small_bundle
from tests.training.face_folders import made_up_people
from training.datasets import folder
from training.datasets.face_set import LOOSE, load_faces
from training.distill.overlap import overlapping
from training.distill.teacher import teacher_targets
from training.inputs.augment import Augment
from training.inputs.crops import aligned_crops
from training.learn.ema import EMA
from training.measure.subgroup_errors import utkface_facts


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    made_up_people(tmp_path / "people")
    rng = np.random.default_rng(1)
    loose = tmp_path / "loose" / "00"
    loose.mkdir(parents=True)
    for photo in range(5):
        pixels = rng.integers(0, 256, (112, 112, 3), np.uint8)
        Image.fromarray(pixels).save(loose / f"{photo}.png")
    (loose / "broken.png").write_bytes(b"no picture")
    return tmp_path / "people", tmp_path / "loose"


def test_no_person_is_on_both_sides_and_nobody_is_lost(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    training, held_out = load_faces([roots[0]], [roots[1]], cache=tmp_path / "cache")
    assert not set(training.names) & set(held_out.names)
    assert len(training) + len(held_out) == 60 * 2 + 5
    assert 0 < len(held_out) < 24
    assert (training.labels == LOOSE).sum() == 5
    known = training.labels[training.labels != LOOSE]
    assert sorted(set(known)) == list(range(len(set(known))))
    again, _ = load_faces([roots[0]], [roots[1]], cache=tmp_path / "cache")
    np.testing.assert_array_equal(again.crops, training.crops)


def test_the_same_people_are_held_out_however_the_folder_is_written(
    roots: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, held_out = load_faces([roots[0]], cache=tmp_path / "cache")
    monkeypatch.chdir(roots[0])
    _, from_inside = load_faces([Path()], cache=tmp_path / "cache")
    assert list(from_inside.names) == list(held_out.names)
    table = folder.load(Path())
    assert set(held_out.names) < set(table.people)


def test_two_folders_of_one_name_are_refused(roots: tuple[Path, Path], tmp_path: Path) -> None:
    made_up_people(tmp_path / "more" / "people")
    with pytest.raises(FaceError, match="Two folders are called 'people'"):
        load_faces([roots[0], tmp_path / "more" / "people"], cache=tmp_path / "cache")


def test_excluded_people_are_gone_and_a_typo_is_an_error(
    roots: tuple[Path, Path], tmp_path: Path
) -> None:
    listing = tmp_path / "exclude.txt"
    listing.write_text("people/p3\nloose/00/1.png\n")
    training, held_out = load_faces([roots[0]], [roots[1]], exclude=listing, cache=tmp_path / "c")
    names = {*training.names, *held_out.names}
    assert not names & {"people/p3", "loose/00/1.png"}
    assert len(training) + len(held_out) == 59 * 2 + 4
    listing.write_text("people/p99\n")
    with pytest.raises(FaceError, match="p99"):
        load_faces([roots[0]], exclude=listing, cache=tmp_path / "c")
    listing.unlink()
    with pytest.raises(FaceError, match=r"no file .*exclude\.txt"):
        load_faces([roots[0]], exclude=listing, cache=tmp_path / "c")


def test_spared_photos_are_those_the_groups_are_measured_on(tmp_path: Path) -> None:
    root = tmp_path / "utkface"
    root.mkdir()
    portrait = samples.FOLDER / "eileen_collins.jpg"
    for number in range(12):
        small = Image.open(portrait).reduce(2)
        small.save(root / f"40_1_0_{number}.jpg", quality=50 + number)
    training, _ = load_faces([], [], [root], spare={"utkface": 0.5}, cache=tmp_path / "cache")
    spared = {f"utkface/{path.name}" for path in utkface_facts(root, 0.5)}
    assert set(training.names) & spared == set()
    assert set(training.names) | spared == {f"utkface/40_1_0_{n}.jpg" for n in range(12)}
    assert 0 < len(spared) < 12
    assert len(utkface_facts(root)) == 12
    with pytest.raises(FaceError, match="no folder 'utk' among the photos"):
        load_faces([], [], [root], spare={"utk": 0.5}, cache=tmp_path / "cache")


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FaceError, match="holds no pictures"):
        load_faces([tmp_path / "empty"], cache=tmp_path)


def test_crops_are_cached_by_content_not_by_name(roots: tuple[Path, Path], tmp_path: Path) -> None:
    paths = sorted(roots[0].rglob("*.png"))[:3]
    crops, found = aligned_crops(paths, aligned=True, cache=tmp_path / "c", progress=False)
    assert found.all()
    np.testing.assert_array_equal(crops[1], np.asarray(Image.open(paths[1])))
    moved = paths[1].rename(paths[1].with_name("moved.png"))
    aligned_crops([paths[0], moved, paths[2]], aligned=True, cache=tmp_path / "c", progress=False)
    assert len(list((tmp_path / "c").glob("crops-*.npy"))) == 1
    Image.new("RGB", (112, 112)).save(moved)
    changed, _ = aligned_crops(
        [paths[0], moved, paths[2]], aligned=True, cache=tmp_path / "c", progress=False
    )
    assert changed[1].max() == 0


def test_teacher_is_asked_once(tmp_path: Path) -> None:
    crops = np.random.default_rng(0).integers(0, 256, (5, 112, 112, 3), np.uint8)
    teacher = Embedder(small_bundle(tmp_path / "teacher"))
    first = teacher_targets(teacher, crops, cache=tmp_path, progress=False)
    np.testing.assert_allclose(first, teacher.embed(crops), atol=1e-6)
    teacher.embed = None
    np.testing.assert_array_equal(
        teacher_targets(teacher, crops, cache=tmp_path, progress=False), first
    )


def test_overlap_finds_the_person_planted_in_both() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(50, 64))
    photos = np.repeat(centres, 4, 0) + 0.3 * rng.normal(size=(200, 64))
    photos /= np.linalg.norm(photos, axis=1, keepdims=True)
    others = rng.normal(size=(300, 64))
    others[17] = centres[9] + 0.3 * rng.normal(size=64)
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    names = np.repeat([f"p{i}" for i in range(50)], 4)
    found = overlapping(photos, names, others, limit=0.6)
    assert list(found) == ["p9"]
    assert found["p9"] > 0.8


def test_augmentation_is_fixed_by_its_generator_and_stays_in_range() -> None:
    crops = torch.randint(0, 256, (8, 112, 112, 3), dtype=torch.uint8)
    first, second, other = (
        Augment()(crops, 64, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert first.shape == (8, 3, 64, 64)
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert (first - other).abs().mean() > 1
    assert first.min() >= 0
    assert first.max() <= 255


def test_augmentation_turned_off_only_mirrors() -> None:
    crops = torch.randint(0, 256, (16, 112, 112, 3), dtype=torch.uint8)
    still = Augment(shift=0, zoom=0, degrees=0, light=0, grey=0, soft=0, occlude=0)
    images = still(crops, 112, torch.Generator().manual_seed(0))
    plain = crops.permute(0, 3, 1, 2).float()
    same = (images - plain).abs().amax((1, 2, 3)) < 0.01
    mirrored = (images - plain.flip(3)).abs().amax((1, 2, 3)) < 0.01
    assert (same ^ mirrored).all()
    assert same.any()
    assert mirrored.any()


def test_ema_against_the_definition() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    ema = EMA(net, decay=0.9)
    expected = net[0].weight.detach().clone()
    for step in range(1, 100):
        with torch.no_grad():
            net[0].weight.add_(1.0)
            net[1].num_batches_tracked += 1
        ema.update(net)
        keep = min(0.9, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * net[0].weight.detach()
    torch.testing.assert_close(ema.net[0].weight, expected)
    assert ema.net[1].num_batches_tracked == net[1].num_batches_tracked


def test_photos_without_a_face_are_refused(tmp_path: Path) -> None:
    (tmp_path / "blank").mkdir()
    Image.new("RGB", (64, 64)).save(tmp_path / "blank" / "1.png")
    with pytest.raises(FaceError, match=r"1 of 1 pictures of .*blank hold no usable face"):
        load_faces([], [], [tmp_path / "blank"], cache=tmp_path / "cache")
    with pytest.raises(FaceError, match="blank are no aligned crops of 112x112 pixels"):
        load_faces([], [tmp_path / "blank"], cache=tmp_path / "cache")


def test_pictures_that_are_left_out_are_counted(
    roots: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Image.new("RGB", (64, 64)).save(roots[1] / "small.png")
    load_faces([roots[0]], [roots[1]], cache=tmp_path / "cache")
    said = capsys.readouterr().out
    assert (
        said == f"2 of 7 pictures of {roots[1]} are no aligned crops of 112x112 pixels: left out\n"
    )
