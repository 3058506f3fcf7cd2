"""The embedding network: a torchvision trunk, pooling, a linear head and normalisation."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from torchvision.models import MobileNetV2, ResNet, get_model
from torchvision.models.resnet import BasicBlock, Bottleneck

from model.embedding.architecture import Architecture
from model.errors import BundleError


class ResNetTrunk(ResNet):
    """A torchvision ResNet without its classifier; keeps torchvision's parameter names."""

    def __init__(self, block: type[BasicBlock | Bottleneck], layers: list[int]) -> None:
        super().__init__(block, layers)
        self.width = self.fc.in_features
        del self.avgpool, self.fc

    def forward(self, images: Tensor) -> Tensor:
        maps = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        return self.layer4(self.layer3(self.layer2(self.layer1(maps))))


class MobileNetTrunk(MobileNetV2):
    """A torchvision MobileNetV2 without its classifier, for small machines."""

    def __init__(self) -> None:
        super().__init__()
        self.width = self.last_channel
        del self.classifier

    def forward(self, images: Tensor) -> Tensor:
        return self.features(images)


class Mean(nn.Module):
    """Average over all positions, for any input size."""

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3))


TRUNKS: dict[str, Callable[[], ResNetTrunk | MobileNetTrunk]] = {
    "resnet50": lambda: ResNetTrunk(Bottleneck, [3, 4, 6, 3]),
    "resnet18": lambda: ResNetTrunk(BasicBlock, [2, 2, 2, 2]),
    "mobilenet_v2": MobileNetTrunk,
}
CLASSIFIERS = ("fc.", "classifier.")


class EmbeddingNet(nn.Module):
    """Embeds normalised images ``(B, 3, H, W)`` as unit vectors ``(B, dim)``.

    Example:
        >>> net = EmbeddingNet(Architecture(trunk="resnet18", dim=128)).eval()
        >>> net(torch.zeros(2, 3, 112, 112)).shape
        torch.Size([2, 128])
    """

    def __init__(self, architecture: Architecture | None = None) -> None:
        super().__init__()
        self.architecture = arch = architecture or Architecture()
        if arch.trunk not in TRUNKS:
            raise ValueError(f"trunk is {arch.trunk!r}; it must be one of {', '.join(TRUNKS)}")
        if arch.pooling != "avg":
            raise ValueError(f"pooling is {arch.pooling!r}; it must be avg")
        self.trunk = TRUNKS[arch.trunk]()
        self.pool = Mean()
        linear = nn.Linear(self.trunk.width, arch.dim, bias=not arch.head_norm)
        self.head = nn.Sequential(linear)
        if arch.head_norm:
            self.head.append(nn.BatchNorm1d(arch.dim))

    def features(self, images: Tensor) -> Tensor:
        """Pooled trunk features ``(B, width)``, the input of :attr:`head`."""
        return self.pool(self.trunk(images))

    def forward(self, images: Tensor) -> Tensor:
        return F.normalize(self.head(self.features(images)).float(), dim=1)


class FacenetNet(nn.Module):
    """facenet-pytorch's InceptionResnetV1 with the interface of :class:`EmbeddingNet`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        from facenet_pytorch import InceptionResnetV1

        self.architecture = architecture
        self.net = InceptionResnetV1(pretrained=None, classify=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images)


def build(architecture: Architecture) -> nn.Module:
    """Build the network of an architecture, with random weights."""
    if architecture.trunk == "inception_resnet_v1":
        return FacenetNet(architecture)
    return EmbeddingNet(architecture)


def load_trunk(net: EmbeddingNet, path: Path) -> list[str]:
    """Initialise the trunk from a file with torchvision's names, safetensors or ``.pth``.

    The file may cover only part of the trunk. Its tensors must fit exactly, except for those of a
    classifier, which are ignored.

    Returns:
        The trunk's top-level blocks that the file does not fully cover.

    Raises:
        BundleError: The file holds no weights, or a tensor is not in the trunk or has the wrong
            shape.
    """
    own = net.trunk.state_dict()
    given = {
        name: tensor.float()
        for name, tensor in _read_weights(path).items()
        if not name.startswith(CLASSIFIERS)
    }
    strangers = sorted(
        name for name, tensor in given.items() if name not in own or own[name].shape != tensor.shape
    )
    if strangers:
        raise BundleError(
            f"{path} does not fit a {net.architecture.trunk} trunk: "
            f"{', '.join(strangers[:3])} and {max(0, len(strangers) - 3)} more do not belong to it."
        )
    net.trunk.load_state_dict(given, strict=False)
    # Batch counters do not affect the features, and older files lack them.
    needed = {name for name in own if not name.endswith("num_batches_tracked")}
    return sorted({name.split(".")[0] for name in needed - given.keys()})


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Read tensors by name; never runs code from a ``.pth`` file."""
    try:
        if path.suffix != ".pth":
            return load_file(path)
        state = torch.load(path, weights_only=True, map_location="cpu")
    except (SafetensorError, pickle.UnpicklingError, EOFError, RuntimeError) as error:
        # Omit PyTorch's message: it advises loading the file unsafely.
        raise BundleError(
            f"{path} cannot be read as a file of weights, safetensors or torchvision's .pth."
        ) from error
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise BundleError(
            f"{path} is not a plain table of tensors by name, like torchvision's files."
        )
    return state


def load_imagenet(net: EmbeddingNet) -> None:
    """Initialise the trunk from torchvision's ImageNet weights; download them if not cached.

    Raises:
        BundleError: The weights are not cached and cannot be downloaded; the message lists the
            alternatives.
    """
    try:
        source = get_model(net.architecture.trunk, weights="DEFAULT")
    except OSError as error:
        raise BundleError(
            f"torchvision's ImageNet weights for {net.architecture.trunk} cannot be downloaded "
            f"({error}). Three alternatives: connect once, so that they are downloaded; give a "
            "file of weights (--init FILE.safetensors or FILE.pth); or start from a bundle "
            "(--init model/bundles/default). --init scratch starts without any."
        ) from error
    net.trunk.load_state_dict(source.state_dict(), strict=False)


def fold_batch_norm(net: nn.Module) -> nn.Module:
    """Return an inference copy with each batch norm folded into the layer before it."""
    folded = copy.deepcopy(net).eval()
    for parent in list(folded.modules()):
        previous: tuple[str, nn.Module] | None = None
        for name, child in list(parent.named_children()):
            if previous is not None and (fused := _fuse(previous[1], child)) is not None:
                setattr(parent, previous[0], fused)
                setattr(parent, name, nn.Identity())
                previous = None
            else:
                previous = (name, child)
    return folded


def _fuse(first: nn.Module, second: nn.Module) -> nn.Module | None:
    if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
        return fuse_conv_bn_eval(first, second)
    if isinstance(first, nn.Linear) and isinstance(second, nn.BatchNorm1d):
        return fuse_linear_bn_eval(first, second)
    return None
