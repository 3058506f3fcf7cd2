"""Starting from a bundle, and from too little data."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from model.__main__ import main as model_main
from model.calibration.pairs.scores import Sample
from model.errors import BundleError
from tests.model.helpers import random_crops, small_bundle
from training.__main__ import main
from training.datasets.table import DatasetError
from training.errors import UsageError
from training.inputs.features import frozen_trunk
from training.learn.recipe import Recipe
from training.learn.task import add_task_arguments, make_task
from training.report import plots


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_task_arguments(parser)
    return parser.parse_args(["--dataset", "celeba", "--init", "scratch", *words])


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Eight people with two aligned pictures each."""
    for number, crop in enumerate(random_crops(16)):
        file = tmp_path / "celeba" / f"{number // 2}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(crop).save(file)
    return tmp_path


def test_a_bundle_is_not_trained_under_another_name(tmp_path: Path) -> None:
    bundle = small_bundle(tmp_path / "small")
    with pytest.raises(UsageError, match="leave out --trunk"):
        make_task(arguments("--init", str(bundle.path), "--trunk", "resnet50"))


def test_an_imported_graph_cannot_be_trained(tmp_path: Path) -> None:
    bundle, graph = small_bundle(tmp_path / "small"), tmp_path / "small.onnx"
    assert model_main(["export", str(bundle.path), "--onnx", str(graph)]) == 0
    words = ["import", str(graph), "--input-size", "64", "--out", str(tmp_path / "foreign")]
    assert model_main(words) == 0
    with pytest.raises(BundleError, match="cannot be trained"):
        make_task(arguments("--init", str(tmp_path / "foreign")))


def test_the_trunk_of_a_bundle_can_be_frozen_whatever_its_head(tmp_path: Path) -> None:
    bundle = small_bundle(tmp_path / "small")
    images = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(
        frozen_trunk("resnet18", bundle.path)(images), bundle.network().features(images)
    )


def test_a_split_that_leaves_nothing_to_choose_by_is_refused(people: Path) -> None:
    words = ["--data", str(people), "--split", "paper", "--cache", str(people / "cache")]
    task = make_task(arguments(*words))
    with pytest.raises(DatasetError, match="nothing is left for val and test"):
        task.job("pd", Recipe(), 4, people / "run")
    with pytest.raises(DatasetError, match="nothing is left for test"):
        task.embeddings(nn.Identity(), "test")


def test_a_bundle_is_not_measured_on_an_empty_part(
    people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = small_bundle(tmp_path / "small")
    words = ["--bundle", str(bundle.path), "--dataset", "celeba", "--data", str(people)]
    where = ["--cache", str(people / "cache"), "--out", str(tmp_path / "out")]
    assert main(["evaluate", *words, "--split", "paper", *where]) == 3
    assert "nothing is left for test" in capsys.readouterr().err


def test_photos_of_people_are_not_stored_at_another_size(people: Path) -> None:
    where = ["--data", str(people), "--cache", str(people / "cache")]
    with pytest.raises(UsageError, match="--stored does not apply"):
        make_task(arguments(*where, "--stored", "64"))


def test_crops_of_another_size_are_counted_and_named(
    people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(people), "--cache", str(people / "cache")]
    photos = sorted(people.rglob("*.png"))
    Image.new("RGB", (64, 64)).save(photos[0])
    make_task(arguments(*words))
    said = "photos are no aligned crops of 112x112 pixels"
    assert f"1 of 16 {said}: left out" in capsys.readouterr().out
    for photo in photos:
        Image.new("RGB", (64, 64)).save(photo)
    with pytest.raises(DatasetError, match=f"16 of 16 {said}"):
        make_task(arguments(*words))


def test_histograms_of_one_class_alone() -> None:
    sample = Sample(np.array([0.2, 0.4]), np.array([1, 2]), np.array([0, 0]))
    (axes,) = plots.score_histograms({"one class": sample}).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["same class, mean 0.33"]


def test_a_bundle_brings_its_own_size_and_units(people: Path, tmp_path: Path) -> None:
    bundle = small_bundle(tmp_path / "small")
    words = ["--data", str(people), "--cache", str(tmp_path / "cache"), "--split", "paper"]
    args = arguments("--init", str(bundle.path), *words)
    task = make_task(args)
    assert task.preprocessing == bundle.preprocessing
    assert task.trunk == "resnet18"
    assert args.size == bundle.preprocessing.input_size
    asked = make_task(arguments("--init", str(bundle.path), "--size", "40", *words))
    assert asked.preprocessing == replace(bundle.preprocessing, input_size=40)


def test_weights_are_looked_for_before_pictures(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"imagenet .* file .* bundle"):
        make_task(arguments("--init", str(tmp_path / "no"), "--data", str(tmp_path / "nowhere")))
