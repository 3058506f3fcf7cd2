"""A progress bar for pairs."""

from __future__ import annotations

from tqdm import tqdm


class PairBar:
    """A progress bar that takes the number of pairs done and the total."""

    def __init__(self, name: str) -> None:
        self.bar = tqdm(desc=name, unit="pair", unit_scale=True)

    def __enter__(self) -> PairBar:
        return self

    def show(self, done: int, total: int) -> None:
        self.bar.total = total
        self.bar.update(done - self.bar.n)

    def __exit__(self, *_: object) -> None:
        self.bar.close()
