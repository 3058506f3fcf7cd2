"""Loaders on the real data where it is at hand, and on small copies of each layout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from training import datasets
from training.datasets import celeba, lfw
from training.datasets.table import DatasetError, Table
from training.inputs.pictures import pictures, square


@pytest.fixture(scope="module")
def everyone(shared_data: Path) -> Table:
    return datasets.load("lfw", shared_data)


def test_cub(shared_data: Path) -> None:
    table = datasets.load("cub", shared_data)
    assert (len(table), len(table.names)) == (11_788, 200)
    assert table.paths[0].name == "Black_Footed_Albatross_0046_18.jpg"
    assert table.official_train.sum() == 5_994
    names = [path.parent.name for path in table.paths]
    assert all(names[row] == table.names[table.labels[row]] for row in range(0, 11_788, 97))


def test_cars_without_the_official_test(shared_data: Path) -> None:
    table = datasets.load("cars", shared_data)
    assert (len(table), len(table.names)) == (8_144, 196)
    assert "test pictures" in table.notes[0]
    assert table.official_train.all()


def test_lfw_people_and_the_identity_split(shared_data: Path, everyone: Table) -> None:
    train, test = (lfw.dev_rows(shared_data, everyone, part) for part in ("DevTrain", "DevTest"))
    assert (len(train), len(test)) == (9_525, 3_708)
    assert not set(everyone.labels[train]) & set(everyone.labels[test])
    assert (np.flatnonzero(everyone.official_train) == train).all()


def test_lfw_view2(shared_data: Path, everyone: Table) -> None:
    pairs = lfw.view2(shared_data, everyone)
    same = everyone.labels[pairs.first] == everyone.labels[pairs.second]
    assert (same == pairs.same).all()
    for fold in range(10):
        assert (pairs.same[pairs.fold == fold].sum(), (pairs.fold == fold).sum()) == (300, 600)


def test_lfw40_is_what_scikit_learn_gives(shared_data: Path, tmp_path: Path) -> None:
    from sklearn.datasets import fetch_lfw_people

    table = datasets.load("lfw40", shared_data)
    assert (len(table), len(table.names)) == (1_867, 19)
    # scikit-learn writes beside the photos, so it gets a home of its own.
    home = tmp_path / "lfw_home"
    home.mkdir()
    for entry in (shared_data / "lfw_home").iterdir():
        os.symlink(entry, home / entry.name)
    bunch = fetch_lfw_people(
        data_home=tmp_path, min_faces_per_person=40, resize=0.1, color=True,
        download_if_missing=False,
    )  # fmt: skip
    theirs = {
        name.replace(" ", "_"): int((bunch.target == index).sum())
        for index, name in enumerate(bunch.target_names)
    }
    ours = dict(zip(table.names, np.bincount(table.labels).tolist(), strict=True))
    assert ours == theirs


def test_celeba_crops_by_identity(shared_data: Path) -> None:
    table = datasets.load("celeba", shared_data / "faces")
    assert (len(table), len(table.names)) == (17_472, 998)
    assert table.aligned


def write_pictures(root: Path, people: dict[str, int]) -> None:
    for person, count in people.items():
        (root / person).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (20, 30), (9 * number, 0, 0)).save(root / person / f"{number}.png")


def test_own_folder(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"Ann": 3, "Bo": 2})
    (tmp_path / "Bo" / "notes.txt").write_text("not a picture")
    table = datasets.load("folder", tmp_path)
    assert table.names == ("Ann", "Bo")
    assert table.labels.tolist() == [0, 0, 0, 1, 1]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    for name, word in (
        ("cub", "images.txt"), ("cars", "devkit/cars_meta.mat"), ("lfw", "lfw_funneled"),
        ("celeba", "identity_CelebA.txt"), ("folder", "0 people"),
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=word):
            datasets.load(name, tmp_path)
    with pytest.raises(DatasetError, match="no folder"):
        datasets.load("folder", tmp_path / "nowhere")
    with pytest.raises(ValueError, match="must be one of lfw"):
        datasets.load("flw", tmp_path)


def test_incomplete_lfw_is_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path / "lfw_funneled", {"Ann": 1})
    Image.new("RGB", (9, 9)).save(tmp_path / "lfw_funneled" / "Ann" / "Ann_0001.jpg")
    with pytest.raises(DatasetError, match=r"should have 5,749 people, but 1 were found"):
        datasets.load("lfw", tmp_path)


def test_lfw_without_its_list_of_people_says_where_that_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lfw_funneled").mkdir()
    write_pictures(tmp_path / "lfw_funneled", {"Ann": 1, "Bo": 1})
    for picture in list(tmp_path.rglob("*.png")):
        picture.rename(picture.with_suffix(".jpg"))
    monkeypatch.setattr(lfw, "require_count", lambda *counts: None)
    table = datasets.load("lfw", tmp_path)
    assert table.official_train is None
    assert "peopleDevTrain.txt is not here" in table.notes[0]
    assert "vis-www.cs.umass.edu" in table.notes[0]
    (tmp_path / "peopleDevTrain.txt").write_text("1\nBo\t1\n")
    table = datasets.load("lfw", tmp_path)
    assert table.official_train.tolist() == [False, True]
    assert table.notes == ()


def write_cars_kit(tmp_path: Path) -> None:
    """A development kit in which all training pictures are one file."""
    (tmp_path / "cars_train").mkdir()
    (tmp_path / "devkit").mkdir()
    names = np.array([f"car {n}" for n in range(196)], object)
    savemat(tmp_path / "devkit/cars_meta.mat", {"class_names": names})
    fields = [("bbox_x1", int), ("bbox_y1", int), ("bbox_x2", int), ("bbox_y2", int)]
    rows = np.zeros(8_144, [*fields, ("class", int), ("fname", object)])
    rows["class"], rows["fname"] = 1, "00001.jpg"
    savemat(tmp_path / "devkit/cars_train_annos.mat", {"annotations": rows})


def test_missing_car_pictures_are_counted(tmp_path: Path) -> None:
    write_cars_kit(tmp_path)
    with pytest.raises(DatasetError, match=r"8,144 of 8,144 pictures are missing"):
        datasets.load("cars", tmp_path)


def test_cars_may_lie_one_folder_deeper(tmp_path: Path) -> None:
    write_cars_kit(tmp_path)
    nested = tmp_path / "cars_train" / "cars_train"
    nested.mkdir()
    (nested / "00001.jpg").touch()
    assert set(datasets.load("cars", tmp_path).paths) == {nested / "00001.jpg"}


def test_original_celeba_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "img_align_celeba").mkdir()
    lines = []
    for number, person in enumerate((7, 7, 3)):
        Image.new("RGB", (178, 218)).save(tmp_path / "img_align_celeba" / f"{number}.jpg")
        lines.append(f"{number}.jpg {person}")
    (tmp_path / "identity_CelebA.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(DatasetError, match="202,599 pictures"):
        datasets.load("celeba", tmp_path)
    monkeypatch.setattr(celeba, "PICTURES", 3)
    with pytest.raises(DatasetError, match="10,177 people"):
        datasets.load("celeba", tmp_path)
    monkeypatch.setattr(celeba, "PEOPLE", 2)
    table = datasets.load("celeba", tmp_path)
    assert not table.aligned
    assert table.people.tolist() == [f"{tmp_path.name}/{person}" for person in (7, 7, 3)]
    assert [table.names[label] for label in table.labels] == ["7", "7", "3"]
    (tmp_path / "img_align_celeba" / "2.jpg").unlink()
    with pytest.raises(DatasetError, match="1 of 3 pictures"):
        datasets.load("celeba", tmp_path)


def test_subset_renumbers_labels() -> None:
    paths = tuple(Path(str(n)) for n in range(4))
    table = Table("t", paths, np.array([0, 1, 2, 2]), ("a", "b", "c"))
    part = table.subset(np.array([True, False, True, True]))
    assert part.names == ("a", "c")
    assert part.labels.tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="labels must be in"):
        Table("t", paths, np.array([0, 1, 2, 3]), ("a", "b", "c"))


def test_pictures_are_decoded_once_and_anew_when_changed(tmp_path: Path) -> None:
    write_pictures(tmp_path / "data", {"Ann": 2, "Bo": 2})
    table = datasets.load("folder", tmp_path / "data")
    cache = tmp_path / "cache"
    first = pictures(table, 16, cache)
    assert first.shape == (4, 16, 16, 3)
    assert not first.flags.writeable
    assert first[1, 8, 8].tolist() == [9, 0, 0]
    pictures(table, 16, cache)
    assert len(list(cache.iterdir())) == 1
    Image.new("RGB", (20, 30), (0, 200, 0)).save(table.paths[1])
    again = pictures(table, 16, cache)
    assert again[1, 8, 8].tolist() == [0, 200, 0]


def test_square_is_central() -> None:
    image = np.zeros((10, 30, 3), np.uint8)
    image[:, 10:20] = 200
    assert (square(image, 10) == 200).all()
    assert square(image, 5).shape == (5, 5, 3)
