"""Export bundles to ONNX, and import other face embedders as bundles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from model.bundle import Bundle, save_graph, save_network
from model.bundle.files import fresh_folder
from model.bundle.prove import prove, prove_apart
from model.embedding import onnx_graph
from model.embedding.network import Architecture, FacenetNet
from model.embedding.preprocess import Preprocessing
from model.errors import BundleError
from model.onnx_runtime import open_session
from model.types import CROP_SIZE

PARITY = 0.9999
"""Lowest cosine at which two engines count as the same model."""

FACENET_WEIGHTS = ("vggface2", "casia-webface")
FACENET_INPUT = Preprocessing(input_size=160, mean=(127.5,) * 3, std=(128.0,) * 3)


def export_onnx(bundle: Bundle, file: Path) -> float:
    """Write a bundle's network as an ONNX file after comparing it with torch.

    The graph takes ``image``, float32 ``(batch, 3, S, S)``, already normalised by
    ``bundle.preprocessing``. It returns ``embedding``, unit vectors ``(batch, D)``.

    Returns:
        The lowest cosine between the two on random crops.

    Raises:
        BundleError: The two disagree; no file is written.
    """
    graph = onnx_graph.export(bundle.network(), bundle.preprocessing.input_size)
    crops = np.random.default_rng(0).integers(0, 256, (8, CROP_SIZE, CROP_SIZE, 3), np.uint8)
    images = bundle.preprocessing(crops)
    with torch.inference_mode():
        expected = bundle.network()(torch.from_numpy(images)).numpy()
    actual = open_session(graph).run(None, {"image": images})[0]
    cosine = float((expected * actual).sum(1).min())
    if cosine < PARITY:
        raise BundleError(f"The exported graph disagrees with the network: cosine {cosine:.6f}.")
    file.write_bytes(graph)
    return cosine


def import_onnx(file: Path, out: Path, preprocessing: Preprocessing, *, name: str) -> Bundle:
    """Import an ONNX face embedder with a square image input as a bundle.

    Raises:
        BundleError: The file is not such a graph or does not turn crops into vectors; ``out`` is
            unchanged.
    """
    if not file.is_file():
        raise BundleError(f"There is no file {file}.")
    graph = onnx_graph.mend(file.read_bytes())
    size = onnx_graph.input_side(graph)
    if size and size != preprocessing.input_size:
        raise BundleError(
            f"{file} takes {size}x{size} input, not {preprocessing.input_size} "
            f"(--input-size {size})."
        )
    card = f"# {name}\n\nImported from `{file.name}`. Not trained here; calibrate before use.\n"
    with fresh_folder(out) as draft:
        bundle = save_graph(draft, graph, preprocessing, name=name, card=card)
        try:
            prove_apart(bundle.path)
        except BundleError as error:
            raise BundleError(f"{file} does not run as a face embedder: {error}") from error
    return Bundle.load(out)


def import_facenet(out: Path, weights: str = "vggface2") -> Bundle:
    """Import facenet-pytorch's InceptionResnetV1; downloads its weights.

    Raises:
        BundleError: The weights do not exist or cannot be downloaded.
    """
    from facenet_pytorch import InceptionResnetV1

    if weights not in FACENET_WEIGHTS:
        raise BundleError(
            f"facenet-pytorch has no weights {weights!r}; it has {' and '.join(FACENET_WEIGHTS)}."
        )
    try:
        source = InceptionResnetV1(pretrained=weights)
    except OSError as error:
        raise BundleError(
            f"facenet-pytorch's {weights} weights could not be downloaded ({error}). Run this "
            "once on a machine with access to github.com and copy the bundle folder."
        ) from error
    return wrap_facenet(source.state_dict(), out, weights)


def wrap_facenet(state: Mapping[str, torch.Tensor], out: Path, weights: str) -> Bundle:
    """Write an InceptionResnetV1 state dict as a bundle, without classifier weights."""
    net = FacenetNet(Architecture(trunk="inception_resnet_v1", dim=512))
    own = net.net.state_dict().keys()
    net.net.load_state_dict({key: value for key, value in state.items() if key in own})
    card = f"# facenet {weights}\n\nfacenet-pytorch's InceptionResnetV1; calibrate before use.\n"
    with fresh_folder(out) as draft:
        prove(save_network(draft, net, FACENET_INPUT, name=f"facenet-{weights}", card=card))
    return Bundle.load(out)
