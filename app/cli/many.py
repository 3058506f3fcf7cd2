"""The commands ``verify-many`` (verify a CSV of pairs) and ``cluster`` (sort photos by person)."""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
from pathlib import Path

from app.cli.exit_codes import WrongUsage
from app.cli.parser import Parser, rate
from app.settings import Settings
from model import wording
from model.errors import BadImage


def add_pairs_arguments(parser: Parser) -> None:
    """Add the options of ``verify-many``."""
    parser.add_argument("pairs", type=Path, metavar="PAIRS.csv", help="two columns: first, second")
    parser.add_argument("--out", type=Path, help="answers; PAIRS-answered.csv without")
    parser.add_argument("--target-fmr", type=rate, help="such as 0.0001: 1 in 10,000 strangers")


def add_cluster_arguments(parser: Parser) -> None:
    """Add the options of ``cluster``."""
    parser.add_argument("photos", type=Path, metavar="PHOTOS", help="a folder of photos")
    parser.add_argument("--out", type=Path, help="where to; PHOTOS-sorted without")
    parser.add_argument("--target-fmr", type=rate, help="such as 0.0001: 1 in 10,000 strangers")


def verify_many(settings: Settings, options: argparse.Namespace) -> int:
    """Verify a CSV of pairs, line by line; a second run resumes where the first one stopped."""
    from app.cli.commands import open_service, read_photo
    from app.usecases.many import COLUMNS, read_pairs

    try:
        pairs = read_pairs(options.pairs)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{options.pairs} cannot be read as pairs: {error}") from error
    out = options.out or options.pairs.with_name(f"{options.pairs.stem}-answered.csv")
    answered = _answered(out)
    left = [each for each in pairs if (each.first, each.second) not in answered]
    counts: dict[str, int] = {}
    folder = options.pairs.parent
    with open_service(settings) as service, out.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not answered:
            writer.writeheader()
        found = service.verify_many(
            left, lambda name: read_photo(folder / name, settings), target_fmr=options.target_fmr
        )
        for done, answer in enumerate(found, 1):
            writer.writerow(answer.row())
            file.flush()
            key = answer.verdict.decision if answer.verdict else answer.error
            counts[key] = counts.get(key, 0) + 1
            print(f"\r{done} of {len(left)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    said = ", ".join(f"{number} {key}" for key, number in sorted(counts.items())) or "nothing new"
    print(f"{wording.plural(len(left), 'pair')}: {said}. The answers are in {out}.")
    return 0


def _answered(out: Path) -> set[tuple[str, str]]:
    if not out.exists():
        return set()
    with out.open(newline="", encoding="utf-8") as file:
        return {(row["first"], row["second"]) for row in csv.DictReader(file)}


def cluster(settings: Settings, options: argparse.Namespace) -> int:
    """Copy the photos of a folder into one folder per person, with a contact sheet."""
    from app.batch.sources import is_photo
    from app.cli.commands import open_service, read_photo
    from app.ui.cards.contact_sheet import contact_sheet

    if not options.photos.is_dir():
        raise BadImage(f"{str(options.photos)!r} is no folder.")
    out = options.out or options.photos.with_name(f"{options.photos.name}-sorted")
    if out.exists() and any(out.iterdir()):
        raise WrongUsage(f"{out} is not empty. Name another folder with --out.")
    files = sorted(file for file in options.photos.rglob("*") if file.is_file() and is_photo(file))
    names = [str(file.relative_to(options.photos)) for file in files]
    with open_service(settings) as service:
        found = service.cluster(
            names, lambda name: read_photo(options.photos / name, settings),
            target_fmr=options.target_fmr,
            progress=lambda stage, done, total: print(f"\r{done} of {total}", end="",
                                                      file=sys.stderr),
        )  # fmt: skip
    print(file=sys.stderr)
    for number, group in enumerate(found.groups, 1):
        place = out / f"person-{number:03d}"
        place.mkdir(parents=True)
        for name in group:
            shutil.copy2(options.photos / name, place / name.replace("/", "_"))
    out.mkdir(exist_ok=True)
    (out / "index.html").write_text(contact_sheet(found), encoding="utf-8")
    people = wording.plural(len(found.groups), "person", "people")
    print(f"{wording.plural(len(names), 'photo')}: {people}, {len(found.failed)} without one face "
          f"to go by. See {out / 'index.html'}.")  # fmt: skip
    return 0
