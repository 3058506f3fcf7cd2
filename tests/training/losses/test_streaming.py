"""Proxies in chunks and in shards: the same loss and gradients as in one piece."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.paths import ROOT
from training.losses import build, streaming


@pytest.mark.parametrize("name", ["pd", "cllr"])
def test_chunks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for elements in (1, 9 * 37, 1 << 22):
        monkeypatch.setattr(streaming, "CHUNK_ELEMENTS", elements)
        torch.manual_seed(0)
        loss, labels = build(name, 50, 16), torch.randint(50, (21,))
        embeddings = (torch.randn(21, 16) + loss.proxies.detach()[labels]).requires_grad_()
        value = loss(embeddings, labels)
        value.backward()
        results.append((value.detach(), embeddings.grad, loss.proxies.grad))
    for result in results[:-1]:
        torch.testing.assert_close(result, results[-1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["pd", "cllr"])
@pytest.mark.parametrize("label", [-1, 5])
@pytest.mark.parametrize("chunk_elements", [1, 1 << 22])
def test_label_without_a_proxy_is_an_error_however_many_chunks(
    name: str, label: int, chunk_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "CHUNK_ELEMENTS", chunk_elements)
    loss = build(name, 5, 4)
    with pytest.raises(ValueError, match=r"they must be in 0\.\.4"):
        loss(torch.randn(2, 4), torch.tensor([0, label]))


SHARDED = """
import os
import sys, torch, torch.distributed as dist
from training.losses import LOSSES
rank, world, store, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
torch.manual_seed(0)
proxies, z = torch.randn(11, 16), torch.randn(9, 16, requires_grad=True)
labels = torch.tensor([0, 3, 3, 10, 5, 5, 7, 1, 9])
z.data += proxies[labels]
found = {}
for name in ("pd", "cllr"):
    loss = LOSSES[name](11, 16, shard=(rank, world, dist.group.WORLD))
    rows = slice(loss.offset, loss.offset + len(loss.proxies))
    loss.proxies.data.copy_(proxies[rows])
    z.grad = None
    value = loss(z, labels)
    value.backward()
    found[name] = {"value": value.detach(), "z": z.grad, "p": loss.proxies.grad}
torch.save(found, f"{out}/{rank}.pt")
dist.barrier()
dist.destroy_process_group()
# gloo's threads now and then abort a process that is already done, while the interpreter ends.
os._exit(0)
"""


def test_proxies_sharded_over_two_processes_equal_one(tmp_path: Path) -> None:
    for world in (1, 2):
        folder = tmp_path / str(world)
        folder.mkdir()
        command = [sys.executable, "-c", SHARDED]
        processes = [
            subprocess.Popen(
                [*command, str(rank), str(world), str(folder / "store"), str(folder)],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(world)
        ]
        assert [process.wait(timeout=400) for process in processes] == [0] * world
    one = torch.load(tmp_path / "1/0.pt", weights_only=True)
    parts = [torch.load(tmp_path / f"2/{rank}.pt", weights_only=True) for rank in range(2)]
    for name in one:
        torch.testing.assert_close(
            torch.cat([part[name]["p"] for part in parts]), one[name]["p"], rtol=1e-5, atol=1e-6
        )
        for part in parts:
            torch.testing.assert_close(
                part[name]["value"], one[name]["value"], rtol=1e-6, atol=1e-6
            )
            torch.testing.assert_close(part[name]["z"], one[name]["z"], rtol=1e-5, atol=1e-6)
