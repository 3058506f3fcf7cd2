"""CSV files that grow line by line: safe in a spreadsheet, and whole again after a crash."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from app.documents import private

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""First characters of cells that a spreadsheet may run as a formula, and the quote that escapes
them."""


Cell = str | float


def text_of(rows: Iterable[Mapping[str, Cell]], columns: Sequence[str], *, header: bool) -> str:
    """Return rows as CSV in which no text is a formula."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, columns, lineterminator="\n")
    if header:
        table.writeheader()
    table.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def rows_of(text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV that :func:`text_of` made."""
    table = csv.DictReader(io.StringIO(text, newline=""))
    return [{name: _unescaped(value) for name, value in row.items()} for row in table]


def whole_lines(data: bytes) -> bytes:
    """Return a CSV without its last line if a crash cut that line short."""
    kept = data[: data.rfind(b"\n") + 1]
    # A line break within quotes, which then are not closed, ends no line.
    while kept.count(b'"') % 2:
        kept = kept[: kept.rfind(b"\n", 0, -1) + 1]
    return kept


def append(path: Path, text: str) -> None:
    """Append text to a file that only its owner can read; it is on disk when this returns."""
    with open(path, "ab", opener=_owner_only) as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def cut(path: Path, length: int) -> None:
    with path.open("r+b") as file:
        file.truncate(length)


def _cell(value: Cell) -> Cell:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _unescaped(cell: str) -> str:
    return cell[1:] if isinstance(cell, str) and cell.startswith("'") else cell


def _owner_only(path: str, flags: int) -> int:
    """An opener for files with names and paths of people's photos."""
    descriptor = private(path, flags)
    os.fchmod(descriptor, 0o600)
    return descriptor
