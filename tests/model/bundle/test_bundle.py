from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.__main__ import main
from model.bundle import Bundle, save_network
from model.bundle.save import _compact
from model.calibration import Calibration
from model.embedding.embedder import Embedder
from model.embedding.preprocess import Preprocessing
from model.errors import BundleError
from tests.model.helpers import lively_network, random_crops, small_bundle


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small_bundle(tmp_path_factory.mktemp("bundle") / "small")


@pytest.fixture
def copied(original: Bundle, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original.path, tmp_path / "copy"))


def test_what_is_saved_is_what_is_loaded(original: Bundle) -> None:
    again = Bundle.load(original.path)
    assert again == original
    assert again.provenance == {"data": "none"}
    assert again.card == "# small\n"
    assert again.calibration is None


def test_half_precision_on_disk_keeps_the_vectors(original: Bundle) -> None:
    images = torch.from_numpy(original.preprocessing(random_crops(8)))
    with torch.inference_mode():
        exact = lively_network(head_norm=True)(images)
        stored = original.network()(images)
    assert (exact * stored).sum(1).min() > 0.9999


def test_a_network_in_channels_last_is_saved_as_it_is(original: Bundle, tmp_path: Path) -> None:
    net = lively_network(head_norm=True).to(memory_format=torch.channels_last)
    saved = save_network(
        tmp_path / "last", net, original.preprocessing, name="small", card="# small\n"
    )
    assert saved.model_id == original.model_id


@pytest.mark.parametrize("name", ["weights.safetensors", "README.md", "bundle.json"])
def test_any_changed_byte_is_noticed(copied: Path, name: str) -> None:
    data = bytearray((copied / name).read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(data), 20):
        broken = bytearray(data)
        broken[position] ^= 1
        (copied / name).write_bytes(broken)
        with pytest.raises(BundleError):
            Bundle.load(copied)
    (copied / name).write_bytes(data)
    Bundle.load(copied)


@pytest.mark.parametrize("name", ["weights.safetensors", "README.md", "bundle.json"])
def test_a_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(BundleError, match=name):
        Bundle.load(copied)


