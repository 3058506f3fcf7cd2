"""The command line: parse the arguments, run a command, return its exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import commands, enroll, many
from app.cli.exit_codes import INTERRUPTED, USAGE
from app.cli.output import failed, heard
from app.cli.parser import Parser, common_options, settings_of
from app.settings import Settings
from model import __version__
from model.arguments import positive, rate

if TYPE_CHECKING:
    from app.auth import KeyStore

EXIT_CODES = """exit codes:
  verify  0 same, 1 different, 2 inconclusive
  search  0 every face is known, 1 at least one is not
  enroll  0 every photo is stored, 1 at least one is not
  audit   0 each line follows from the one before, 1 a line does not, or there is no log
  errors  3 wrong usage or setting, 4 a photo cannot be used, 5 several faces and no choice,
          6 the gallery refuses, 7 model, calibration or index not usable, 8 anything else,
          130 interrupted
"""


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    return heard(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    try:
        return options.run(settings_of(options), options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        return failed(error, as_json=getattr(options, "json", False))


def _parser() -> Parser:
    common = common_options()
    parser = Parser(
        prog="python -m app",
        description="Serve the page and the API (no command), or answer one question.",
        epilog=EXIT_CODES,
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=__version__)
    _serve_options(parser)
    parser.set_defaults(run=_serve)
    offered = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for name, run, add_arguments, text in (
        ("serve", _serve, _serve_options, "serve the page and the API"),
        ("verify", commands.verify, _verify_options, "are two photos of one person?"),
        ("verify-many", many.verify_many, many.add_pairs_arguments, "verify many pairs of photos"),
        ("cluster", many.cluster, many.add_cluster_arguments, "sort photos by person"),
        ("search", commands.search, _search_options, "who is in this photo?"),
        ("enroll", enroll.command, enroll.add_arguments, "enroll a folder, CSV or zip"),
        ("people", commands.people, _people_options, "list the gallery"),
        ("forget", commands.forget, _forget_options, "erase a person for good"),
        ("audit", _check_audit, _audit_options, "check the audit log's chain"),
    ):
        child = offered.add_parser(name, parents=[common], help=text)
        add_arguments(child)
        child.set_defaults(run=run)
    keys = offered.add_parser("keys", help="credentials for the API and the page")
    actions = keys.add_subparsers(title="actions", required=True, parser_class=Parser)
    for name, run, add_arguments, text in (
        ("add", _add_key, _key_options, "make a key and show it once"),
        ("list", _list_keys, None, "names and scopes"),
        ("revoke", _revoke_key, _key_name, "make a key invalid"),
    ):
        child = actions.add_parser(name, parents=[common], help=text)
        if add_arguments:
            add_arguments(child)
        child.set_defaults(run=_with_keys(run))
    return parser


def _verify_options(parser: Parser) -> None:
    parser.add_argument("first", type=Path, metavar="A")
    parser.add_argument("second", type=Path, metavar="B")
    parser.add_argument("--target-fmr", type=rate, help="such as 0.0001: 1 in 10,000 strangers")
    parser.add_argument("--prior", type=rate, help="probability of 'same' before looking")
    parser.add_argument("--face-a", type=positive, help="which face of A, from 1, largest first")
    parser.add_argument("--face-b", type=positive, help="which face of B")
    parser.add_argument("--report", type=Path, metavar="OUT.html", help="also write a report")
    parser.add_argument("--note", default="", help="words to put into the report")
    _json_option(parser)


def _search_options(parser: Parser) -> None:
    parser.add_argument("photo", type=Path, metavar="PHOTO")
    parser.add_argument("--top", type=positive, default=3, help="people listed per face")
    parser.add_argument("--target-fpir", type=rate, help="chance of any false match, such as 0.01")
    _json_option(parser)


def _people_options(parser: Parser) -> None:
    parser.add_argument("query", nargs="?", default="", help="part of the name")
    _json_option(parser)


def _forget_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="name or id")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    _json_option(parser)


def _json_option(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def _audit_options(parser: Parser) -> None:
    parser.description = (
        "Check that each line of the audit log follows from the one before. The end of the log is "
        "not covered: that the last lines were taken away does not show."
    )


def _key_name(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME")


def _key_options(parser: Parser) -> None:
    _key_name(parser)
    parser.add_argument(
        "--scope", choices=("read", "enroll", "admin"), default="read", help="what it may do"
    )


def _serve_options(parser: Parser) -> None:
    parser.argument_default = argparse.SUPPRESS
    parser.add_argument("--host", help="address to serve on; others than loopback need keys")
    parser.add_argument("--port", type=int, help="port to serve on; 0 takes a free one")
    parser.add_argument("--no-page", action="store_true", help="serve the API only")


# Commands import their modules when they run, so that --help and keys start fast, without torch.


def _serve(settings: Settings, options: argparse.Namespace) -> int:
    from app.web.server import serve

    serve(settings, page=not getattr(options, "no_page", False))
    return 0


def _with_keys(run: Callable[[KeyStore, argparse.Namespace], int]) -> Callable[..., int]:
    def opened(settings: Settings, options: argparse.Namespace) -> int:
        from app.auth import KeyStore
        from app.stores import Stores

        settings.prepare()
        with closing(Stores.open(settings)) as stores:
            return run(KeyStore(stores.keys), options)

    return opened


def _add_key(keys: KeyStore, options: argparse.Namespace) -> int:
    try:
        secret = keys.add(options.name, options.scope)
    except ValueError as error:
        print(error, file=sys.stderr)
        return USAGE
    print(f"Key {options.name!r} with the scope {options.scope!r}. It is shown this once:")
    print(secret)
    return 0


def _list_keys(keys: KeyStore, options: argparse.Namespace) -> int:
    for key in keys.keys():  # noqa: SIM118 - not a dict
        print(f"{key.name}\t{key.scope}\t{key.created}")
    return 0


def _revoke_key(keys: KeyStore, options: argparse.Namespace) -> int:
    if keys.revoke(options.name):
        print(f"The key {options.name!r} is no longer valid.")
        if not keys.keys():
            print("It was the last one. A running server lets nobody in until there is a new one.")
        return 0
    print(f"There is no key {options.name!r}.", file=sys.stderr)
    return USAGE


def _check_audit(settings: Settings, options: argparse.Namespace) -> int:
    from app.audit import AuditLog
    from app.stores import Stores

    with closing(Stores.open(settings)) as stores:
        if next(iter(stores.audit or ()), None) is None:
            print("There is no audit log.")
            return 1
        broken = AuditLog(stores.audit).check()
    if broken is None:
        print("The audit log is unbroken. Lines taken off its end would not show.")
        return 0
    print(f"Line {broken} of the audit log is damaged, or does not follow from the line before.")
    return 1
