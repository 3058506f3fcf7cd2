"""Photos as people have them: framing, size, roll, second faces, and few people's thresholds."""

from tests.bench.photos.command import main

__all__ = ["main"]
