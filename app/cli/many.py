"""The commands ``verify-many`` (verify a CSV of pairs) and ``cluster`` (sort photos by person)."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from app.batch.photo_files import file_reader, is_photo
from app.cli.exit_codes import WrongUsage
from app.cli.parser import Parser
from app.settings import Settings
from model import wording
from model.arguments import rate
from model.errors import BadImage


def add_pairs_arguments(parser: Parser) -> None:
    parser.description = (
        "Verify the pairs of a CSV, or the photos of two folders that have the same names. The "
        "same command goes on after an interruption."
    )
    parser.add_argument(
        "pairs",
        type=Path,
        metavar="PAIRS.csv|FOLDER",
        help="a CSV with two columns, first and second, or the first folder",
    )
    parser.add_argument("second", type=Path, nargs="?", metavar="FOLDER", help="the second folder")
    parser.add_argument("--out", type=Path, help="answers (default: PAIRS-answered.csv)")
    parser.add_argument("--target-fmr", type=rate, help="such as 0.0001: 1 in 10,000 strangers")
    parser.add_argument("--report", type=Path, metavar="OUT.html", help="also write a report")
    parser.add_argument("--note", default="", help="words to put into the report")


def add_cluster_arguments(parser: Parser) -> None:
    parser.add_argument("photos", type=Path, metavar="PHOTOS", help="a folder of photos")
    parser.add_argument("--out", type=Path, help="where to; PHOTOS-sorted without")
    parser.add_argument("--target-fmr", type=rate, help="such as 0.0001: 1 in 10,000 strangers")


def verify_many(settings: Settings, options: argparse.Namespace) -> int:
    """Verify pairs, line by line; a second run resumes where the first one stopped."""
    from app.batch import pairs as listed
    from app.cli.commands import open_service, read_photo

    first, second, alone = options.pairs, options.second, []
    if second is None:
        pairs = listed.read_pairs(first)
    else:
        pairs, alone = listed.folder_pairs(first, second)

    def read(name: str) -> bytes:
        if second is not None:
            return read_photo(Path(name), settings)
        # A list may come from somebody else, so it cannot name photos outside its folder.
        place = first.parent
        return file_reader(place / name, settings.max_upload_bytes, within=place)()

    name = f"{first.stem}-{second.name}" if second else first.stem
    answers = listed.AnswersFile(options.out or first.with_name(f"{name}-answered.csv"))
    left = answers.unanswered(pairs)
    with open_service(settings) as service:
        found = service.verify_many(left, read, target_fmr=options.target_fmr)
        for done, answer in enumerate(found, 1):
            answers.add(answer)
            print(f"\r{done} of {len(left)}", end="", file=sys.stderr)
        if options.report:
            from app.ui.cards import report

            made = report.pairs(answers.rows, service, options.target_fmr, note=options.note)
            options.report.write_text(made, encoding="utf-8")
    print(file=sys.stderr)
    if alone:
        names = ", ".join(alone[:5]) + (", …" if len(alone) > 5 else "")
        print(f"{wording.plural(len(alone), 'photo')} in one folder only: {names}")
    said = wording.pair_counts([row["decision"] or None for row in answers.rows])
    print(f"{wording.plural(len(answers.rows), 'pair')}. {said}. Answers: {answers.path}")
    return 0


def cluster(settings: Settings, options: argparse.Namespace) -> int:
    """Copy the photos of a folder into one folder per person, with a contact sheet."""
    from app.cli.commands import open_service, read_photo
    from app.ui.cards.report import contact_sheet

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
