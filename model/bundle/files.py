"""Bundle folders on disk: replaced as a whole, and verified when read.

``bundle.json`` is the manifest: a description of the model, the SHA-256 of every other file, and
its own digest. :mod:`model.bundle.bundle` defines the files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from model.bundle.schema import check_manifest
from model.errors import BundleError

FORMAT = 1
MANIFEST = "bundle.json"
MAX_MANIFEST_BYTES = 4_000_000


def write_folder(folder: Path, manifest: dict[str, Any], files: Mapping[str, bytes]) -> None:
    """Write a bundle folder; an existing one is replaced as by :func:`fresh_folder`.

    Args:
        manifest: Description of the model; the digests are added here.
        files: Contents by file name, without the manifest.
    """
    manifest = {**manifest, "files": {name: sha256(data) for name, data in files.items()}}
    manifest["digest"] = _digest(manifest)
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    with fresh_folder(folder) as fresh:
        for name, data in {**files, MANIFEST: text.encode()}.items():
            with (fresh / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())


@contextmanager
def fresh_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces ``folder`` if the block succeeds.

    Raises:
        BundleError: ``folder`` exists and is not a bundle, so its contents would be lost.
    """
    _require_ours(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-new-", dir=folder.parent))
    try:
        yield fresh
        fresh.chmod(0o755)
        _replace_folder(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _require_ours(folder: Path) -> None:
    if not folder.exists() or (folder / MANIFEST).is_file():
        return
    if not folder.is_dir() or any(folder.iterdir()):
        raise BundleError(
            f"{folder} already exists and is not a model bundle. Choose another folder."
        )


def _replace_folder(fresh: Path, folder: Path) -> None:
    """Move a finished folder into place and remove the old one, if any.

    Between the two renames ``folder`` does not exist. If the second rename fails, the old folder
    is restored. If the process is killed there, both remain in the parent folder, the old one as
    ``.<name>-old-...``.
    """
    if not folder.exists():
        os.rename(fresh, folder)
        return
    retired = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    try:
        os.rename(folder, retired)
        os.rename(fresh, folder)
    finally:
        if folder.exists():
            shutil.rmtree(retired)
        else:
            os.rename(retired, folder)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest; its own digest is removed.

    Raises:
        BundleError: It is missing, damaged, changed since it was saved, or newer than this code.
    """
    file = folder / MANIFEST
    if not file.is_file():
        raise BundleError(f"{folder} is not a model bundle: it has no {MANIFEST}.")
    try:
        manifest = json.loads(read_regular(file, MAX_MANIFEST_BYTES))
        newer = int(manifest["format"]) > FORMAT
        digest = manifest.pop("digest", None)
        changed = digest != _digest(manifest)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise BundleError(f"{file} is damaged and cannot be read: {error}") from error
    if newer:
        raise BundleError(
            f"{folder} has bundle format {manifest['format']}, this version reads up to {FORMAT}. "
            "Update the program."
        )
    if changed:
        raise BundleError(f"{file} was changed since it was saved. Restore it from its source.")
    check_manifest(manifest, file)
    return manifest


def read_listed(file: Path, digest: str) -> bytes:
    """Read a file of the bundle and check its digest.

    Raises:
        BundleError: It is missing, a link, not a regular file, or was changed since it was saved.
    """
    data = read_regular(file)
    if sha256(data) != digest:
        raise BundleError(f"{file} was changed since it was saved. Restore it from its source.")
    return data


def read_regular(file: Path, limit: int | None = None) -> bytes:
    """Read a regular file that is not a link.

    Raises:
        BundleError: It is not such a file, cannot be read, or has more than ``limit`` bytes.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or (limit and status.st_size > limit):
                raise BundleError(f"{file} is not a regular file, or too large for a bundle.")
            return opened.read()
    except FileNotFoundError:
        raise BundleError(
            f"The bundle lacks {file.name} ({file}). Restore it from its source."
        ) from None
    except OSError as error:
        raise BundleError(f"{file} is a link or cannot be read: {error.strerror}.") from error


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(manifest: dict[str, Any]) -> str:
    return sha256(json.dumps(manifest, sort_keys=True, ensure_ascii=False).encode())
