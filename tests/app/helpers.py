"""A small real model that tells the sample photos apart, and photos in every form tests need."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from app.usecases.results import Upload
from model.bundle import Bundle, save_network
from model.calibration import Calibration
from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from model.faces.align import align
from model.faces.detect import Detector
from tests import samples


def make_bundle(folder: Path, dim: int = 64) -> Path:
    """A stand-in with a made-up calibration: fast, and sure of itself on the sample photos."""
    bundle = save_network(
        folder,
        _centred_network(dim),
        Preprocessing(input_size=64),
        name="stand-in",
        card="# Stand-in\n",
    )
    bundle.with_calibration(made_up_calibration(bundle))
    return folder


def make_bare_bundle(folder: Path) -> Path:
    """A model nobody has calibrated."""
    network = EmbeddingNet(Architecture(trunk="resnet18", dim=64)).eval()
    save_network(folder, network, Preprocessing(input_size=64), name="bare", card="# Bare\n")
    return folder


def made_up_calibration(bundle: Bundle, seed: int = 0) -> Calibration:
    """Strangers around 0, one person's photos around 0.8; enough pairs for a target of 1e-4."""
    random = np.random.default_rng(seed)
    return Calibration.from_scores(
        np.clip(random.normal(0.8, 0.08, 20_000), -1, 1),
        np.clip(random.normal(-0.1, 0.12, 400_000), -1, 1),
        model_id=bundle.model_id,
        protocol="made up for tests",
        data_fingerprint="none",
    )


def _centred_network(dim: int) -> EmbeddingNet:
    """Random convolutions, and a head that measures from the middle of the sample faces.

    A random network maps all faces to nearly the same direction; with their common part taken
    away, what is left tells them apart.
    """
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=dim)).eval()
    detector, prepare = Detector(), Preprocessing(input_size=64)
    crops = [
        align(image, detector.detect(image)[0].landmarks)
        for original in (samples.collins(), samples.hopper())
        for image in (original, samples.second_photo(original))
    ]
    with torch.inference_mode():
        features = net.features(torch.from_numpy(prepare(np.stack(crops))))
    head = net.head[0]
    with torch.no_grad():
        head.bias.copy_(-(features.mean(0) @ head.weight.T))
    return net


def encoded(image: np.ndarray, kind: str = "JPEG", **options: object) -> bytes:
    target = io.BytesIO()
    Image.fromarray(image).save(target, kind, **options)
    return target.getvalue()


def blank(width: int = 320, height: int = 240) -> bytes:
    """A picture without a face."""
    return encoded(np.full((height, width, 3), 200, np.uint8), "PNG")


def uploads(*photos: bytes) -> list[Upload]:
    """The photos as files named by their place: ``0.jpg``, ``1.jpg``, ..."""
    return [Upload(f"{number}.jpg", data) for number, data in enumerate(photos)]


BASE = "http://127.0.0.1:7860"


@dataclass(frozen=True)
class Photos:
    """Encoded photos: two of Collins, two of Hopper, both in one, nobody."""

    collins: bytes
    collins_again: bytes
    hopper: bytes
    hopper_again: bytes
    both: bytes
    nobody: bytes


def error(response, status: int) -> dict:
    """The error's body, after checking that it has the promised shape."""
    assert response.status_code == status, response.text
    body = response.json()
    assert set(body) == {"error", "request_id"}
    assert set(body["error"]) == {"code", "message", "details"}
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["error"]["message"].endswith(".")
    return body["error"]
