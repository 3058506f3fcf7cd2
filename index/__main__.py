"""``python -m index``: care of a gallery and its index from the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from index.crypto.keys import key_from, new_key, read_key
from index.engines.base import VectorIndex
from index.engines.open import connect, discard, open_index, place
from index.engines.sync import compare, rebuild, repair, save_cache, take_over
from index.gallery import Gallery
from index.gallery.connect import DATABASE_FILE
from index.gallery.move import move_gallery
from model import __version__
from model.errors import FaceError, GalleryError, GalleryUnavailable, IndexUnavailable


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "key":
            return _key(arguments.out)
        if arguments.command == "move-gallery":
            return _move_gallery(arguments)
        _check_addresses(arguments)
        with _gallery(arguments) as gallery:
            return arguments.run(gallery, arguments)
    except FaceError as error:
        return _failed(error)
    except OSError as error:
        return _failed(GalleryUnavailable(f"The command could not be finished: {error}."))


def _failed(error: FaceError) -> int:
    print(f"error ({error.code}): {error}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m index", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    key = commands.add_parser("key", help="make a fresh gallery key")
    key.add_argument(
        "--out", type=Path, help="new file to keep it in, for its owner only (default: print it)"
    )

    home = commands.add_parser("move-gallery", help="copy everyone into another database")
    home.add_argument("--from", dest="source", required=True, help="folder or postgresql://...")
    home.add_argument("--to", dest="target", required=True, help="folder or postgresql://...")
    home.add_argument("--from-secrets", help="postgresql://... with the source's secrets")
    home.add_argument("--to-secrets", help="postgresql://... for the target's secrets")
    home.add_argument("--key-file", type=Path, help="file with the source's key")
    home.add_argument("--to-key-file", type=Path, help="file with the target's key (the same)")

    def command(name: str, run: Callable[..., int], text: str) -> argparse.ArgumentParser:
        child = commands.add_parser(name, help=text, description=text)
        child.add_argument("--data", type=Path, required=True, help="the gallery's folder")
        child.add_argument("--gallery", help="postgresql://... instead of a file in the folder")
        child.add_argument("--secrets", help="postgresql://... where the gallery's secrets are")
        child.add_argument("--key-file", type=Path, help="file with the gallery key")
        child.set_defaults(run=run)
        return child

    def with_index(child: argparse.ArgumentParser) -> None:
        child.add_argument("--index", default="faiss", help="faiss or milvus://host:port/name")

    for name, run, text in (
        ("stats", _stats, "print what the gallery and its index hold"),
        ("sync", _sync, "make the index agree with the gallery, photo by photo"),
        ("rebuild", _rebuild, "build the index anew from the gallery"),
    ):
        with_index(command(name, run, text))
    move = command("move", _move, "fill another index from the gallery and check it")
    move.add_argument("--from", dest="source", help="index to empty afterwards (optional)")
    move.add_argument("--to", dest="target", required=True, help="index to fill")
    export = command("export", _export, "write the gallery into one portable file")
    export.add_argument("file", type=Path)
    export.add_argument("--plain", action="store_true", help="do not encrypt the file")
    import_ = command("import", _import, "add everyone from an exported file")
    import_.add_argument("file", type=Path)
    import_.add_argument("--skip-existing", action="store_true", help="leave known people alone")
    import_.add_argument("--no-thumbnails", action="store_true", help="store no pictures of faces")
    import_.add_argument("--model-id", help="the model, to start a new gallery")
    return parser


def _key(out: Path | None) -> int:
    if out is None:
        print(new_key())
        return 0
    try:
        with open(out, "x", opener=_open_for_owner) as file:
            print(new_key(), file=file)
    except FileExistsError as error:
        raise GalleryError(
            f"{out} exists and may be the key of a gallery; choose another file."
        ) from error
    except OSError as error:
        raise GalleryError(f"The key file {out} cannot be written: {error}.") from error
    print(f"key written to {out}, which only its owner may read")
    return 0


def _open_for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _check_addresses(arguments: argparse.Namespace) -> None:
    """Rejects invalid index addresses, and a move whose source and target are the same."""
    given = [getattr(arguments, name, None) for name in ("index", "source", "target")]
    places = [_place(url) for url in given if url is not None]
    if len(places) > len(set(places)):
        raise GalleryError(
            f"{arguments.source} and {arguments.target} are the same index; name another one to "
            "move to."
        )


def _place(url: str) -> tuple[str, ...]:
    try:
        return place(url)
    except ValueError as error:
        raise IndexUnavailable(f"The index address {url!r} cannot be used: {error}.") from error


def _gallery(arguments: argparse.Namespace) -> Gallery:
    key = _gallery_key(arguments.key_file)
    model_id = getattr(arguments, "model_id", None)
    return _open(arguments.data, arguments.gallery, arguments.secrets, key, model_id)


def _gallery_key(file: Path | None) -> bytes | None:
    return read_key(file) if file else key_from()


def _open(
    folder: Path, url: str | None, secrets_url: str | None, key: bytes | None, model_id: str | None
) -> Gallery:
    """Opens a gallery; a new one only with a model."""
    if model_id is None and url is None and not (folder / DATABASE_FILE).exists():
        raise GalleryError(f"There is no gallery in {folder}.")
    try:
        return Gallery.open(folder, url=url, secrets_url=secrets_url, model_id=model_id, key=key)
    except ValueError as error:
        raise GalleryError(
            f"The gallery {url or str(folder)!r} cannot be opened: {error}."
        ) from error


def _move_gallery(arguments: argparse.Namespace) -> int:
    key = _gallery_key(arguments.key_file)
    to_key = read_key(arguments.to_key_file) if arguments.to_key_file else key
    with ExitStack() as opened:
        source = _gallery_at(arguments.source, arguments.from_secrets, key, None, opened)
        target = _gallery_at(
            arguments.target, arguments.to_secrets, to_key, source.model_id, opened
        )
        if source.gallery_id == target.gallery_id:
            raise GalleryError("Source and target are the same gallery; name another target.")
        moved = move_gallery(source, target, progress=sys.stderr.isatty())
    held = moved.target
    print(f"{moved.copied} people copied, {moved.removed} removed")
    print(f"now {held.people} people and {held.photos} photos, checksum {held.checksum}")
    if not moved.agrees:
        print("source and target differ: the source changed meanwhile. Run the command again, "
              "with no server writing to it.", file=sys.stderr)  # fmt: skip
    return 0 if moved.agrees else 1


def _gallery_at(
    where: str, secrets_url: str | None, key: bytes | None, model_id: str | None, opened: ExitStack
) -> Gallery:
    """Opens the gallery in a folder or at an address."""
    if "://" not in where:
        return opened.enter_context(_open(Path(where), None, secrets_url, key, model_id))
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
    return opened.enter_context(_open(folder, where, secrets_url, key, model_id))


def _index(gallery: Gallery, url: str) -> VectorIndex:
    _check_filled(gallery)
    return open_index(gallery, url, progress=sys.stderr.isatty())


def _check_filled(gallery: Gallery) -> None:
    if gallery.reader.dimension() is None:
        raise GalleryError("The gallery is empty; there is nothing to index yet.")


def _stats(gallery: Gallery, arguments: argparse.Namespace) -> int:
    facts = {
        "gallery_id": gallery.gallery_id,
        "model_id": gallery.model_id,
        "encrypted": gallery.encrypted,
        "seq": gallery.changes.head().seq,
        **asdict(gallery.reader.counts()),
    }
    if gallery.reader.dimension() is not None:
        facts["index"] = _index(gallery, arguments.index).stats().to_dict()
    print(json.dumps(facts, indent=1))
    return 0


def _sync(gallery: Gallery, arguments: argparse.Namespace) -> int:
    index = _index(gallery, arguments.index)
    found = repair(gallery, index)
    after = compare(gallery, index)
    save_cache(gallery, index)
    index.close()
    print(
        f"{found.photos} photos; added {len(found.missing)} missing, removed "
        f"{len(found.surplus)} surplus; index and gallery {'agree' if after.whole else 'differ'}"
    )
    return 0 if after.whole else 1


def _rebuild(gallery: Gallery, arguments: argparse.Namespace) -> int:
    _check_filled(gallery)
    index = connect(gallery, arguments.index)
    start = time.perf_counter()
    count = rebuild(gallery, index, progress=sys.stderr.isatty())
    save_cache(gallery, index)
    index.close()
    print(f"{count} photos indexed in {time.perf_counter() - start:.1f} s")
    return 0


def _move(gallery: Gallery, arguments: argparse.Namespace) -> int:
    _check_filled(gallery)
    target = connect(gallery, arguments.target)
    take_over(gallery, target, progress=sys.stderr.isatty())
    repair(gallery, target)
    after = compare(gallery, target)
    save_cache(gallery, target)
    print(f"{after.photos} photos in {arguments.target}: ", end="")
    print("index and gallery agree" if after.whole else "index and gallery differ")
    if after.whole and arguments.source:
        discard(gallery, arguments.source)
        print(f"{arguments.source} emptied")
    target.close()
    return 0 if after.whole else 1


def _export(gallery: Gallery, arguments: argparse.Namespace) -> int:
    path = gallery.export(arguments.file, plain=arguments.plain)
    print(f"{gallery.reader.count()} people written to {path} ({path.stat().st_size:,} bytes)")
    return 0


def _import(gallery: Gallery, arguments: argparse.Namespace) -> int:
    existing = "skip" if arguments.skip_existing else "error"
    thumbnails = not arguments.no_thumbnails
    added = gallery.import_(arguments.file, existing=existing, thumbnails=thumbnails)
    print(f"{added} people added")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
