"""The command line: parse the arguments, run a command, return its exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli import enroll, many
from app.cli.exit_codes import INTERRUPTED, USAGE
from app.cli.output import failed, heard
from app.cli.parser import Parser, common_options, positive, rate, settings_of
from app.settings import Settings
from model import __version__

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
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[common],
    )
    parser.add_argument("--version", action="version", version=__version__)
    _serving(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    serve = commands.add_parser("serve", parents=[common], help="serve the page and the API")
    _serving(serve)

    verify = commands.add_parser("verify", parents=[common], help="are two photos of one person?")
    verify.add_argument("first", type=Path, metavar="A")
    verify.add_argument("second", type=Path, metavar="B")
    verify.add_argument("--target-fmr", type=rate, help="such as 0.0001: 1 in 10,000 strangers")
    verify.add_argument("--prior", type=rate, help="probability of 'same' before looking")
    verify.add_argument("--face-a", type=positive, help="which face of A, from 1, largest first")
    verify.add_argument("--face-b", type=positive, help="which face of B")
    verify.add_argument("--report", type=Path, metavar="OUT.html", help="also write a report")
    verify.add_argument("--note", default="", help="words to put into the report")

    pairs = commands.add_parser("verify-many", parents=[common], help="verify many pairs of photos")
    many.add_pairs_arguments(pairs)

    heap = commands.add_parser("cluster", parents=[common], help="sort photos by person")
    many.add_cluster_arguments(heap)

    search = commands.add_parser("search", parents=[common], help="who is in this photo?")
    search.add_argument("photo", type=Path, metavar="PHOTO")
    search.add_argument("--top", type=positive, default=3, help="people listed per face")
    search.add_argument("--target-fpir", type=rate, help="chance of any false match, such as 0.01")

    batch = commands.add_parser("enroll", parents=[common], help="enroll a folder, CSV or zip")
    enroll.add_arguments(batch)

    people = commands.add_parser("people", parents=[common], help="list the gallery")
    people.add_argument("query", nargs="?", default="", help="part of the name")

    forget = commands.add_parser("forget", parents=[common], help="erase a person for good")
    forget.add_argument("name", metavar="NAME", help="name or id")
    forget.add_argument("--yes", action="store_true", help="do not ask")

    for command in (verify, search, people, forget):
        command.add_argument("--json", action="store_true", help="for programs")

    keys = commands.add_parser("keys", help="credentials for the API and the page")
    actions = keys.add_subparsers(title="actions", required=True, parser_class=Parser)
    add = actions.add_parser("add", parents=[common], help="make a key and show it once")
    add.add_argument("name", metavar="NAME")
    add.add_argument("--scope", choices=("read", "enroll", "admin"), default="read")
    show = actions.add_parser("list", parents=[common], help="names and scopes")
    revoke = actions.add_parser("revoke", parents=[common], help="make a key invalid")
    revoke.add_argument("name", metavar="NAME")

    audit = commands.add_parser(
        "audit",
        parents=[common],
        help="check the audit log's chain",
        description="Check that each line of the audit log follows from the one before. The end "
        "of the log is not covered: that the last lines were taken away does not show.",
    )

    for command, function in (
        (parser, _serve), (serve, _serve), (verify, _command("verify")),
        (search, _command("search")), (batch, enroll.command), (pairs, many.verify_many),
        (heap, many.cluster), (people, _command("people")),
        (forget, _command("forget")), (add, _with_keys(_add_key)),
        (show, _with_keys(_list_keys)),
        (revoke, _with_keys(_revoke_key)), (audit, _check_audit),
    ):  # fmt: skip
        command.set_defaults(run=function)
    return parser


def _serving(parser: Parser) -> None:
    parser.argument_default = argparse.SUPPRESS
    parser.add_argument("--host", help="address to serve on; others than loopback need keys")
    parser.add_argument("--port", type=int, help="port to serve on; 0 takes a free one")
    parser.add_argument("--no-page", action="store_true", help="serve the API only")


# Commands import their modules when they run, so that --help and keys start fast, without torch.


def _serve(settings: Settings, options: argparse.Namespace) -> int:
    from app.web.server import serve

    serve(settings, page=not getattr(options, "no_page", False))
    return 0


def _command(name: str) -> Callable[[Settings, argparse.Namespace], int]:
    def run(settings: Settings, options: argparse.Namespace) -> int:
        from app.cli import commands

        return getattr(commands, name)(settings, options)

    return run


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
