"""A cache of ONNX graphs for bundles without one; torch exports each model once."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from pathlib import Path

from model.atomic import made_whole
from model.bundle import Bundle

log = logging.getLogger(__name__)

EXPORT_VERSION = 1
"""Part of the cached file's name; increase it with every change to the export."""

NO_CACHE = (OSError, RuntimeError)
"""Errors when the folder is not writable or the user has no home."""


def cache_dir() -> Path:
    """Return the folder for derived files: ``FACE_CACHE``, else one in the user's cache.

    A new folder is readable by its owner only; an existing one keeps its permissions.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("FACE_CACHE") or Path(home) / "face-verification")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def graph(bundle: Bundle) -> bytes:
    """Return the graph of a bundle's network; export it if the cache lacks an intact copy."""
    name = f"{bundle.model_id}-{EXPORT_VERSION}.onnx"
    with contextlib.suppress(*NO_CACHE):
        if (kept := _kept(cache_dir() / name)) is not None:
            return kept
    net = bundle.network()
    from model.embedding import onnx_graph

    made = onnx_graph.export(net, bundle.preprocessing.input_size)
    try:
        file = cache_dir() / name
        for path, data in (
            (file, made),
            (_checksum(file), hashlib.sha256(made).hexdigest().encode()),
        ):
            with made_whole(path, private=True) as partial:
                partial.write_bytes(data)
    except NO_CACHE as error:
        log.warning(
            "The graph cannot be kept and is made at every start; name a folder in FACE_CACHE: %s",
            error,
        )
    return made


def _kept(file: Path) -> bytes | None:
    if not (file.exists() and _checksum(file).exists()):
        return None
    kept = file.read_bytes()
    if hashlib.sha256(kept).hexdigest() == _checksum(file).read_text():
        return kept
    log.warning("%s is damaged and is made again", file)
    return None


def _checksum(file: Path) -> Path:
    return file.with_suffix(".sha256")
