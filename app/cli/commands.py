"""The commands verify, search, people and forget."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli import exit_codes
from app.settings import Settings
from model import wording
from model.errors import BadImage, IndexUnavailable, SeveralFaces, UnknownPerson

if TYPE_CHECKING:
    from app.usecases.results import ChoiceNeeded
    from index.gallery import Gallery
    from index.types import Erased, Person


def verify(settings: Settings, options: argparse.Namespace) -> int:
    from app.usecases.results import ChoiceNeeded, Compared

    settings.prepare()
    # Read before loading the model, because a wrong path is the most common mistake.
    first, second = read_photo(options.first, settings), read_photo(options.second, settings)
    with open_service(settings) as service:
        result = service.verify(
            first,
            second,
            target_fmr=options.target_fmr,
            prior=options.prior,
            face_a=options.face_a,
            face_b=options.face_b,
        )
        model = service.context.bundle.name
        if options.report and isinstance(result, Compared):
            from app.ui.cards import report

            made = report.verification(result, service, note=options.note)
            options.report.write_text(made, encoding="utf-8")
    if isinstance(result, ChoiceNeeded):
        from app.web.schemas import serializers

        if not options.json:
            _list_pairs(result)
        raise SeveralFaces(
            "There are several faces. Say which are meant with --face-a and --face-b.",
            **serializers.choice(result),
        )
    if options.json:
        from app.web.schemas import serializers

        _print_json(
            serializers.verified(result, model).model_dump(mode="json", exclude={"request_id"})
        )
    else:
        verdict = result.verdict
        print(f"{result.headline}.")
        for reason in verdict.reasons:
            print(f"  {reason}")
        print(
            f"  score {verdict.score:.4f}, threshold {verdict.threshold:.4f} "
            f"for a false-match rate of {verdict.target_fmr:g}"
        )
        for name, face in ((options.first, result.face_a), (options.second, result.face_b)):
            said = [reason.message for reason in face.quality.reasons] + [face.ignored.message]
            for sentence in filter(None, said):
                print(f"  {name.name}: {sentence}")
    return exit_codes.OF_DECISION[result.verdict.decision]


def search(settings: Settings, options: argparse.Namespace) -> int:
    settings.prepare()
    photo = read_photo(options.photo, settings)
    with open_service(settings) as service:
        result = service.search(photo, top=options.top, target_fpir=options.target_fpir)
        model = service.context.bundle.name
    if options.json:
        from app.web.schemas import serializers

        _print_json(
            serializers.searched(result, model).model_dump(mode="json", exclude={"request_id"})
        )
    else:
        print(
            f"Searched among {wording.plural(result.gallery_size, 'person', 'people')}. The "
            f"threshold {result.threshold:.4f} is set so that a stranger passes for one of them "
            f"with a chance of at most {wording.one_in(result.target_fpir)}."
        )
        if not result.supported:
            print("The calibration is too small to measure this threshold.")
        for found in result.faces:
            left, top, right, bottom = (round(value) for value in found.face.face.box)
            print(f"Face {found.face.number} at {left},{top}-{right},{bottom}:", end=" ")
            print("known" if found.known else "unknown")
            for each in found.candidates:
                mark = "*" if each.known else " "
                print(
                    f"  {mark} {each.match.name}  score {each.match.score:.4f}, chance for a "
                    f"stranger {wording.chance(each.false_match_chance)}"
                )
        if any(found.candidates for found in result.faces):
            print("Chance for a stranger: that someone who is not in the gallery finds anyone in "
                  "it this alike.")  # fmt: skip
    return exit_codes.KNOWN if all(found.known for found in result.faces) else exit_codes.UNKNOWN


def people(settings: Settings, options: argparse.Namespace) -> int:
    """List the gallery; needs no model."""
    found = []
    if settings.gallery or settings.gallery_folder.exists():
        with _gallery(settings) as gallery:
            found = gallery.reader.people(limit=1_000_000, query=options.query)
    if options.json:
        _print_json([{"id": each.id, "name": each.name, "photos": each.photos} for each in found])
        return 0
    for each in found:
        print(f"{each.id}  {each.photos:>4} photos  {each.name}")
    if not found:
        print("Nobody is in the gallery." if not options.query else "Nobody has such a name.")
    return 0


def forget(settings: Settings, options: argparse.Namespace) -> int:
    """Erase the person with a name or id; needs no model."""
    from app.audit import AuditLog
    from app.stores import Stores

    with _gallery(settings) as gallery:
        found = gallery.reader.find_by_name(options.name) or list(
            gallery.reader.get_many([options.name]).values()
        )
        if not found:
            raise UnknownPerson(f"Nobody named {options.name!r} is in the gallery.")
        if len(found) > 1:
            who = "\n".join(
                f"  {each.id}  {wording.plural(each.photos, 'photo')}, added "
                f"{date.fromtimestamp(each.created)}, consent: {each.consent or 'none noted'}"
                for each in found
            )
            raise UnknownPerson(
                f"{len(found)} people are named {options.name!r}. Give the id of the one "
                f"meant:\n{who}"
            )
        person = found[0]
        if not options.yes:
            _confirm(person, options)
        erased = gallery.forget(person.id)
        try:
            # Log before erasing from the search engine, which may be down or interrupted.
            with closing(Stores.open(settings)) as stores:
                AuditLog(stores.audit).write("local", "forget", person=person.id)
        finally:
            if settings.index.startswith("milvus"):
                erased = _from_milvus_too(gallery, settings.index, erased)
    if options.json:
        _print_json({"person_id": erased.person_id, "photos": erased.photos,
                     "thumbnails": erased.thumbnails, "complete": erased.complete})  # fmt: skip
    else:
        photos, thumbnails = (
            wording.plural(erased.photos, "photo"),
            wording.plural(erased.thumbnails, "thumbnail"),
        )
        print(f"Erased {person.name}: {photos}, {thumbnails}.")
        if not erased.complete:
            print("Some traces are left: another program reads the gallery, or the search engine "
                  "is away. They go with the next write, sync or start.")  # fmt: skip
    return 0


def _from_milvus_too(gallery: Gallery, url: str, erased: Erased) -> Erased:
    from index.engines.open import open_index

    try:
        open_index(gallery, url).close()
    except IndexUnavailable:
        return replace(erased, complete=False)
    return erased


@contextmanager
def open_service(settings: Settings) -> Iterator[Any]:
    from app.service import FaceService

    service = FaceService.open(settings)
    try:
        yield service
    finally:
        service.close()


@contextmanager
def _gallery(settings: Settings) -> Iterator[Any]:
    from app.gallery_key import gallery_key
    from index.gallery import Gallery

    url = settings.gallery or None
    if url is None and not settings.gallery_folder.exists():
        raise UnknownPerson(f"There is no gallery in {settings.data} yet; nobody was enrolled.")
    secrets_url, key = settings.gallery_secrets or None, gallery_key(settings)
    with Gallery.open(
        settings.gallery_folder, url=url, secrets_url=secrets_url, key=key
    ) as gallery:
        yield gallery


def read_photo(path: Path, settings: Settings) -> bytes:
    """Read a photo file, up to one byte past the size limit."""
    try:
        with path.open("rb") as file:
            return file.read(settings.max_upload_bytes + 1)
    except OSError as error:
        raise BadImage(f"{str(path)!r} cannot be read: {error.strerror}.") from error


def _list_pairs(result: ChoiceNeeded) -> None:
    for pair in result.pairs:
        print(
            f"  --face-a {pair.face_a} --face-b {pair.face_b}: {pair.verdict.decision}, "
            f"score {pair.verdict.score:.4f}"
        )


def _confirm(person: Person, options: argparse.Namespace) -> None:
    if options.json or not sys.stdin.isatty():
        raise exit_codes.WrongUsage("Nothing was erased. Add --yes to erase without being asked.")
    answer = input(
        f"Erase {person.name} and {wording.plural(person.photos, 'photo')} for good? [y/N] "
    )
    if answer.strip().lower() != "y":
        raise exit_codes.WrongUsage("Nothing was erased.")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
