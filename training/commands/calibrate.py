"""``python -m training calibrate``: measure a model's error rates, or check promised ones."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from model.arguments import natural
from model.bundle import Bundle
from model.calibration import Calibration
from model.calibration.adapt import adapt
from model.calibration.calibration import MAX_PHOTOS
from model.calibration.check import check_promises
from model.calibration.kinds import Copies
from model.calibration.pairs.further import Further
from model.calibration.pairs.worst_pairs import worst_pairs
from model.embedding.embedder import Embedder
from model.errors import CalibrationError
from model.wording import one_in
from training.datasets import DATASETS
from training.errors import UsageError
from training.measure.calibration_photos import (
    Photos,
    embed_photos,
    judged,
    photo_groups,
    photo_quality,
    read_groups,
    spoiled_copies,
)
from training.measure.collections import further_in_words
from training.measure.score_files import read_bob, read_pyeer
from training.report.calibration_report import Pictures, write_report
from training.report.pair_bar import PairBar
from training.report.promises import kind_shares, kinds_table, promise_table, rate, share

WORST_SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--bundle", type=Path, help="bundle to calibrate; the result is stored in it"
    )
    source.add_argument(
        "--check", type=Path, metavar="BUNDLE", help="do its promises hold on --data?"
    )
    source.add_argument(
        "--scores",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="scores of another tool: GENUINE IMPOSTOR (pyeer) or one file (bob)",
    )
    parser.add_argument("--data", help=f"folder with a folder a person, or {', '.join(DATASETS)}")
    parser.add_argument("--root", type=Path, default=Path("data"), help="where named datasets lie")
    parser.add_argument("--part", choices=["DevTrain", "DevTest"], help="LFW's people to use")
    parser.add_argument(
        "--groups",
        type=Path,
        metavar="CSV",
        help="columns name,group: a person (folder) or photo (folder/file) each",
    )
    parser.add_argument(
        "--corrections",
        type=Path,
        metavar="CSV",
        help="columns name,person: names that are wrong, and whose photo it is (empty: leave out)",
    )
    parser.add_argument(
        "--adapt", action="store_true",
        help="too few people to measure rates (20 to 50): move the bundle's calibration to them",
    )  # fmt: skip
    parser.add_argument(
        "--copies", action="store_true",
        help="measure copies too: cut close, small, compressed, blurred, dark",
    )  # fmt: skip
    parser.add_argument(
        "--further", nargs="*", default=[], metavar="FOLDER",
        help="folders of other people on which the thresholds must hold too",
    )  # fmt: skip
    parser.add_argument(
        "--max-photos",
        type=int,
        default=MAX_PHOTOS,
        help="most photos of one person, 0 for all (default %(default)s)",
    )
    parser.add_argument("--out", type=Path, default=Path("runs/calibration"), help="report folder")
    parser.add_argument("--dry-run", action="store_true", help="leave the bundle as it is")
    parser.add_argument("--no-pictures", action="store_true", help="no photos in the report")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    parser.add_argument("--seed", type=natural, default=0)


def run(args: argparse.Namespace) -> int:
    if args.max_photos != 0 and args.max_photos < 2:
        raise UsageError("--max-photos: it takes 2 photos to make a pair; 0 takes all.")
    if args.scores:
        if args.groups or args.corrections:
            raise CalibrationError(
                "Scores come without names: --groups and --corrections need photos."
            )
        return _from_scores(args)
    if not args.data:
        raise CalibrationError("Say which photos to measure on: --data FOLDER or --data lfw.")
    if args.check:
        if args.groups:
            raise UsageError("--groups is for --bundle: --check looks at everyone together.")
        return _check(args)
    groups = read_groups(args.groups) if args.groups else None
    bundle = Bundle.load(args.bundle)
    if bundle.path.resolve() in args.out.resolve().parents:
        raise UsageError(f"--out {args.out} lies in the bundle, which holds a model only.")
    photos = _photos(args, bundle)
    if args.adapt:
        calibration = _adapted(args, bundle, photos)
    else:
        calibration = _measured(args, bundle, photos, groups)
    pictures = None
    if not args.no_pictures:
        with PairBar("worst pairs") as bar:
            worst = worst_pairs(photos.embeddings, photos.labels, WORST_SHOWN, bar.show)
        pictures = Pictures(photos.crops.pixels[photos.rows], photos.names, *worst)
    _finish(calibration, args.out, bundle.name, pictures)
    if not args.dry_run:
        bundle.with_calibration(calibration)
        print(f"stored in {bundle.path}")
    return 0


def _measured(
    args: argparse.Namespace, bundle: Bundle, photos: Photos, groups: Mapping[str, str] | None
) -> Calibration:
    copies = _copies(args, bundle, photos) if args.copies else None
    further = [_further(args, bundle, folder) for folder in args.further]
    with PairBar("pairs") as bar:
        return Calibration.fit(
            photos.embeddings,
            photos.labels,
            model_id=bundle.model_id,
            quality=photo_quality(photos),
            groups=photo_groups(groups, args.groups, photos) if groups is not None else None,
            copies=copies,
            protocol=f"{photos.protocol}; thresholds chosen on one half of the people, rates "
            f"measured on the other{further_in_words(further)}",
            data_fingerprint=photos.fingerprint,
            seed=args.seed,
            max_photos=args.max_photos or None,
            further=further,
            progress=bar.show,
        )


def _further(args: argparse.Namespace, bundle: Bundle, folder: str) -> Further:
    photos = embed_photos(bundle, folder, root=args.root, part=None, cache=args.cache)
    return Further(Path(folder).name, photos.embeddings, photos.labels)


def _adapted(args: argparse.Namespace, bundle: Bundle, photos: Photos) -> Calibration:
    if args.groups or args.copies or args.further:
        raise UsageError("--adapt measures no rates: give it no --groups, --copies or --further.")
    found = adapt(
        _calibration(bundle),
        photos.embeddings,
        photos.labels,
        data_fingerprint=photos.fingerprint,
        seed=args.seed,
    )
    print("  target  shipped    moved  in d' units, from the mean of strangers")
    for each in found.thresholds:
        at = each.distance
        print(
            f"{each.moved.target_fmr:8.0e}  {each.shipped.threshold:7.4f}  "
            f"{each.moved.threshold:7.4f}  {at.value:.2f} (without caution {at.low:.2f} to "
            f"{at.high:.2f})"
        )
    return found.calibration


def _calibration(bundle: Bundle) -> Calibration:
    if bundle.calibration is None:
        raise CalibrationError(
            f"{bundle.path} has no calibration yet. Make one: python -m training calibrate "
            f"--bundle {bundle.path} --data ..."
        )
    return bundle.calibration


def _photos(args: argparse.Namespace, bundle: Bundle) -> Photos:
    return embed_photos(
        bundle,
        args.data,
        root=args.root,
        part=args.part,
        cache=args.cache,
        corrections=args.corrections,
    )


def _copies(args: argparse.Namespace, bundle: Bundle, photos: Photos) -> Copies:
    if photos.table.aligned:
        raise UsageError("--copies are told apart by quality, which needs photos not yet aligned.")
    return spoiled_copies(
        [photos.table.paths[row] for row in photos.rows],
        photos.labels,
        Embedder(bundle, engine="fp32"),
        cache=args.cache,
        max_photos=args.max_photos or None,
        seed=args.seed,
    )


def _check(args: argparse.Namespace) -> int:
    bundle = Bundle.load(args.check)
    calibration = _calibration(bundle)
    photos = _photos(args, bundle)
    with PairBar("pairs") as bar:
        checks = check_promises(
            calibration,
            photos.embeddings,
            photos.labels,
            seed=args.seed,
            max_photos=args.max_photos or None,
            progress=bar.show,
        )
    drifted = any(check.drifted for check in checks)
    print(f"calibration {calibration.id} on {photos.protocol}\n{promise_table(checks)}")
    exceeded = [one_in(check.target_fmr) for check in checks if check.exceeded]
    kinds: dict[str, float] = {}
    if photos.crops.measures:
        kinds = kind_shares(judged(photos.crops, photos.rows))
        print(f"kinds of photos here:\n{kinds_table(kinds, calibration)}")
    print("DRIFT: a promised rate does not hold here." if drifted else "No promise is broken.")
    if exceeded:
        print(f"TARGET EXCEEDED: strangers pass more often than {', '.join(exceeded)} here.")
    args.out.mkdir(parents=True, exist_ok=True)
    result = {
        "calibration": calibration.id,
        "data": photos.protocol,
        "data_fingerprint": photos.fingerprint,
        "drifted": drifted,
        "exceeded": exceeded,
        "kinds": kinds,
        "checks": [check.to_dict() for check in checks],
    }
    (args.out / "check.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return int(drifted or bool(exceeded))


def _from_scores(args: argparse.Namespace) -> int:
    if len(args.scores) > 2:
        raise CalibrationError("Give two score files (genuine, impostor) or one with both.")
    reader = read_pyeer if len(args.scores) == 2 else read_bob
    genuine, impostor = reader(*args.scores)
    if min(len(genuine), len(impostor)) < 4:
        raise CalibrationError(
            f"There are {len(genuine)} scores of one person and {len(impostor)} of strangers; "
            "it takes at least 4 of either."
        )
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in args.scores)).hexdigest()
    calibration = Calibration.from_scores(
        genuine,
        impostor,
        model_id=f"scores-{digest[:16]}",
        protocol=f"scores of {', '.join(path.name for path in args.scores)}, people unknown",
        data_fingerprint=digest,
        seed=args.seed,
    )
    _finish(calibration, args.out, args.scores[0].stem, None)
    return 0


def _finish(calibration: Calibration, out: Path, name: str, pictures: Pictures | None) -> None:
    out.mkdir(parents=True, exist_ok=True)
    calibration.save(out / "calibration.json")
    write_report(out / "report.html", calibration, name, pictures)
    summary = calibration.summary
    print(f"calibration {calibration.id}: {calibration.protocol}")
    print(
        f"d' {summary.d_prime.value:.3f} [{summary.d_prime.low:.3f}, {summary.d_prime.high:.3f}]  "
        f"EER {summary.eer.value:.3%} [{summary.eer.low:.3%}, {summary.eer.high:.3%}]"
    )
    for target in calibration.targets:
        word = "" if target.supported else "unsupported"
        word += ", threshold extrapolated" if target.extrapolated else ""
        print(
            f"{target.target_fmr:8.0e}  {target.threshold:9.4f}  {rate(target.fmr)}  "
            f"{share(target.fnmr)}  {word}"
        )
    for warning in calibration.warnings:
        print(f"beware: {warning}")
    print(f"report: {out / 'report.html'}")
