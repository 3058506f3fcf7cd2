"""``python -m training average``: average the weights of several networks.

The mean of networks trained from the same initial weights is often better than each of them, and
keeps part of what each has learnt. Networks with different initial weights cannot be averaged
usefully. Check the result with ``evaluate``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from model.bundle import Bundle, save_network
from training.distill.averaging import mean_network
from training.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument(
        "--bundles",
        type=Path,
        nargs="+",
        required=True,
        help="two or more; one given twice counts twice",
    )
    parser.add_argument("--out", type=Path, required=True, help="bundle to write")
    parser.add_argument("--name", default="mean", help="what people call it")


def run(args: argparse.Namespace) -> int:
    if len(args.bundles) < 2:
        raise UsageError("--bundles needs two or more.")
    if args.out.resolve() in [path.resolve() for path in args.bundles]:
        raise UsageError("--out is one of --bundles, which would be lost; name another.")
    bundles = [Bundle.load(path) for path in args.bundles]
    parts = [{"bundle": each.model_id, "from": dict(each.provenance)} for each in bundles]
    written = save_network(
        args.out, mean_network(bundles), bundles[0].preprocessing, name=args.name,
        card=f"# {args.name}\n\nThe mean of {', '.join(each.model_id[:12] for each in bundles)}. "
        "Calibrate before use.\n",
        provenance={"mean of": parts},
    )  # fmt: skip
    print(f"wrote {args.out}, model {written.model_id[:12]}; calibrate it before use")
    return 0
