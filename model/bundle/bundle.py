"""A model on disk: weights, preprocessing, calibration and card in one verified folder.

``model_id`` is a hash of everything that determines a crop's vector. All data derived from the
vectors carries it, so that results of two models cannot be mixed unnoticed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.bundle.files import FORMAT, read_listed, read_manifest, sha256, write_folder
from model.embedding.architecture import Architecture
from model.embedding.graph_check import check_graph
from model.embedding.preprocess import Preprocessing
from model.errors import BundleError
from model.pytorch import need_torch
from model.types import CROP_SIZE

if TYPE_CHECKING:
    from torch import nn

    from model.calibration import Calibration

ALIGNMENT = {"template": "arcface-5-point", "size": CROP_SIZE}
DEFAULT = Path(__file__).parents[1] / "bundles" / "default"

CALIBRATION, CARD = "calibration.json", "README.md"
WEIGHTS, GRAPH = "weights.safetensors", "graph.onnx"
INT8_GRAPH = "graph-int8.onnx"
"""The same network in int8, for CPUs. Its vectors are compared with fp32 ones under one model id
and one calibration, so it is stored only if it holds what that calibration promises."""

_ANEW = "**Calibrated anew.**"
"""Start of the paragraph that :meth:`Bundle.with_calibration` adds to a card."""


@dataclass(frozen=True)
class Bundle:
    """A model, read from its folder.

    Attributes:
        model_id: SHA-256 over weights, architecture, preprocessing and alignment.
        architecture: The network, or None for an imported ONNX graph.
        provenance: Where the weights come from: data, recipe, terms.
        metrics: Measured figures, each with its split, n and interval.
        versions: Versions of the libraries that made it.
        files: SHA-256 of its files, by name. Other files in the folder are never read.
    """

    path: Path
    name: str
    model_id: str
    architecture: Architecture | None
    preprocessing: Preprocessing
    provenance: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    has_graph: bool = False
    card: str = field(default="", compare=False)
    files: Mapping[str, str] = field(default_factory=dict, compare=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str] = DEFAULT) -> Bundle:
        """Read and verify a bundle.

        Raises:
            BundleError: It is missing, incomplete, changed since it was saved, or newer than
                this code.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        listed = manifest["files"]
        contents = {name: read_listed(folder / name, digest) for name, digest in listed.items()}
        architecture = manifest["architecture"]
        bundle = cls(
            path=folder,
            name=manifest["name"],
            model_id=manifest["model_id"],
            architecture=Architecture(**architecture) if architecture else None,
            preprocessing=Preprocessing.from_dict(manifest["preprocessing"]),
            provenance=manifest["provenance"],
            metrics=manifest["metrics"],
            versions=manifest["versions"],
            has_graph=GRAPH in listed,
            card=contents.get(CARD, b"").decode(errors="replace"),
            files=listed,
        )
        if missing := {bundle.core_file, CARD} - set(contents):
            raise BundleError(f"{folder} does not list {sorted(missing)[0]}.")
        for name in {GRAPH, INT8_GRAPH} & listed.keys():
            check_graph(contents[name], beside=[WEIGHTS] if architecture else [])
        actual = model_id_of(contents[bundle.core_file], architecture, bundle.preprocessing)
        if actual != bundle.model_id or manifest["alignment"] != ALIGNMENT:
            raise BundleError(
                f"{folder} names model {bundle.model_id[:12]}, but its contents are another model: "
                "weights, preprocessing or alignment were changed. Restore it from its source."
            )
        return bundle

    @property
    def core_file(self) -> str:
        return WEIGHTS if self.architecture else GRAPH

    @property
    def graph_file(self) -> Path | None:
        """The ONNX graph to run; None for a network saved without one."""
        return self.path / GRAPH if self.has_graph else None

    @property
    def int8_file(self) -> Path | None:
        """The int8 ONNX graph, or None."""
        return self.path / INT8_GRAPH if INT8_GRAPH in self.files else None

    @property
    def dim(self) -> int | None:
        """Length of an embedding; None for an imported graph, where only a run shows it."""
        return self.architecture.dim if self.architecture else None

    @cached_property
    def calibration(self) -> Calibration | None:
        from model.calibration import Calibration

        if CALIBRATION not in self.files:
            return None
        self._read(CALIBRATION)
        return Calibration.load(self.path / CALIBRATION, model_id=self.model_id)

    def network(self) -> nn.Module:
        """Load the network with its weights: evaluation mode, float32, on the CPU."""
        if self.architecture is None:
            raise BundleError(f"{self.name} is an imported ONNX graph and has no torch network.")
        need_torch()
        from safetensors import SafetensorError
        from safetensors.torch import load

        from model.embedding.network import build

        try:
            state = load(self._read(WEIGHTS))
            net = build(self.architecture)
            net.load_state_dict({name: tensor.float() for name, tensor in state.items()})
        except (KeyError, SafetensorError, RuntimeError, ValueError) as error:
            raise BundleError(f"The weights of {self.name} do not fit: {error}") from error
        return net.eval()

    def graph(self) -> bytes:
        return self._read(GRAPH)

    def _read(self, name: str) -> bytes:
        if name not in self.files:
            raise BundleError(f"{self.path} does not list {name}, so it is not read.")
        return read_listed(self.path / name, self.files[name])

    def with_calibration(self, calibration: Calibration) -> Bundle:
        """Store a calibration for this model, replacing any other.

        A note is added to the card, because its rates and thresholds come from an earlier one.
        """
        calibration.check_model(self.model_id)
        card = _calibrated_anew(self.card, calibration)
        changed = {CALIBRATION: calibration.to_json().encode(), CARD: card.encode()}
        return self._rewritten(self.manifest(), changed)

    def with_int8(self, graph: bytes) -> Bundle:
        """Store an int8 graph of the network (:func:`model.embedding.quantise.quantise`)."""
        return self._rewritten(self.manifest(), {INT8_GRAPH: graph})

    def without_int8(self) -> Bundle:
        """Remove the int8 graph."""
        return self._rewritten(self.manifest(), {}, removed={INT8_GRAPH})

    def with_card(
        self, card: str, *, metrics: Mapping[str, Any], pictures: Mapping[str, bytes] | None = None
    ) -> Bundle:
        """Store a new card with its metrics, and its pictures by file name."""
        manifest = self.manifest() | {"metrics": dict(metrics)}
        return self._rewritten(manifest, {CARD: card.encode(), **(pictures or {})})

    def _rewritten(
        self,
        manifest: dict[str, Any],
        changed: Mapping[str, bytes],
        removed: Collection[str] = (),
    ) -> Bundle:
        files = list(self.path.iterdir())
        if strange := [file.name for file in files if not file.is_file()]:
            raise BundleError(
                f"{self.path} holds a folder, {strange[0]}, which is not part of a bundle and "
                "would be deleted. Move it elsewhere."
            )
        left = [name for name in self.files if name not in {*changed, *removed}]
        kept = {name: self._read(name) for name in left}
        write_folder(self.path, manifest, {**kept, **changed})
        return Bundle.load(self.path)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest without the file digests."""
        return {
            "format": FORMAT,
            "name": self.name,
            "model_id": self.model_id,
            "architecture": self.architecture.to_dict() if self.architecture else None,
            "preprocessing": self.preprocessing.to_dict(),
            "alignment": ALIGNMENT,
            "provenance": dict(self.provenance),
            "metrics": dict(self.metrics),
            "versions": dict(self.versions),
        }


def model_id_of(
    core: bytes, architecture: dict[str, Any] | None, preprocessing: Preprocessing
) -> str:
    """Hash the identity of a model whose weights or graph are ``core``."""
    described = json.dumps([architecture, preprocessing.to_dict(), ALIGNMENT], sort_keys=True)
    return sha256(core + described.encode())


def _calibrated_anew(card: str, calibration: Calibration) -> str:
    """Add or replace the card's paragraph about a new calibration, below the title."""
    protocol = " ".join(calibration.protocol.split())
    note = (
        f"{_ANEW} Calibration `{calibration.id}`, on: {protocol}. Rates and thresholds further "
        "down, where there are any, are of an earlier calibration."
    )
    paragraphs = [part for part in card.rstrip("\n").split("\n\n") if not part.startswith(_ANEW)]
    place = 1 if card.startswith("# ") else 0
    return "\n\n".join([*paragraphs[:place], note, *paragraphs[place:]]) + "\n"
