"""``python -m app enroll SOURCE``: enroll a folder, a CSV or a zip of photos.

Exit codes: 0 every photo is stored, 1 some are not (the report says why), 3 and above as for
``python -m app``, 130 interrupted (run the same command again to resume).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from app.batch.photo_files import printable
from app.batch.report import Line, Report
from app.batch.sources import BadSource, Item, open_source
from app.cli import exit_codes
from app.cli.output import failed, heard
from app.cli.parser import Parser, common_options, settings_of
from app.settings import Settings
from app.usecases.results import OVERRIDABLE
from model import __version__
from model.arguments import positive

if TYPE_CHECKING:
    from app.batch.enroller import BatchEnroller

DRY_RUN = (
    "This was a dry run: nothing is stored. Photos were compared with the gallery, not with each "
    "other; people of this run who look alike show only when they are enrolled."
)


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    return heard(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    try:
        return command(settings_of(options), options)
    except BrokenPipeError:
        raise
    except Exception as error:
        return failed(error)


def command(settings: Settings, options: argparse.Namespace) -> int:
    """Enroll according to the options; an interrupted run can be resumed."""
    if options.accept and not options.reason:
        options.wrong_usage("--accept needs a --reason")
    try:
        return run(settings, options)
    except KeyboardInterrupt:
        print("Interrupted. The same command goes on from here.", file=sys.stderr)
        return exit_codes.INTERRUPTED


def run(settings: Settings, options: argparse.Namespace) -> int:
    """Enroll everything that an earlier run did not store, and report the result of each photo."""
    from app.batch.metadata import joined

    items, told = joined(open_source(options.source, settings.max_upload_bytes))
    report = Report(
        options.report or _default_report(options.source, options.dry_run), options.source
    )
    if options.dry_run:
        _start_anew(report)
    told += _enroll(settings, options, report, items)
    for sentence in told:
        print(sentence)
    for status, count in report.counts(report.lines).items():
        print(f"{count:>8} {status}")
    print(f"Report: {printable(str(report.path))}")
    refused = sorted({line.status for line in report.lines.values()} & set(OVERRIDABLE))
    if refused and not options.dry_run:
        accept = " ".join(f"--accept {status}" for status in refused)
        print(f'Refused photos that are right all the same: look at them in the report, then run '
              f'the command again with {accept} --reason "WHY".')  # fmt: skip
    if options.dry_run:
        print(DRY_RUN)
    return 0 if all(line.stored for line in report.lines.values()) else 1


def _start_anew(report: Report) -> None:
    """Clear an old dry run's report, which is outdated once the gallery changes.

    Raises:
        BadSource: It is the report of a real run.
    """
    if any(line.status == "accepted" and line.photo_id for line in report.lines.values()):
        raise BadSource(
            f"{report.path} tells what was stored and is no place for a dry run. Name another "
            "file with --report."
        )
    report.keep(())


def _enroll(
    settings: Settings, options: argparse.Namespace, report: Report, items: list[Item]
) -> list[str]:
    """Store the photos not stored yet; returns one message per metadata conflict."""
    from app.batch.enroller import BatchEnroller, lookers_and_threads
    from app.batch.metadata import fill
    from app.batch.resume import stored_before
    from app.service import FaceService

    workers, threads = lookers_and_threads(options.workers)
    service = FaceService.open(settings, threads=threads)
    enroller = BatchEnroller(
        service.context,
        policy=options.faces,
        overrides=dict.fromkeys(options.accept, options.reason),
        dry_run=options.dry_run,
        workers=workers,
    )
    left: list[Item] = []
    try:
        done = stored_before(service.context.gallery, items, report.lines)
        if done:
            where = printable(str(report.path))
            print(f"{len(done)} of {len(items)} photos are stored, as {where} says.")
        report.keep(done)
        left = [item for item in items if item.key not in done]
        report.add(_problem(item) for item in left if item.problem)
        readable = [item for item in left if not item.problem]
        _go_through(enroller, report, readable, quiet=options.quiet)
        return [] if options.dry_run else fill(service.context.gallery, items, report.lines)
    finally:
        if not options.dry_run:
            counts = report.counts(item.key for item in left)
            service.audit.write("local", "batch_enroll", photos=counts)
        service.close()


def _problem(item: Item) -> Line:
    return Line(item.file, item.name, item.problem.status, item.problem.message)


def _go_through(enroller: BatchEnroller, report: Report, items: list[Item], *, quiet: bool) -> None:
    from tqdm import tqdm

    if not items:
        return
    started = time.perf_counter()
    with tqdm(total=len(items), unit="photo", disable=quiet) as bar:
        for lines in enroller.run(items):
            report.add(lines)
            bar.update(len(lines))
    seconds = time.perf_counter() - started
    print(f"{len(items)} photos in {seconds:.0f} s, {len(items) / seconds:.1f} photos/s.")


def _default_report(source: Path, dry_run: bool) -> Path:
    name = printable(source.resolve().stem) or "photos"
    return Path(f"{name}.{'dry-run' if dry_run else 'enrolled'}.csv")


def _parser() -> Parser:
    parser = Parser(prog="python -m app.enroll", parents=[common_options()])
    parser.add_argument("--version", action="version", version=__version__)
    add_arguments(parser)
    return parser


def add_arguments(parser: Parser) -> None:
    parser.description = (
        "Enroll many photos: a folder (person/photo.jpg or Person_0001.jpg), a CSV "
        "(name,path[,consent,...]) or a zip of a folder."
    )
    parser.epilog = "exit codes: 0 all stored, 1 some are not, 3 and above errors, 130 interrupted"
    parser.set_defaults(wrong_usage=parser.error)
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument(
        "--report",
        type=Path,
        help="a line for each photo, .csv or .jsonl; a run passes over photos that are stored as "
        "it says (default: SOURCE.enrolled.csv in the current folder)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="look at everything, store nothing; photos are not compared with each other",
    )
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
