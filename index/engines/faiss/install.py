"""The installed FAISS: its build, its GPUs, and what fits into their memory."""

from __future__ import annotations

import importlib.metadata
import logging
import re
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import Literal

from model.errors import IndexUnavailable

log = logging.getLogger(__name__)

GpuKind = Literal["gpu-flat", "gpu-ivf"]

_WORKSPACE = 1.25
"""Memory of a GPU index relative to its vectors; the rest is for faiss's buffers."""


def installed_builds(names: Iterable[str] | None = None) -> list[str]:
    """Lists the faiss distributions of this environment, sorted.

    Args:
        names: Distribution names to search; None for all installed ones.
    """
    if names is None:
        names = (dist.metadata["Name"] or "" for dist in importlib.metadata.distributions())
    plain = {re.sub(r"[-_.]+", "-", name).lower() for name in names}
    return sorted(name for name in plain if re.fullmatch(r"faiss-(cpu|gpu(-.+)?)", name))


def check_builds(builds: list[str]) -> None:
    """Rejects an environment with two faiss builds, which overwrite each other's files."""
    if len(builds) > 1:
        keep = next(name for name in builds if name != "faiss-cpu")
        raise IndexUnavailable(
            f"{' and '.join(builds)} are installed together; they share files and break each "
            f"other silently. Repair with: pip uninstall -y {' '.join(builds)} && "
            f"pip install {keep} (or faiss-cpu on a machine without a GPU). Milvus Lite brings "
            "faiss-cpu along: give it an environment of its own.",
            builds=builds,
        )


@lru_cache(maxsize=1)
def load_faiss() -> ModuleType:
    """Imports faiss after checking the installation.

    Raises:
        IndexUnavailable: If it is missing or two builds are installed.
    """
    check_builds(installed_builds())
    # faiss logs each processor variant that its build lacks as an import error.
    logging.getLogger("faiss.loader").setLevel(logging.WARNING)
    try:
        import faiss
    except ImportError as error:
        raise IndexUnavailable(
            f"faiss cannot be imported ({error}). Install it with: pip install faiss-cpu"
        ) from error
    return faiss


def gpu_count() -> int:
    """Number of GPUs that faiss can use; 0 for a CPU build or a machine without a GPU."""
    faiss = load_faiss()
    return faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else 0


def free_gpu_memory() -> list[int]:
    """Free bytes of each GPU, from the driver; empty if unknown."""
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return [int(line) << 20 for line in output.stdout.split("\n") if line.strip()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def plan_gpu(count: int, dimension: int, free: list[int], budget: float) -> GpuKind | None:
    """Chooses the index type that fits on the GPUs, with the vectors split evenly.

    Args:
        free: Free bytes of each GPU.
        budget: Largest fraction of the free memory to use, in ``(0, 1]``.

    Returns:
        ``gpu-flat`` (exact, 2 bytes per dimension), ``gpu-ivf`` (clustered, 1 byte per dimension,
        re-ranked exactly on the CPU), or None if neither fits.
    """
    if not 0 < budget <= 1:
        raise ValueError(f"budget must be in (0, 1], got {budget}")
    if not free:
        return None
    room = min(free) * budget * len(free) / _WORKSPACE
    if count * dimension * 2 <= room:
        return "gpu-flat"
    if count * (dimension + 8) <= room:
        return "gpu-ivf"
    return None
