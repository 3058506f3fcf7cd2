"""Fit the head to a teacher in closed form.

When a network changes to another teacher, its features are useful but its head maps to the old
teacher's space. Gradients through the wrong head would distort the features for hundreds of steps;
least squares gives the right head at once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.embedding.network import EmbeddingNet

ENOUGH = 20_000
"""Faces that suffice for the fit: several per weight of an output dimension."""

RIDGE = 1e-2
"""Share of the features' mean variance added to each variance, so that rare features weigh less."""


@torch.no_grad()
def refit_head(net: EmbeddingNet, features: Tensor, targets: Tensor) -> None:
    """Set the head to the ridge regression of unit targets ``(N, D)`` on features ``(N, W)``.

    The head's outputs get the length of a trained head's, about ``sqrt(D)``. Only their direction
    matters, but the step size of Adam does not depend on the weights' scale: it would overwrite
    the small weights of a fit to unit vectors during the warm-up alone.

    A batch norm in the head is set so that, in evaluation mode, it changes only the mean.
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
