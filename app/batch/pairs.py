"""Many pairs of photos: the lists that name them, and the file of their answers."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import KeysView, Sequence
from pathlib import Path

from app.batch import csv_file
from app.batch.photo_files import is_photo
from app.batch.sources import BadSource
from app.usecases.many import COLUMNS, Pair, PairAnswer


def read_pairs(file: Path) -> list[Pair]:
    """Read pairs from a CSV file."""
    try:
        return parse_pairs(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise BadSource(f"{file} cannot be read as pairs: {error}") from error


def parse_pairs(text: str) -> list[Pair]:
    """Return the pairs of a CSV with two columns, with or without a header line."""
    try:
        lines = csv.reader(io.StringIO(text, newline=""))
        rows = [row for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise BadSource(f"The list of pairs cannot be read: {error}.") from error
    if rows and [cell.strip().lower() for cell in rows[0][:2]] == ["first", "second"]:
        rows = rows[1:]
    for number, row in enumerate(rows, 1):
        if len(row) < 2:
            raise BadSource(f"Pair {number} has one column; it needs the names of two photos.")
    if not rows:
        raise BadSource("The list holds no pairs. Each line names two photos: first,second.")
    return [Pair(row[0].strip(), row[1].strip()) for row in rows]


def folder_pairs(first: Path, second: Path) -> tuple[list[Pair], list[str]]:
    """Return pairs of photos of one name in two folders, and the names in one folder only."""
    names = [_photos(folder) for folder in (first, second)]
    pairs = [Pair(str(first / name), str(second / name)) for name in names[0] if name in names[1]]
    if not pairs:
        raise BadSource(f"No photo of {first} has the name of a photo of {second}.")
    return pairs, sorted(names[0] ^ names[1])


def _photos(folder: Path) -> KeysView[str]:
    if not folder.is_dir():
        raise BadSource(f"{str(folder)!r} is no folder.")
    inside = (file.relative_to(folder) for file in sorted(folder.rglob("*")) if file.is_file())
    return dict.fromkeys(str(path) for path in inside if is_photo(path)).keys()


class AnswersFile:
    """A CSV with one line per pair; a run that was interrupted goes on after its last whole line.

    Args:
        path: The file; a last line that a crash cut short is removed.

    Raises:
        BadSource: It is something else, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        header = csv_file.text_of([], COLUMNS, header=True).encode()
        try:
            csv_file.append(path, "")
            whole = path.read_bytes()
            if whole[: len(header)] != header[: len(whole)]:
                raise BadSource(f"{path} holds no answers of pairs. Name another file with --out.")
            kept = csv_file.whole_lines(whole)
            csv_file.cut(path, len(kept))
            if not kept:
                csv_file.append(path, header.decode())
            self.rows = csv_file.rows_of(kept.decode())
        except (OSError, UnicodeDecodeError) as error:
            raise BadSource(f"{path} cannot be used: {error}. Name another with --out.") from error

    def unanswered(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Return the pairs without an answer; a pair listed twice needs two."""
        done = Counter((row["first"], row["second"]) for row in self.rows)
        listed: Counter[tuple[str, str]] = Counter()
        left = []
        for pair in pairs:
            key = pair.first, pair.second
            listed[key] += 1
            if listed[key] > done[key]:
                left.append(pair)
        return left

    def add(self, answer: PairAnswer) -> None:
        """Append an answer; it is on disk when this returns."""
        csv_file.append(self.path, csv_file.text_of([answer.row()], COLUMNS, header=False))
        self.rows.append(answer.row())
