"""``python -m training COMMAND``: from images and labels to a published bundle."""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from model import __version__
from model.errors import FaceError
from training.errors import UsageError

COMMANDS = {
    "fit": "train a network with a loss on labelled images",
    "evaluate": "measure a network: recall, d', error rates with intervals",
    "compare": "several losses under one budget, one table",
    "reproduce": "the paper's ablations by name",
    "calibrate": "measure error rates on unseen people and store them in a bundle",
    "quality": "learn which measures of a photo foretell a miss",
    "publish": "calibrate, report, write the card, verify and swap in a bundle",
    "prepare": "align photos and keep what teachers say of each face",
    "distill": "teach a network the geometry of its teachers, in one long run",
    "average": "the mean of the weights of several networks",
    "level": "take out of a model what strangers of a group have in common",
    "convert": "weights of a Keras ResNet to a file that --init takes",
    "overlap": "find people of one collection that are in another as well",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that shows defaults and suggests the closest option on a typo."""

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        action = super().add_argument(*names, **settings)
        said = action.help or ""
        if action.default not in (None, False, [], argparse.SUPPRESS) and "default" not in said:
            action.help = f"{said}; default: %(default)s".removeprefix("; ")
        return action

    def error(self, message: str) -> NoReturn:
        known = [option for action in self._actions for option in action.option_strings]
        for word in message.replace("=", " ").split():
            if word.startswith("--") and word not in known:
                close = difflib.get_close_matches(word, known, 1)
                if close:
                    message += f" (did you mean {close[0]}?)"
                    break
        super().error(message)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    overview = "\n".join(f"  {name:10} {text}" for name, text in COMMANDS.items())
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: python -m training COMMAND [options]\n\n{overview}")
        return 0 if arguments else 2
    command, *rest = arguments
    if command == "--version":
        print(__version__)
        return 0
    if command not in COMMANDS:
        close = difflib.get_close_matches(command, COMMANDS, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        print(f"There is no command {command!r}.{hint}\n\n{overview}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"training.commands.{command}")
    parser = Parser(prog=f"python -m training {command}", allow_abbrev=False)
    module.add_arguments(parser)
    try:
        return module.run(parser.parse_args(rest))
    except FaceError as error:
        print(f"{command}: {error.message}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 3


if __name__ == "__main__":
    sys.exit(main())
