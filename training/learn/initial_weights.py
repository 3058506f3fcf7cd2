"""Initial weights of a network."""

from __future__ import annotations

from pathlib import Path

from model.bundle import MANIFEST, Bundle
from model.embedding.network import TRUNKS, Architecture, EmbeddingNet, load_imagenet, load_trunk
from model.errors import BundleError


def is_bundle(source: str) -> bool:
    return (Path(source) / MANIFEST).exists()


def bundle_architecture(source: str) -> Architecture:
    """The architecture of a bundle's network.

    Raises:
        BundleError: The bundle has an imported network, which cannot be trained.
    """
    architecture = Bundle.load(source).architecture
    if architecture is None or architecture.trunk not in TRUNKS:
        raise BundleError(
            f"{source} holds an imported network, which can serve and teach, but cannot be trained."
        )
    return architecture


def initialise(net: EmbeddingNet, source: str) -> list[str]:
    """Initialise a network from ``imagenet``, ``scratch``, a trunk file or a bundle; print which.

    Returns:
        The trunk's top-level blocks that got no weights from the source.

    Raises:
        BundleError: The source does not exist or does not fit the network.
    """
    fresh: list[str] = []
    if source == "scratch":
        fresh = [name for name, _ in net.trunk.named_children()]
        print("start: from scratch")
    elif source == "imagenet":
        load_imagenet(net)
        print("start: torchvision's ImageNet weights; fresh: head")
    elif is_bundle(source):
        bundle = Bundle.load(source)
        if bundle.architecture != net.architecture:
            raise BundleError(
                f"{source} holds {bundle.architecture}, this run needs {net.architecture}."
            )
        net.load_state_dict(bundle.network().state_dict())
        print(f"start: bundle {bundle.name} ({bundle.model_id[:12]})")
    elif Path(source).is_file():
        fresh = load_trunk(net, Path(source))
        print(f"start: {source}; fresh: {', '.join([*fresh, 'head'])}")
    else:
        find_weights(source, net.architecture.trunk)
    return fresh


def find_weights(source: str, trunk: str) -> None:
    """Check that the initial weights exist; torchvision's are downloaded if needed.

    Raises:
        BundleError: There are none; the message lists what ``--init`` takes.
    """
    if source == "imagenet":
        load_imagenet(EmbeddingNet(Architecture(trunk=trunk)))
    elif source != "scratch" and not Path(source).is_file() and not is_bundle(source):
        raise BundleError(
            f"There are no weights at {source}. --init takes imagenet (torchvision's, downloaded "
            "once), a file of weights, a bundle's folder, or scratch."
        )
