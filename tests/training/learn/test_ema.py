from __future__ import annotations

import torch

from training.learn.ema import EMA


def test_ema_against_the_definition() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    ema = EMA(net, decay=0.9)
    expected = net[0].weight.detach().clone()
    for step in range(1, 100):
        with torch.no_grad():
            net[0].weight.add_(1.0)
            net[1].num_batches_tracked += 1
        ema.update(net)
        keep = min(0.9, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * net[0].weight.detach()
    torch.testing.assert_close(ema.net[0].weight, expected)
    assert ema.net[1].num_batches_tracked == net[1].num_batches_tracked
