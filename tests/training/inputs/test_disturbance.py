from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch

from training.inputs.disturbance import Disturbance


def test_disturbances_repeat_by_seed_and_keep_to_pixels() -> None:
    crops = torch.from_numpy(
        np.random.default_rng(0).integers(0, 256, (32, 112, 112, 3), dtype=np.uint8)
    )
    strong = Disturbance(dark=0.5, grey=0.5, soft=0.5, blur=0.5, jpeg=0.5, edge=0.5, occlude=0.5)
    one, two, other = (strong(crops, 64, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert one.shape == (32, 3, 64, 64)
    assert one.min() >= 0
    assert one.max() <= 255
    assert (one == 0).flatten(1).float().mean(1).max() > 0.1, "black beyond the edge"


def test_turned_off_it_only_mirrors() -> None:
    crops = torch.randint(0, 256, (16, 112, 112, 3), dtype=torch.uint8)
    off = dict.fromkeys((field.name for field in fields(Disturbance)), 0.0)
    images = Disturbance(**off)(crops, 112, torch.Generator().manual_seed(0))
    plain = crops.permute(0, 3, 1, 2).float()
    same = (images - plain).abs().amax((1, 2, 3)) < 0.01
    mirrored = (images - plain.flip(3)).abs().amax((1, 2, 3)) < 0.01
    assert (same ^ mirrored).all()
    assert same.any()
    assert mirrored.any()
