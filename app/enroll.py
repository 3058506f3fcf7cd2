"""``python -m app.enroll SOURCE``: enroll a folder, a CSV or a zip of photos.

Exit codes: 0 every photo is stored, 1 some are not (the report says why), 3 and above as for
``python -m app``, 130 interrupted: the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from app import exits
from app.cli import Parser, common_options, positive, settings_of
from app.report import Report
from app.results import OVERRIDABLE
from app.settings import Settings
from app.sources import Item, open_source
from model.errors import FaceError

STORED = ("accepted", "already")


def main(arguments: list[str]) -> int:
    """Run one enrollment; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.accept and not options.reason:
        parser.error("--accept needs a --reason")
    try:
        return run(settings_of(options), options)
    except FaceError as error:
        print(error.message, file=sys.stderr)
        return exits.code_of(error)
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on from here.", file=sys.stderr)
        return exits.INTERRUPTED


def run(settings: Settings, options: argparse.Namespace) -> int:
    """Enroll everything that has no line in the report yet."""
    report = Report(options.report or _default_report(options.source, options.dry_run))
    items = open_source(options.source, settings.max_upload_bytes)
    left = [item for item in items if item.file not in report.lines]
    if len(left) < len(items):
        print(f"{len(items) - len(left)} of {len(items)} photos are in {report.path} already.")
    if left:
        started = time.perf_counter()
        _enroll(settings, options, report, left)
        seconds = time.perf_counter() - started
        print(f"{len(left)} photos in {seconds:.0f} s, {len(left) / seconds:.1f} photos/s.")
    wanted = {item.file for item in items}
    unstored = sum(
        line.status not in STORED for file, line in report.lines.items() if file in wanted
    )
    for status, count in report.counts().items():
        print(f"{count:>8} {status}")
    print(f"Report: {report.path}")
    return 1 if unstored else 0


def _enroll(
    settings: Settings, options: argparse.Namespace, report: Report, items: list[Item]
) -> None:
    import torch
    from tqdm import tqdm

    from app.batch import BatchEnroller, lookers_and_threads
    from app.service import FaceService

    workers, threads = lookers_and_threads(options.workers)
    service = FaceService.open(settings, threads=threads)
    # Each worker has its own photo to look at; more threads for one photo only get in the way.
    torch.set_num_threads(1)
    enroller = BatchEnroller(
        service.core,
        policy=options.faces,
        overrides=dict.fromkeys(options.accept, options.reason),
        dry_run=options.dry_run,
        workers=workers,
    )
    try:
        with tqdm(total=len(items), unit="photo", disable=options.quiet) as bar:
            for lines in enroller.run(items):
                report.add(lines)
                bar.update(len(lines))
    finally:
        if not options.dry_run:
            service.audit.write("local", "batch_enroll", photos=report.counts())
        service.close()


def _default_report(source: Path, dry_run: bool) -> Path:
    name = source.resolve().stem or "photos"
    return Path(f"{name}.{'dry-run' if dry_run else 'enrolled'}.csv")


def _parser() -> Parser:
    parser = Parser(
        prog="python -m app.enroll",
        description="Enroll many photos: a folder (person/photo.jpg or Person_0001.jpg), a CSV "
        "(name,path[,consent,...]) or a zip of a folder.",
        epilog="exit codes: 0 all stored, 1 some are not, 3 and above errors, 130 interrupted",
        parents=[common_options()],
    )
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument(
        "--report",
        type=Path,
        help="a line for each photo, .csv or .jsonl; a run goes on from it (default: "
        "SOURCE.enrolled.csv in the current folder)",
    )
    parser.add_argument("--dry-run", action="store_true", help="look at everything, store nothing")
    parser.add_argument(
        "--faces",
        choices=("exactly_one", "largest_central"),
        default="exactly_one",
        help="photos with several faces: refuse them, or take the largest and most central",
    )
    parser.add_argument(
        "--accept",
        action="append",
        choices=OVERRIDABLE,
        default=[],
        help="store such photos all the same (may be repeated; needs --reason)",
    )
    parser.add_argument("--reason", default="", help="why --accept is right here")
    parser.add_argument("--workers", type=positive, help="photos looked at at a time")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
