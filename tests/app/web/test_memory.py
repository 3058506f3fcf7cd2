"""A process gives the memory of large photos back."""

from __future__ import annotations

import subprocess
import sys

from tests.paths import ROOT

GROWS = """
import threading, sys, time
import psutil
import app.web.memory as memory
memory.TRIM_SECONDS = 0.2
stop = threading.Event()
if sys.argv[1] == "bounded":
    memory.bound_memory(stop)
size = psutil.Process().memory_info
before = size().rss

def work():
    kept = [bytearray(100_000) for _ in range(3000)]
    last = [bytearray(100) for _ in range(100)]
    del kept
    return last

threads, left = [], []
for _ in range(4):
    threads.append(threading.Thread(target=lambda: left.append(work())))
    threads[-1].start()
for thread in threads:
    thread.join()
time.sleep(1.5)
print((size().rss - before) // 2**20)
"""


def grown(how: str) -> int:
    """Megabytes a process keeps after four threads each used 300 and freed them."""
    done = subprocess.run(
        [sys.executable, "-c", GROWS, how], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_memory_of_large_photos_is_given_back() -> None:
    assert grown("bounded") < 20
