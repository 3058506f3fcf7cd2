"""``python -m model info | export | import | describe``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from model import __version__
from model.errors import BundleError, FaceError


def main(argv: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except FaceError as error:
        print(f"{args.command}: {error.message}", file=sys.stderr)
        return 3


def _parser() -> argparse.ArgumentParser:
    from model import describe
    from model.bundle import DEFAULT

    parser = argparse.ArgumentParser(prog="python -m model")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)

    info = commands.add_parser("info", help="what a bundle holds, verified")
    info.add_argument("bundle", type=Path, nargs="?", default=DEFAULT)
    info.set_defaults(run=_info)

    export = commands.add_parser("export", help="write a bundle's network as ONNX")
    export.add_argument("bundle", type=Path)
    export.add_argument("--onnx", type=Path, required=True, help="file to write")
    export.set_defaults(run=_export)

    bring = commands.add_parser("import", help="wrap a foreign face embedder as a bundle")
    bring.add_argument("source", help="an ONNX file, or facenet-vggface2, facenet-casia-webface")
    bring.add_argument("--out", type=Path, required=True, help="bundle folder to write")
    own = bring.add_argument_group("of an ONNX file")
    own.add_argument("--name", help="what people call it; default the file's name")
    own.add_argument("--input-size", type=int, help="pixels; default 112")
    own.add_argument("--mean", type=float, nargs=3, help="in 0..255; default 127.5 each")
    own.add_argument("--std", type=float, nargs=3, help="in 0..255; default 127.5 each")
    own.add_argument("--channels", choices=("RGB", "BGR"), help="default RGB")
    own.add_argument("--flip", action="store_true", default=None, help="average with the mirror")
    bring.set_defaults(run=_import)

    look = commands.add_parser("describe", help="faces, quality and embedding of a photo")
    describe.add_arguments(look)
    look.set_defaults(run=describe.run)
    return parser


def _info(args: argparse.Namespace) -> int:
    from model.bundle import Bundle

    bundle = Bundle.load(args.bundle)
    calibration = bundle.calibration
    print(
        json.dumps(
            {
                "name": bundle.name,
                "model_id": bundle.model_id,
                "architecture": bundle.architecture.to_dict() if bundle.architecture else "onnx",
                "preprocessing": bundle.preprocessing.to_dict(),
                "calibration": calibration.id if calibration else None,
                "provenance": dict(bundle.provenance),
                "metrics": dict(bundle.metrics),
                "versions": dict(bundle.versions),
            },
            indent=2,
            ensure_ascii=False,
        )
    )
    return 0


def _export(args: argparse.Namespace) -> int:
    from model.bundle import Bundle
    from model.bundle.import_export import export_onnx

    cosine = export_onnx(Bundle.load(args.bundle), args.onnx)
    print(f"wrote {args.onnx}; lowest cosine against torch {cosine:.6f}")
    return 0


def _import(args: argparse.Namespace) -> int:
    from model.bundle.import_export import import_facenet, import_onnx
    from model.embedding.preprocess import Preprocessing

    names = ("name", "input_size", "mean", "std", "channels", "flip")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.source.startswith("facenet-"):
        if given:
            option = next(iter(given)).replace("_", "-")
            raise BundleError(f"{args.source} brings its own settings: leave out --{option}.")
        bundle = import_facenet(args.out, args.source.removeprefix("facenet-"))
    else:
        source = Path(args.source)
        middle = (127.5,) * 3
        try:
            preprocessing = Preprocessing(
                given.get("input_size", 112),
                tuple(given.get("mean", middle)),
                tuple(given.get("std", middle)),
                given.get("channels", "RGB"),
                given.get("flip", False),
            )
        except ValueError as error:
            raise BundleError(
                f"{args.source} cannot be imported with these settings: {error}."
            ) from error
        bundle = import_onnx(source, args.out, preprocessing, name=args.name or source.stem)
    print(f"wrote {bundle.path}, model {bundle.model_id[:12]}; calibrate it before use")
    return 0


if __name__ == "__main__":
    sys.exit(main())
