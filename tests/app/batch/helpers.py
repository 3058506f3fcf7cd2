"""Run batch enrollment as the command line does, and read what it reports."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.batch import detect_workers, enroller
from app.batch.sources import Item
from app.cli import enroll
from app.settings import Settings


def rows(report: Path) -> dict[str, dict[str, str]]:
    with report.open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def filled(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def run(settings: Settings, *arguments: object) -> int:
    return enroll.main(
        ["--data", str(settings.data), "--bundle", str(settings.bundle), "--quiet",
         *map(str, arguments)]
    )  # fmt: skip


def statuses(report: Path) -> dict[str, str]:
    return {file: row["status"] for file, row in rows(report).items()}


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files a run looks at, once they are."""
    files: list[str] = []
    original = enroller.BatchEnroller._look

    def watched(self: enroller.BatchEnroller, item: Item, look: detect_workers.Look) -> object:
        files.append(item.file)
        return original(self, item, look)

    monkeypatch.setattr(enroller.BatchEnroller, "_look", watched)
    return files
