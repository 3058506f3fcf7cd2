"""Distributed training with ``torchrun``; one process otherwise."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_nn
from torch import Tensor

from training.errors import UsageError


def start(*, gpu: bool = True) -> None:
    """Join the process group, if ``torchrun`` started this process."""
    if "RANK" in os.environ and not dist.is_initialized():
        gpu = gpu and torch.cuda.is_available()
        if gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if gpu else "gloo")


def stop() -> None:
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Index of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def gather(rows: Tensor) -> Tensor:
    """The rows of all processes in order of rank, with gradients.

    Each process then computes the loss of the whole batch, so each row gets its gradient once per
    process. DistributedDataParallel averages over processes, which cancels this factor.
    """
    return torch.cat(dist_nn.all_gather(rows)) if world() > 1 else rows


def shard() -> tuple[int, int, dist.ProcessGroup]:
    """``(rank, world, group)`` for a loss with sharded proxies.

    Raises:
        UsageError: There is only one process.
    """
    group = dist.group.WORLD
    if group is None or world() == 1:
        raise UsageError("--shard-proxies needs several processes: start fit with torchrun.")
    return rank(), world(), group


def require_equal(step: int) -> None:
    """Check that all processes resume at the same step.

    Raises:
        UsageError: They do not; the run was killed while writing checkpoints.
    """
    if world() > 1:
        steps: list[int | None] = [None] * world()
        dist.all_gather_object(steps, step)
        if len(set(steps)) > 1:
            raise UsageError(
                f"The processes have checkpoints of different steps {steps}: start again."
            )
