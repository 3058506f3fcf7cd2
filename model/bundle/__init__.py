"""Model bundles on disk: read, write, verify, import and export."""

from __future__ import annotations

from model.bundle.bundle import DEFAULT, Bundle
from model.bundle.files import MANIFEST
from model.bundle.save import save_graph, save_network

__all__ = ["DEFAULT", "MANIFEST", "Bundle", "save_graph", "save_network"]
