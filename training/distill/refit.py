"""The head that comes closest to a teacher, in closed form.

A network that learnt from one teacher and goes on with another has features that know faces and
a head that says them in the wrong space. Trained from there, the wrong head would bend the
features for hundreds of steps; least squares gives the right one at once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.embedding.network import EmbeddingNet

ENOUGH = 20_000
"""Faces that settle the head: several for each of its weights per dimension."""

RIDGE = 1e-2
"""Of the features' mean variance, added to each so that rare features are not relied on."""


@torch.no_grad()
def refit_head(net: EmbeddingNet, features: Tensor, targets: Tensor) -> None:
    """Set the head to the ridge regression of unit targets ``(N, D)`` on features ``(N, W)``.

    The head's outputs are as long as those of a trained head, about ``sqrt(D)``. Only their
    direction counts, but the steps of Adam have a length of their own: weights fitted to unit
    vectors are so small that the warm-up alone would write over them.

    A batch norm in the head is set so that, at rest, it changes nothing but the mean.
    """
    features, targets = features.double(), targets.double() * targets.shape[1] ** 0.5
    feature_mean, target_mean = features.mean(0), targets.mean(0)
    centred = features - feature_mean
    covariance = centred.T @ centred / len(features)
    covariance.diagonal().add_(RIDGE * covariance.diagonal().mean())
    crossed = centred.T @ (targets - target_mean) / len(features)
    weight = torch.linalg.solve(covariance, crossed).T
    linear = net.head[0]
    linear.weight.copy_(weight)
    if linear.bias is not None:
        linear.bias.copy_(target_mean - weight @ feature_mean)
        return
    norm = net.head[1]
    assert isinstance(norm, nn.BatchNorm1d)
    variance = (centred @ weight.T).square().mean(0)
    norm.running_mean.copy_(weight @ feature_mean)
    norm.running_var.copy_(variance)
    norm.weight.copy_((variance + norm.eps).sqrt())
    norm.bias.copy_(target_mean)
