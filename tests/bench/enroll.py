"""Batch enrollment: each stage alone, then all at once; how far the overlap carries.

    python -m tests.bench enroll --bundle BUNDLE [--photos 600] [--rounds 3] [--workers N]

Photos per second of reading, decoding and finding the face, of the network, and of checking and
storing, each alone with the processes it has in the pipeline, then of the pipeline as a whole,
from its first batch on: the seconds its processes take to start are not what it is judged by.
Beside the wall clock stands the processor time a photo takes. Stages and pipeline take turns, round
by round, and medians are compared, as a busy neighbour can slow any one of them.

A pipeline is as fast as its slowest stage at best, and never faster than its processors can do
the work of all stages: with as many looking as there are processors (the default, and the
fastest) the second bounds it, with ``--workers 1`` on two processors the first. That no stage
waits for another without need is also shown by stages that only wait, as if detector and network
had hardware of their own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import psutil
import torch

from app.batch.detect_workers import lookers
from app.batch.enroller import BATCH, BatchEnroller, lookers_and_threads
from app.batch.sources import Item, open_source
from app.context import Context
from app.settings import Settings
from app.usecases import enroll as enroll_photos
from app.usecases.results import DetectedFace, PhotoResult, Upload
from model.workers import processors
from tests.bench._lfw import lfw_photos


@dataclass(frozen=True)
class Stage:
    """How fast one stage was: photos, wall seconds, processor seconds."""

    name: str
    photos: int
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        """Photos a second."""
        return self.photos / self.wall

    def __str__(self) -> str:
        milliseconds = 1000 * self.cpu / self.photos
        return f"{self.name:<28} {self.rate:>8.1f} photos/s {milliseconds:>8.1f} ms CPU"


def processor_seconds() -> float:
    """What this process and those it started have used so far."""
    own = psutil.Process()
    running = sum(sum(child.cpu_times()[:2]) for child in own.children(recursive=True))
    return sum(own.cpu_times()[:4]) + running


def timed(name: str, photos: int, work: Callable[[], object]) -> tuple[Stage, object]:
    wall, cpu = time.perf_counter(), processor_seconds()
    result = work()
    stage = Stage(name, photos, time.perf_counter() - wall, processor_seconds() - cpu)
    print(stage, flush=True)
    return stage, result


def main(argv: list[str]) -> int:
    """Measure and print; returns 1 below 85% of the pace that is possible."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench enroll")
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--lfw", type=Path, help="folder that holds lfw_funneled/")
    parser.add_argument("--photos", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, help="as for python -m app.enroll")
    options = parser.parse_args(argv)
    workers, threads = lookers_and_threads(options.workers)
    torch.set_num_threads(1)
    root = lfw_photos(options.lfw)[0].parents[1]
    items = open_source(root, Settings().max_upload_bytes)[: options.photos]
    rounds = []
    for number in range(options.rounds):
        print(f"round {number + 1}", flush=True)
        rounds.append(_round(options.bundle, items, workers, threads))
    *stages, whole = [_median(turns) for turns in zip(*rounds, strict=True)]
    slowest = min(stages, key=lambda stage: stage.rate)
    count = processors()
    bound = count * len(items) / sum(stage.cpu for stage in stages)
    share = whole.rate / slowest.rate
    possible = whole.rate / min(slowest.rate, bound)
    print("median", *stages, whole, sep="\n")
    print(f"{share:.0%} of the pace of {slowest.name!r} alone, with {workers} looking")
    print(f"{count} processors can do all of the work at {bound:.1f} photos/s")
    print(f"{possible:.0%} of the lower of the two")
    paced = _paced(options.bundle, items[0], workers)
    print(f"with stages that only wait: {paced:.0%} of the slowest one's pace")
    return 0 if min(paced, possible) >= 0.85 else 1


def _median(turns: Sequence[Stage]) -> Stage:
    return sorted(turns, key=lambda stage: stage.rate)[len(turns) // 2]


def _round(bundle: Path, items: list[Item], workers: int, threads: int) -> list[Stage]:
    """Every stage alone, then all at once."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data=Path(folder) / "alone", bundle=bundle, audit=False)
        context = Context.open(settings, threads=threads)
        stages = _alone(context, items, workers)
        context.close()
        context = Context.open(replace(settings, data=Path(folder) / "whole"), threads=threads)
        batches = BatchEnroller(context, policy="largest_central", workers=workers).run(items)
        left = len(items) - len(next(batches))
        whole, _ = timed("all at once", left, lambda: list(batches))
        context.close()
    return [*stages, whole]


def _paced(bundle: Path, item: Item, workers: int, count: int = 768) -> float:
    """The pipeline's pace over that of its slowest stage, when stages wait instead of working."""
    look, network = 0.008 * (workers + 1), 0.006
    with tempfile.TemporaryDirectory() as folder:
        context = Context.open(Settings(data=Path(folder) / "data", bundle=bundle, audit=False))
        face = context.pipeline.photo(item.read()).faces[0]
        vectors = context.pipeline.embed([face])

        @contextmanager
        def waiting(*_: object) -> Iterator[Callable]:
            def wait_and_look(data: bytes, file: str) -> DetectedFace | PhotoResult:
                time.sleep(look)
                return face

            yield wait_and_look

        def wait_and_embed(faces: list) -> np.ndarray:
            time.sleep(network * len(faces))
            return np.repeat(vectors, len(faces), axis=0)

        context.pipeline.embed = wait_and_embed
        items = [
            replace(item, file=str(number), read=lambda number=number: str(number).encode())
            for number in range(count)
        ]
        reasons = {"conflict": "a measurement"}
        enroller = BatchEnroller(
            context, policy="largest_central", overrides=reasons, workers=workers, dry_run=True
        )
        with mock.patch("app.batch.enroller.lookers", waiting):
            started = time.perf_counter()
            lines = sum(len(batch) for batch in enroller.run(items))
            seconds = time.perf_counter() - started
        context.close()
    if lines != count:
        raise RuntimeError(f"{lines} of {count} photos came out")
    return max(look / (workers + 1), network) * count / seconds


def _alone(context: Context, items: list[Item], workers: int) -> list[Stage]:
    count = len(items)
    with (
        ThreadPoolExecutor(workers + 1) as pool,
        lookers(context.pipeline, "largest_central", count, workers) as look,
    ):
        # The processes take seconds to start, which is not what a stage is judged by.
        list(pool.map(lambda i: look(i.read(), i.file), items[: 2 * workers]))
        looked, faces = timed(
            "look: read to aligned face",
            count,
            lambda: list(pool.map(lambda i: look(i.read(), i.file), items)),
        )
    found = [face for face in faces if isinstance(face, DetectedFace)]

    def embed() -> list:
        starts = range(0, len(found), BATCH)
        return [v for at in starts for v in context.pipeline.embed(found[at : at + BATCH])]

    network, vectors = timed("embed", count, embed)
    rows = iter(vectors)

    def store() -> None:
        for number, (item, face) in enumerate(zip(items, faces, strict=True)):
            if not isinstance(face, DetectedFace):
                continue
            upload = Upload(item.file, b"")
            photo = enroll_photos.new_photo(context, upload, face, next(rows), f"{number:064x}")
            enroll_photos.store(context, item.name, [enroll_photos.Prepared(upload, photo, face)])

    kept, _ = timed("check and store", count, store)
    return [looked, network, kept]
