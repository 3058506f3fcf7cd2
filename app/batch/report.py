"""The report of a batch enrollment: one line per photo, written during the run.

An interrupted run resumes from its report; see :mod:`app.batch.resume`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from app.batch import csv_file
from app.batch.photo_files import printable
from app.batch.sources import BadSource, Key

STORED = ("accepted", "already")


@dataclass(frozen=True)
class Line:
    """The result of one photo.

    Attributes:
        status: ``accepted``, ``already`` (the same photo is stored for this person), or why not.
        message: The same as a sentence.
        photo_id: Its id in the gallery, if it is stored.
        quality: 0 to 1; empty if no face was chosen.
    """

    file: str
    name: str
    status: str
    message: str
    person_id: str = ""
    photo_id: str = ""
    quality: str = ""

    @property
    def key(self) -> Key:
        return self.file, self.name

    @property
    def stored(self) -> bool:
        return self.status in STORED


COLUMNS = [*(column.name for column in fields(Line)), "source"]


class Report:
    """A CSV file (``.csv``) or JSON lines (``.jsonl``); lines are appended as they come.

    Args:
        path: The report file; an incomplete last line, left by a crash, is removed.
        source: The source being enrolled; a report belongs to one source.

    Raises:
        BadSource: The file is not a report, is for another source, or cannot be read or written.
    """

    def __init__(self, path: Path, source: Path) -> None:
        if path.suffix.lower() not in (".csv", ".jsonl"):
            raise BadSource(f"The report {path.name!r} must end in .csv or .jsonl.")
        self.path = path
        self._source = printable(str(source.resolve()))
        self._csv = path.suffix.lower() == ".csv"
        try:
            # Fail now, not after the first photos are stored.
            csv_file.append(path, "")
            self.lines = {line.key: line for line in self._read()}
        except OSError as error:
            raise BadSource(
                f"The report {path} cannot be written: {error.strerror}. Name another file with "
                "--report."
            ) from error

    def add(self, lines: Iterable[Line]) -> None:
        """Append lines; they are on disk when this returns."""
        new = list(lines)
        csv_file.append(self.path, self._text(new, header=not self.path.stat().st_size))
        self.lines.update({line.key: line for line in new})

    def keep(self, keys: Collection[Key]) -> None:
        kept = {key: line for key, line in self.lines.items() if key in keys}
        if len(kept) == len(self.lines):
            return
        new = self.path.with_name(f"{self.path.name}.new")
        new.unlink(missing_ok=True)
        csv_file.append(new, self._text(kept.values(), header=True))
        new.replace(self.path)
        self.lines = kept

    def counts(self, keys: Iterable[Key]) -> dict[str, int]:
        """Count photos by status, most frequent first; ``keys`` without a line are skipped."""
        found = Counter(self.lines[key].status for key in set(keys) if key in self.lines)
        return dict(found.most_common())

    def _text(self, lines: Iterable[Line], *, header: bool) -> str:
        rows = [{**asdict(line), "source": self._source} for line in lines]
        if self._csv:
            return csv_file.text_of(rows, COLUMNS, header=header)
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def _read(self) -> list[Line]:
        whole = self.path.read_bytes()
        kept = csv_file.whole_lines(whole) if self._csv else whole[: whole.rfind(b"\n") + 1]
        try:
            self._check_beginning(whole)
            lines = [self._line(row) for row in self._rows(kept.decode())]
        except (ValueError, TypeError) as error:
            raise BadSource(
                f"{self.path} is not a report of an enrollment ({error}). Name another file with "
                "--report."
            ) from error
        if len(kept) < len(whole):
            csv_file.cut(self.path, len(kept))
        return lines

    def _check_beginning(self, whole: bytes) -> None:
        """Refuse any file that is not a report, even a short one, so that it is never changed."""
        beginning = self._text([], header=True).encode() if self._csv else b'{"file": "'
        if whole[: len(beginning)] != beginning[: len(whole)]:
            raise ValueError(f"it begins with {whole[:60].decode(errors='replace')!r}")

    def _rows(self, text: str) -> list[dict[str, str]]:
        if not self._csv:
            return [json.loads(line) for line in text.split("\n") if line]
        return csv_file.rows_of(text)

    def _line(self, row: dict[str, str]) -> Line:
        source = row.pop("source", None)
        line = Line(**row)
        if source != self._source:
            raise BadSource(
                f"{self.path} is the report of {source}, not of {self._source}. Name another "
                "file with --report."
            )
        return line