def test_a_newer_format_asks_for_an_update(copied: Path) -> None:
    manifest = json.loads((copied / "bundle.json").read_text())
    manifest["format"] = 99
    (copied / "bundle.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="Update the program"):
        Bundle.load(copied)


def test_the_id_depends_on_weights_and_preprocessing_and_nothing_else(tmp_path: Path) -> None:
    base = small_bundle(tmp_path / "a")
    assert small_bundle(tmp_path / "b").model_id == base.model_id
    assert small_bundle(tmp_path / "c", input_size=80).model_id != base.model_id
    assert small_bundle(tmp_path / "d", flip=True).model_id != base.model_id
    other = lively_network(head_norm=True)
    with torch.no_grad():
        other.head[0].weight[0, 0] += 1
    changed = save_network(tmp_path / "e", other, base.preprocessing, name="small", card="")
    assert changed.model_id != base.model_id
    renamed = save_network(
        tmp_path / "f", lively_network(head_norm=True), base.preprocessing, name="x", card="y"
    )
    assert renamed.model_id == base.model_id


def test_a_failed_save_leaves_the_old_bundle(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Bundle.load(copied).model_id

    def full_disk(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        small_bundle(copied, input_size=96)
    assert Bundle.load(copied).model_id == before
    assert [entry.name for entry in copied.parent.iterdir()] == [copied.name]


def test_a_failed_swap_puts_the_old_bundle_back(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Bundle.load(copied)
    rename, failures = os.rename, [OSError("disk is gone")]

    def failing_once(source: Path, target: Path) -> None:
        if target == copied and failures:
            raise failures.pop()
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing_once)
    with pytest.raises(OSError, match="disk is gone"):
        small_bundle(copied, input_size=96)
    assert Bundle.load(copied) == before
    assert [entry.name for entry in copied.parent.iterdir()] == [copied.name]


def test_saving_over_a_bundle_replaces_it_whole(copied: Path) -> None:
    (copied / "stray.txt").write_text("left over")
    replaced = small_bundle(copied, input_size=96)
    assert Bundle.load(copied) == replaced
    assert not (copied / "stray.txt").exists()
    assert [entry.name for entry in copied.parent.iterdir()] == [copied.name]


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "photos" / "holiday.jpg"
    file.parent.mkdir()
    file.write_bytes(b"x")
    for taken in (file.parent, file):
        with pytest.raises(BundleError, match="not a model bundle"):
            small_bundle(taken)
    assert file.read_bytes() == b"x"
    empty = tmp_path / "empty"
    empty.mkdir()
    saved = small_bundle(empty)
    assert Bundle.load(empty) == saved


def calibrated(bundle: Bundle, protocol: str) -> Calibration:
    rng = np.random.default_rng(0)
    return Calibration.from_scores(
        rng.normal(0.6, 0.1, 200), rng.normal(0, 0.1, 900), model_id=bundle.model_id,
        protocol=protocol, data_fingerprint="f",
    )  # fmt: skip


def test_the_card_says_that_its_rates_are_of_an_earlier_calibration(copied: Path) -> None:
    bundle = Bundle.load(copied)
    bundle = bundle.with_card("# small\n\nFine.\n\n| rates |\n", metrics={})
    calibrations = [calibrated(bundle, protocol) for protocol in ("people\n\nof Rome", "others")]
    for calibration, protocol in zip(calibrations, ("people of Rome", "others"), strict=True):
        title, note, *rest = bundle.with_calibration(calibration).card.split("\n\n")
        assert title == "# small"
        assert f"`{calibration.id}`, on: {protocol}." in note
        assert "are of an earlier calibration" in note
        assert rest == ["Fine.", "| rates |\n"]
    assert Bundle.load(copied).with_card("# anew\n", metrics={}).card == "# anew\n"
    untitled = Bundle.load(copied).with_card("", metrics={}).with_calibration(calibrations[0])
    assert untitled.card.startswith("**Calibrated anew.** Calibration")


@pytest.mark.parametrize("words", [["--flip"], ["--name", "x"], ["--input-size", "112"]])
def test_facenet_brings_its_own_settings(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", "facenet-vggface2", *words, "--out", str(tmp_path / "b")]) == 3
    assert f"leave out {words[0]}." in capsys.readouterr().err


@given(st.lists(st.floats(-100, 100, width=16), min_size=4, max_size=4), st.integers(1, 10))
@settings(deadline=None)
def test_rounding_stays_within_half_a_step(values: list[float], bits: int) -> None:
    weights = np.array(values, np.float32).reshape(2, 2)
    error = np.abs(_compact(weights, bits).astype(np.float32) - weights)
    assert (error <= np.abs(weights) * 2.0 ** -(bits + 1) + 2.0**-24).all()


def test_vectors_and_counters_are_stored_as_they_are() -> None:
    assert _compact(np.array([1 / 3], np.float32), 7).dtype == np.float32
    counter = _compact(np.array(7), 7)
    assert (counter.dtype, counter.shape) == (np.int64, ())


def test_foreign_preprocessing_is_checked_at_the_door() -> None:
    with pytest.raises(ValueError, match="RGB or BGR"):
        Preprocessing(channels="RBG")
    with pytest.raises(ValueError, match="uint8"):
        Preprocessing()(np.zeros((1, 112, 112, 3), np.float32))


def test_a_bundle_folder_can_be_moved(original: Bundle, tmp_path: Path) -> None:
    moved = Bundle.load(shutil.copytree(original.path, tmp_path / "elsewhere"))
    crops = random_crops(2)
    np.testing.assert_array_equal(
        Embedder(moved, engine="torch").embed(crops),
        Embedder(original, engine="torch").embed(crops),
    )
