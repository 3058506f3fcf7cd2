"""The folder of a bundle on disk: replaced in one step, read back only as it was written.

``bundle.json`` is the manifest: what the model is, a SHA-256 of every other file, and a digest
of itself. :mod:`model.bundle` says what the files mean.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model.errors import BundleError

FORMAT = 1
MANIFEST = "bundle.json"


def write_folder(folder: Path, manifest: dict[str, Any], files: Mapping[str, bytes]) -> None:
    """Build the new folder beside the old one, then swap; a crash leaves one of the two.

    Args:
        folder: Folder to create or replace.
        manifest: What the model is; the digests are added here.
        files: Contents by file name, without the manifest.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    manifest = {**manifest, "files": {name: sha256(data) for name, data in files.items()}}
    manifest["digest"] = _digest(manifest)
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    try:
        for name, data in {**files, MANIFEST: text.encode()}.items():
            with (fresh / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        fresh.chmod(0o755)
        if folder.exists():
            retired = fresh.with_name(fresh.name + "-old")
            os.rename(folder, retired)
            os.rename(fresh, folder)
            shutil.rmtree(retired)
        else:
            os.rename(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, without its own digest.

    Raises:
        BundleError: It is missing, damaged, changed since it was saved, or newer than this code.
    """
    file = folder / MANIFEST
    if not file.is_file():
        raise BundleError(f"{folder} is not a model bundle: it has no {MANIFEST}.")
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
        newer = int(manifest["format"]) > FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise BundleError(f"{file} is damaged and cannot be read: {error}") from error
    if newer:
        raise BundleError(
            f"{folder} has bundle format {manifest['format']}, this version reads up to {FORMAT}. "
            "Update the program."
        )
    if manifest.pop("digest", None) != _digest(manifest):
        raise BundleError(f"{file} was changed since it was saved. Restore it from its source.")
    return manifest


def verify_file(file: Path, digest: str) -> None:
    """Hold a file against the SHA-256 in the manifest.

    Raises:
        BundleError: It is missing or was changed since it was saved.
    """
    if not file.is_file():
        raise BundleError(f"The bundle lacks {file.name} ({file}). Restore it from its source.")
    if sha256(file.read_bytes()) != digest:
        raise BundleError(f"{file} was changed since it was saved. Restore it from its source.")


def sha256(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _digest(manifest: dict[str, Any]) -> str:
    return sha256(json.dumps(manifest, sort_keys=True, ensure_ascii=False).encode())
