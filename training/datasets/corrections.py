"""Label corrections for a dataset, applied before measuring error rates.

Even well-known datasets have one person under two names, duplicate photos and photos filed under
the wrong person. Each counts as an error of the model, and a few are enough to distort low error
rates. The corrections are kept in a CSV file, so that a reader can check every one.
"""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.datasets.table import DatasetError, Table


@dataclass(frozen=True, eq=False)
class Corrected:
    """Corrected labels of a dataset.

    Attributes:
        labels: int64 ``(N,)``, indices into the names of the table.
        kept: bool ``(N,)``, False for photos left out.
        moved: bool ``(N,)``, True for photos given to another person.
        source: Name and hash of the corrections file.
    """

    labels: np.ndarray
    kept: np.ndarray
    moved: np.ndarray
    source: str

    def in_words(self, rows: np.ndarray) -> str:
        """The number of corrections among ``rows``, as text for the calibration record."""
        return (
            f"by {self.source}, photos given to another person: {self.moved[rows].sum():,}, "
            f"left out: {(~self.kept[rows]).sum():,}"
        )


def corrected(table: Table, file: Path) -> Corrected:
    """Apply label corrections.

    Args:
        table: Photos, one folder per person.
        file: CSV with two columns. ``name`` is a person (folder) or a photo (folder/file).
            ``person`` is the correct person (a folder), or empty to leave the photos out.
            An entry for a photo overrides one for its folder.

    Raises:
        DatasetError: The file is malformed, or names someone who is not in the dataset.
    """
    given = _read(file)
    number = {name: label for label, name in enumerate(table.names)}
    for name, person in given.items():
        if person and person not in number:
            raise DatasetError(f"{file} names the person {person!r}, who is not in {table.name}.")
        if person in given and not name.startswith(f"{person}/"):
            raise DatasetError(f"{file} corrects {person!r} and also uses it as a correct name.")
    labels, kept, unused = table.labels.copy(), np.ones(len(table), bool), set(given)
    for row, path in enumerate(table.paths):
        person = table.names[table.labels[row]]
        photo = f"{person}/{path.name}"
        right = given.get(photo, given.get(person, person))
        kept[row] = bool(right)
        labels[row] = number.get(right, labels[row])
        unused -= {person, photo}
    if unused:
        raise DatasetError(f"{file} corrects {min(unused)!r}, which is not in {table.name}.")
    moved = labels != table.labels
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    return Corrected(labels, kept, moved, f"{file.name} ({digest})")


def _read(file: Path) -> dict[str, str]:
    if not file.is_file():
        raise DatasetError(f"There is no file {file}. Corrections are a CSV with name,person.")
    try:
        lines = csv.reader(io.StringIO(file.read_text(encoding="utf-8-sig"), newline=""))
        head = [column.strip() for column in next(lines, [])]
        rows = [(lines.line_num, row) for row in lines if any(row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{file} is not a CSV file in UTF-8: {error}.") from None
    if not {"name", "person"} <= set(head):
        raise DatasetError(f"{file} needs the columns name and person in its first line.")
    given: dict[str, str] = {}
    for number, row in rows:
        if len(row) != len(head):
            raise DatasetError(f"{file} has {len(row)} of {len(head)} columns in line {number}.")
        name, person = (row[head.index(column)].strip() for column in ("name", "person"))
        if not name or name in given:
            problem = f"names {name!r} twice" if name else "has no name"
            raise DatasetError(f"{file} {problem} in line {number}.")
        given[name] = person
    return given
