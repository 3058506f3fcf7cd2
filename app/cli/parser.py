"""The argument parser that all commands share: options and exit code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

from app.cli.exit_codes import USAGE
from app.settings import BUNDLE, Settings


class Help(argparse.RawDescriptionHelpFormatter):
    """Says the default of every option that has one, be it the option's own or a setting's."""

    def _get_help_string(self, action: argparse.Action) -> str:
        words, default = action.help or "", _default(action)
        return words if default is None or "default" in words else f"{words} (default: {default})"


def _default(action: argparse.Action) -> object:
    """Return an option's default for reading, or None if there is none worth saying."""
    value = action.default
    if value in (None, argparse.SUPPRESS):
        value = getattr(Settings(), action.dest, None)
    if value == BUNDLE:
        return "the one that ships"
    if isinstance(value, Path):
        return str(value).replace(str(Path.home()), "~", 1)
    return None if isinstance(value, bool) or value in (None, "", ()) else value


class Parser(argparse.ArgumentParser):
    """argparse with defaults in every help, and with another exit code for wrong usage.

    The code differs because 2 means "inconclusive" here.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": Help, **options})

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def common_options() -> Parser:
    """Return the options of every command; they may come before or after a subcommand's name."""
    common = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--settings", type=Path, help="a TOML file with settings")
    common.add_argument("--data", type=Path, help="folder of the gallery, keys and logs")
    common.add_argument("--gallery", help="postgresql://... instead of a file in --data")
    common.add_argument("--bundle", type=Path, help="folder of the model bundle")
    common.add_argument("--engine", help="auto, fp32, torch, onnxruntime or onnxruntime-int8")
    common.add_argument("--device", help="auto, cpu, cuda or mps")
    return common


def settings_of(options: argparse.Namespace) -> Settings:
    """Load the settings, overridden by the command line."""
    names = ("data", "gallery", "bundle", "engine", "device", "host", "port")
    given = {name: getattr(options, name, None) for name in names}
    return Settings.load(getattr(options, "settings", None), **given)
