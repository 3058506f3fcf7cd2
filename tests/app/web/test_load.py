"""64 clients at once: no error, no cross-talk, memory that stays flat."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

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


def run(folder: Path, bundle: Path, photos: Photos, clients: int, seconds: float) -> load.Tally:
    environment = {"FACE_RATE_PER_MINUTE": "0"}
    with serving(folder / "data", bundle, environment=environment) as address:
        warm = asyncio.run(load.run(address, photos, clients=8, seconds=2))
        before = memory(address)
        tally = asyncio.run(load.run(address, photos, clients=clients, seconds=seconds))
        grown = memory(address) - before
    print(f"\n{clients} clients, {tally.answered} answers, {tally.turned_away} turned away, "
          f"memory {before:.0f} MB and {grown:+.0f} MB", *tally.lines(), sep="\n")  # fmt: skip
    assert not warm.wrong
    assert not tally.wrong, tally.wrong[:5]
    assert {"verify", "enroll", "search", "person", "forget"} <= set(load.kinds(tally))
    assert grown < 300
    return tally


def test_a_few_seconds(tmp_path: Path, bundle_folder: Path, photos: Photos) -> None:
    run(tmp_path, bundle_folder, photos, clients=16, seconds=4)


@pytest.mark.slow
def test_sixty_four_clients_for_a_minute(
    tmp_path: Path, bundle_folder: Path, photos: Photos
) -> None:
    tally = run(tmp_path, bundle_folder, photos, clients=64, seconds=60)
    # More clients than places: some are turned away, and all are served in the end.
    assert tally.turned_away > 0
