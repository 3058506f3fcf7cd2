"""Many clients at once: no error, no cross-talk, memory that stays flat."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from model.bundle import DEFAULT
from tests.app.helpers import Photos
from tests.app.web import load
from tests.app.web.test_server import serving


def memory(address: str) -> float:
    """Resident memory in MB of whoever listens at the address."""
    port = int(address.rpartition(":")[2])
    for process in psutil.Process().children(recursive=True):
        if any(each.laddr.port == port for each in process.net_connections("tcp")):
            return process.memory_info().rss / 1e6
    raise AssertionError(f"nobody listens on {port}")


def run(
    folder: Path, bundle: Path, photos: Photos, *, clients: int, warm: float, seconds: float
) -> tuple[load.Tally, float, float]:
    """What the clients saw, and the server's memory in MB after the warm-up and at the end."""
    environment = {"FACE_RATE_PER_MINUTE": "0"}
    with serving(folder / "data", bundle, environment=environment) as address:
        first = asyncio.run(load.run(address, photos, clients=clients, seconds=warm))
        before = memory(address)
        tally = asyncio.run(load.run(address, photos, clients=clients, seconds=seconds))
        after = memory(address)
    print(f"\n{clients} clients, {tally.answered} answers, {tally.turned_away} turned away, "
          f"memory {before:.0f} MB, then {after:.0f} MB", *tally.lines(), sep="\n")  # fmt: skip
    assert not first.wrong, first.wrong[:5]
    assert not tally.wrong, tally.wrong[:5]
    assert {"verify", "enroll", "search", "person", "forget"} <= set(load.kinds(tally))
    return tally, before, after


def test_a_few_seconds(tmp_path: Path, bundle_folder: Path, photos: Photos) -> None:
    _, before, after = run(tmp_path, bundle_folder, photos, clients=16, warm=2, seconds=4)
    assert after < before + 300


@pytest.mark.slow
def test_sixty_four_clients_for_ten_minutes(tmp_path: Path, photos: Photos) -> None:
    """With the shipped model; memory is held against its value after the first minute."""
    tally, before, after = run(tmp_path, DEFAULT, photos, clients=64, warm=60, seconds=540)
    # More clients than places: some are turned away, and all are served in the end.
    assert tally.turned_away > 0
    assert after < before * 1.15
