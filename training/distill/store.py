"""A store of training faces: aligned by the product's own detector, embedded by the teachers.

A store is a folder of shards. Each has the faces of some photos in order: crops, the teachers'
concatenated vectors, the path of each photo and the yaw of each face. Shards are written
atomically, so preparation resumes where it stopped. Training maps them from disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

from model.atomic import made_whole
from model.errors import BadImage, FaceError, NoFace
from model.faces.align import align
from model.faces.detect import Detector, choose
from model.faces.image import SUFFIXES, load_image
from model.faces.pose import pose
from model.onnx_runtime import open_session
from model.workers import processors
from training.inputs.worker_map import worker_map

SHARD = 2048
"""Photos per shard."""

ENOUGH = 64
"""Fewest photos for which worker processes are started."""

Prepared = tuple[np.ndarray, np.ndarray, float] | None
"""Crop, teachers' vectors and yaw of a photo's main face; None without a certain face."""

ABOUT = "about.json"
"""File with a store's teachers and, if folders name people, their collection and how many folder
levels name a person."""


@dataclass(frozen=True, eq=False)
class FaceStore:
    """Prepared faces of one collection.

    Attributes:
        crops: uint8 ``(n, 112, 112, 3)`` memory maps, one per shard.
        vectors: float16 ``(n, D)`` memory maps, one per shard: the teachers' unit vectors,
            concatenated.
        paths: Path of each face's photo, relative to the collection's root.
        people: ``collection/person`` of each face; empty if the person is unknown.
        yaw: Yaw of each face in degrees, float32 ``(N,)``.
    """

    name: str
    crops: tuple[np.ndarray, ...]
    vectors: tuple[np.ndarray, ...]
    paths: np.ndarray
    people: np.ndarray
    yaw: np.ndarray
    teachers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def crop(self, row: int) -> np.ndarray:
        """uint8 ``(112, 112, 3)``."""
        return self._at(self.crops, row)

    def vector(self, row: int) -> np.ndarray:
        """float16 ``(D,)``."""
        return self._at(self.vectors, row)

    @staticmethod
    def _at(shards: tuple[np.ndarray, ...], row: int) -> np.ndarray:
        for shard in shards:
            if row < len(shard):
                return shard[row]
            row -= len(shard)
        raise IndexError(row)

    @classmethod
    def open(cls, folder: Path) -> FaceStore:
        """Open a store, which may be incomplete.

        Raises:
            FaceError: The folder has no prepared faces.
        """
        shards = sorted(folder.glob("*.facts.npz"))
        if not shards:
            raise FaceError(f"{folder} holds no prepared faces. Make them with: training prepare")
        facts = [np.load(shard) for shard in shards]
        parts = [str(shard).removesuffix(".facts.npz") for shard in shards]
        about = json.loads((folder / ABOUT).read_text())
        paths = np.concatenate([fact["paths"] for fact in facts])
        people = [_person(path, about.get("people"), about.get("depth", 1)) for path in paths]
        return cls(
            name=folder.name,
            crops=tuple(np.load(f"{part}.crops.npy", mmap_mode="r") for part in parts),
            vectors=tuple(np.load(f"{part}.vectors.npy", mmap_mode="r") for part in parts),
            paths=paths,
            people=np.array(people),
            yaw=np.concatenate([fact["yaw"] for fact in facts]),
            teachers=tuple(about["teachers"]),
        )


class _Worker:
    """Detector and teachers of one process."""

    def __init__(self, teachers: Sequence[Path]) -> None:
        self.detector = Detector()
        self.teachers = [open_session(teacher, threads=1) for teacher in teachers]

    def __call__(self, path: Path) -> Prepared:
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


def _person(path: str, people: str | None, depth: int) -> str:
    return "" if people is None else "/".join([people, *Path(path).parts[:depth]])


def prepare(
    root: Path,
    teachers: Sequence[Path],
    out: Path,
    *,
    people: str | None = None,
    depth: int = 1,
) -> None:
    """Prepare every photo below ``root``; existing shards are kept.

    Args:
        root: Folder of photos. The main face of each is used, if the detector is certain of it.
        teachers: ONNX graphs that take 112 px RGB crops as ``(x - 127.5) / 127.5``.
        out: Folder of the store.
        people: Name of the collection, if the first folders below ``root`` name people; stores of
            one collection share their people. None if the people are unknown.
        depth: Number of folder levels that name a person.

    Raises:
        FaceError: There is no photo, or the store was begun with other settings.
    """
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise FaceError(f"{root} holds no pictures.")
    out.mkdir(parents=True, exist_ok=True)
    about = {"teachers": [teacher.name for teacher in teachers], "people": people, "depth": depth}
    if (out / ABOUT).exists() and json.loads((out / ABOUT).read_text()) != about:
        raise FaceError(f"{out} was begun with other teachers or people; give another folder.")
    (out / ABOUT).write_text(json.dumps(about))
    shards = {start: paths[start : start + SHARD] for start in range(0, len(paths), SHARD)}
    missing = [start for start in shards if not (out / f"{start:07d}.facts.npz").exists()]
    workers = processors() if len(paths) >= ENOUGH else 1
    with worker_map(partial(_Worker, teachers), workers) as mapped:
        for start in tqdm(missing, root.name, unit="shard"):
            _write(out / f"{start:07d}", root, shards[start], mapped(shards[start]))


def _write(
    shard: Path,
    root: Path,
    paths: Sequence[Path],
    results: Iterable[Prepared],
) -> None:
    found = [(path, *result) for path, result in zip(paths, results, strict=True) if result]
    if not found:
        return
    names, crops, vectors, yaw = zip(*found, strict=True)
    np.save(f"{shard}.crops.npy", np.stack(crops))
    np.save(f"{shard}.vectors.npy", np.stack(vectors))
    with made_whole(shard.with_name(f"{shard.name}.facts.npz")) as partial:
        np.savez(
            partial,
            paths=np.array([str(path.relative_to(root)) for path in names]),
            yaw=np.array(yaw, np.float32),
        )
