"""The report of a batch enrollment: one line a photo, written as it goes.

It is also what a run continues from: a photo that has its line is not looked at again.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from app.sources import BadSource


@dataclass(frozen=True)
class Line:
    """What became of one photo.

    Attributes:
        file: How the source calls it.
        name: The person.
        status: ``accepted``, ``already`` (this very photo is stored for this person), or why not.
        message: The same as a sentence.
        person_id: Where it went.
        photo_id: Its id, when accepted.
        quality: 0 to 1; empty when no face was chosen.
    """

    file: str
    name: str
    status: str
    message: str
    person_id: str = ""
    photo_id: str = ""
    quality: str = ""


COLUMNS = [column.name for column in fields(Line)]


class Report:
    """A CSV file (``.csv``) or JSON lines (``.jsonl``), only ever appended to.

    Args:
        path: Where it is; an unfinished last line, left by a crash, is taken away.

    Raises:
        BadSource: The file is of another kind or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in (".csv", ".jsonl"):
            raise BadSource(f"The report {path.name!r} must end in .csv or .jsonl.")
        self.path = path
        self._csv = path.suffix.lower() == ".csv"
        self.lines = {line.file: line for line in self._read()}

    def add(self, lines: Iterable[Line]) -> None:
        """Append lines; they are on disk when this returns."""
        new = list(lines)
        text = io.StringIO(newline="")
        if self._csv:
            table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            if not self.path.exists() or not self.path.stat().st_size:
                table.writeheader()
            table.writerows(map(asdict, new))
        else:
            text.writelines(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in new)
        with self.path.open("ab") as file:
            file.write(text.getvalue().encode())
            file.flush()
            os.fsync(file.fileno())
        self.lines.update({line.file: line for line in new})

    def counts(self) -> dict[str, int]:
        """Photos by status, most frequent first."""
        found: dict[str, int] = {}
        for line in self.lines.values():
            found[line.status] = found.get(line.status, 0) + 1
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _read(self) -> list[Line]:
        if not self.path.exists():
            return []
        whole = self.path.read_bytes()
        kept = whole[: whole.rfind(b"\n") + 1]
        if len(kept) < len(whole):
            self._cut(len(kept))
        try:
            text = kept.decode()
            if not self._csv:
                return [Line(**json.loads(line)) for line in text.split("\n") if line]
            table = csv.DictReader(io.StringIO(text, newline=""))
            if kept and table.fieldnames != COLUMNS:
                raise ValueError(f"its columns are {table.fieldnames}")
            return [Line(**row) for row in table]
        except (ValueError, TypeError) as error:
            raise BadSource(
                f"{self.path} is not a report of an enrollment ({error}). Name another file with "
                "--report."
            ) from error

    def _cut(self, length: int) -> None:
        with self.path.open("r+b") as file:
            file.truncate(length)
