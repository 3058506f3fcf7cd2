"""The common form of all datasets: paths, labels and official annotations."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from model.errors import FaceError


class DatasetError(FaceError):
    """A dataset is missing, incomplete or not in its published layout."""

    code = "dataset_error"


@dataclass(frozen=True, eq=False)
class Table:
    """Pictures with labels.

    Attributes:
        paths: One file per picture.
        labels: int64 array ``(N,)``, indices into ``names``.
        names: Class (person, bird, car) of each label.
        faces: True if the pictures are photos of people.
        aligned: True if they are already aligned face crops; else faces are detected and aligned.
        official_train: Optional bool array ``(N,)``: True for the official training part.
        notes: How this copy differs from the published dataset, in sentences.
    """

    name: str
    paths: tuple[Path, ...]
    labels: np.ndarray
    names: tuple[str, ...]
    faces: bool = False
    aligned: bool = False
    official_train: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.paths) != len(self.labels):
            raise ValueError(f"{len(self.paths)} paths but {len(self.labels)} labels")
        if len(self.labels) and not 0 <= self.labels.min() <= self.labels.max() < len(self.names):
            raise ValueError(f"labels must be in 0..{len(self.names) - 1}")

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def people(self) -> np.ndarray:
        """``root/person`` per picture; the root is the parent of the picture's folder."""
        return np.array(
            [
                f"{Path(os.path.abspath(path)).parent.parent.name}/{self.names[label]}"
                for path, label in zip(self.paths, self.labels, strict=True)
            ]
        )

    @property
    def fingerprint(self) -> str:
        """Hash of the people and file names in order (not of the pictures' content)."""
        rows = zip(self.people, self.paths, strict=True)
        listed = "\n".join(f"{person}/{path.name}" for person, path in rows)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    def subset(self, keep: np.ndarray) -> Table:
        """The rows at ``keep`` (indices or mask), labels renumbered, unused names dropped."""
        rows = np.flatnonzero(keep) if keep.dtype == bool else keep
        used, labels = np.unique(self.labels[rows], return_inverse=True)
        return replace(
            self,
            paths=tuple(self.paths[row] for row in rows),
            labels=labels.astype(np.int64),
            names=tuple(self.names[label] for label in used),
            official_train=None if self.official_train is None else self.official_train[rows],
        )


def require(root: Path, parts: Sequence[str], dataset: str, where: str) -> None:
    """Check that a dataset's files and folders exist.

    Raises:
        DatasetError: Some are missing; the message names them and says where to get them.
    """
    missing = [part for part in parts if not (root / part).exists()]
    if missing:
        raise DatasetError(
            f"{dataset}: {root} lacks {', '.join(missing)}. {where}",
            missing=missing,
        )


def require_count(found: int, expected: int, what: str, dataset: str) -> None:
    if found != expected:
        raise DatasetError(
            f"{dataset} should have {expected:,} {what}, but {found:,} were found. "
            "Unpack the archive again; it may be incomplete."
        )


def by_folder(root: Path, suffixes: frozenset[str]) -> tuple[list[Path], list[int], list[str]]:
    """Paths, labels and class names of pictures below ``root``, one folder per class, sorted."""
    paths: list[Path] = []
    labels: list[int] = []
    names: list[str] = []
    for folder in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        files = sorted(file for file in folder.iterdir() if file.suffix.lower() in suffixes)
        if files:
            labels += [len(names)] * len(files)
            names.append(folder.name)
            paths += files
    return paths, labels, names
