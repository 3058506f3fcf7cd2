from __future__ import annotations

import torch

from training.inputs.augment import Augment


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
