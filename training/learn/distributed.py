"""Several processes as one: started by ``torchrun``, absent otherwise."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_nn
from torch import Tensor

from training.errors import UsageError


def start(*, gpu: bool = True) -> None:
    """Join the other processes, if ``torchrun`` started this one.

    Args:
        gpu: Each uses its GPU, where there are any.
    """
    if "RANK" in os.environ and not dist.is_initialized():
        gpu = gpu and torch.cuda.is_available()
        if gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if gpu else "gloo")


def stop() -> None:
    """Leave the group, if there is one."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def world() -> int:
    """How many processes share the work."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def gather(rows: Tensor) -> Tensor:
    """Everyone's rows, in order of rank, with gradients.

    Each process then computes the whole loss. Its gradient arrives at each row once per process,
    which is what DistributedDataParallel's averaging over processes takes back.
    """
    return torch.cat(dist_nn.all_gather(rows)) if world() > 1 else rows


def shard() -> tuple[int, int, dist.ProcessGroup]:
    """This process's part of the proxies, for a loss.

    Raises:
        UsageError: There is one process only.
    """
    if world() == 1:
        raise UsageError("--shard-proxies divides them among processes: start fit with torchrun.")
    return rank(), world(), dist.group.WORLD


def require_equal(step: int) -> None:
    """See that all processes resume at one step.

    Raises:
        UsageError: They do not: the run was killed while checkpoints were written.
    """
    if world() > 1:
        steps: list[int | None] = [None] * world()
        dist.all_gather_object(steps, step)
        if len(set(steps)) > 1:
            raise UsageError(f"The checkpoints of the processes are of steps {steps}: start anew.")
