"""Small stores of prepared faces, with a teacher that takes no training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

from tests import samples
from training.distill.store import prepare


def teacher(path: Path, cell: int = 28) -> Path:
    """An embedder that says how bright each cell of a crop is, in ONNX."""
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 112, 112])
    output = helper.make_tensor_value_info("cells", TensorProto.FLOAT, [1, 3 * (112 // cell) ** 2])
    nodes = [
        helper.make_node("AveragePool", ["image"], ["means"], kernel_shape=[cell] * 2,
                         strides=[cell] * 2),
        helper.make_node("Flatten", ["means"], ["cells"]),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "cells", [image], [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, path)
    return path


def people(root: Path, names: list[str], photos: int = 2) -> Path:
    """Folders of people, each with some photos of a face in different light."""
    rng = np.random.default_rng(0)
    for number, name in enumerate(names):
        (root / name).mkdir(parents=True)
        base = samples.collins() if number % 2 else samples.hopper()
        base = np.asarray(Image.fromarray(base).resize((160, 160)))
        for photo in range(photos):
            tint = rng.uniform(0.5, 1, 3)
            Image.fromarray((base * tint).astype(np.uint8)).save(root / name / f"{photo}.png")
    return root


def store(folder: Path, names: list[str], photos: int = 2) -> Path:
    """A prepared store of such people, of a collection called ``people``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    root = people(folder.parent / f"{folder.name}-photos", names, photos)
    graphs = [teacher(folder.parent / "a.onnx"), teacher(folder.parent / "b.onnx", 56)]
    prepare(root, graphs, folder, people="people")
    return folder
