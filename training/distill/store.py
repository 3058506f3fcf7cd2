"""Faces to learn from, prepared once: aligned by the product's own detector, seen by the teachers.

A store is a folder of shards. Each holds the faces of some photos in order: crops, the teachers'
vectors side by side, where each face comes from and how far it is turned. Shards are whole or
absent, so preparing resumes where it was stopped, and training maps them from disk.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

from model.errors import BadImage, FaceError, NoFace
from model.faces.align import align
from model.faces.detect import Detector, choose
from model.faces.image import SUFFIXES, load_image
from model.faces.pose import pose
from model.onnx_runtime import open_session
from model.workers import processors

SHARD = 2048
"""Photos in a shard."""


@dataclass(frozen=True, eq=False)
class FaceStore:
    """Prepared faces of one collection.

    Attributes:
        name: The collection's.
        crops: uint8 ``(n, 112, 112, 3)`` memory maps, one a shard.
        vectors: float16 ``(n, D)`` memory maps, one a shard: the teachers' unit vectors side by
            side.
        paths: Per face, the photo below the collection's root.
        yaw: Degrees by which each face is turned to the side, float32 ``(N,)``.
    """

    name: str
    crops: tuple[np.ndarray, ...]
    vectors: tuple[np.ndarray, ...]
    paths: np.ndarray
    yaw: np.ndarray

    def __len__(self) -> int:
        return len(self.paths)

    @classmethod
    def open(cls, folder: Path) -> FaceStore:
        """Read a store, as far as it is prepared.

        Raises:
            FaceError: There is none.
        """
        shards = sorted(folder.glob("*.facts.npz"))
        if not shards:
            raise FaceError(f"{folder} holds no prepared faces. Make them with: training prepare")
        facts = [np.load(shard) for shard in shards]
        parts = [str(shard).removesuffix(".facts.npz") for shard in shards]
        return cls(
            name=folder.name,
            crops=tuple(np.load(f"{part}.crops.npy", mmap_mode="r") for part in parts),
            vectors=tuple(np.load(f"{part}.vectors.npy", mmap_mode="r") for part in parts),
            paths=np.concatenate([fact["paths"] for fact in facts]),
            yaw=np.concatenate([fact["yaw"] for fact in facts]),
        )


class _Worker:
    """What one process needs to prepare a photo."""

    def __init__(self, teachers: Sequence[Path]) -> None:
        self.detector = Detector()
        self.teachers = [open_session(teacher, threads=1) for teacher in teachers]

    def __call__(self, path: Path) -> tuple[np.ndarray, np.ndarray, float] | None:
        try:
            image = load_image(path)
            (face,) = choose(self.detector.detect(image), "largest_central", image.shape)
        except (BadImage, NoFace):
            return None
        if not face.certain:
            return None
        crop = align(image, face.landmarks)
        return crop, self.vectors(crop), pose(face.landmarks).yaw

    def vectors(self, crop: np.ndarray) -> np.ndarray:
        pixels = (crop.transpose(2, 0, 1)[None].astype(np.float32) - 127.5) / 127.5
        seen = []
        for teacher in self.teachers:
            raw = teacher.run(None, {teacher.get_inputs()[0].name: pixels})[0][0]
            seen.append(raw / np.linalg.norm(raw))
        return np.concatenate(seen).astype(np.float16)


_worker: _Worker | None = None


def _begin(teachers: Sequence[Path]) -> None:
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = _Worker(teachers)


def _prepare(path: Path) -> tuple[np.ndarray, np.ndarray, float] | None:
    assert _worker is not None
    return _worker(path)


def prepare(root: Path, teachers: Sequence[Path], out: Path) -> None:
    """Prepare every photo below ``root``; shards that are there already are kept.

    Raises:
        FaceError: There is no photo, or the store was made with other teachers.
    """
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise FaceError(f"{root} holds no pictures.")
    out.mkdir(parents=True, exist_ok=True)
    made_with = out / "teachers.json"
    names = [teacher.name for teacher in teachers]
    if made_with.exists() and json.loads(made_with.read_text()) != names:
        raise FaceError(f"{out} was made with other teachers; give another folder.")
    made_with.write_text(json.dumps(names))
    with ProcessPoolExecutor(
        processors(), mp_context=get_context("spawn"), initializer=_begin, initargs=(teachers,)
    ) as pool:
        starts = tqdm(range(0, len(paths), SHARD), root.name, unit="shard")
        for start in starts:
            if not (out / f"{start:07d}.facts.npz").exists():
                part = paths[start : start + SHARD]
                _write(out / f"{start:07d}", root, part, pool.map(_prepare, part, chunksize=8))


def _write(
    shard: Path,
    root: Path,
    paths: Sequence[Path],
    results: Iterator[tuple[np.ndarray, np.ndarray, float] | None],
) -> None:
    found = [(path, *result) for path, result in zip(paths, results, strict=True) if result]
    if not found:
        return
    names, crops, vectors, yaw = zip(*found, strict=True)
    np.save(f"{shard}.crops.npy", np.stack(crops))
    np.save(f"{shard}.vectors.npy", np.stack(vectors))
    facts = shard.with_name(f"{shard.name}.partial.npz")
    np.savez(
        facts,
        paths=np.array([str(path.relative_to(root)) for path in names]),
        yaw=np.array(yaw, np.float32),
    )
    os.replace(facts, f"{shard}.facts.npz")
