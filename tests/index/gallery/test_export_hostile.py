"""Exports someone made to do harm: checksums fit, contents do not."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.gallery import Gallery
from model.errors import FaceError, GalleryError
from tests.index.helpers import MODEL, Faces

Members = dict[str, bytes]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Members:
    folder = tmp_path_factory.mktemp("good")
    faces = Faces()
    with Gallery.open(folder / "a", model_id=MODEL) as gallery:
        for number in range(2):
            gallery.enroll(f"Person {number}", faces.photos(number), {"n": number}, "yes")
        file = gallery.export(folder / "x")
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return Gallery.open(tmp_path_factory.mktemp("target") / "b", model_id=MODEL)


def forged(folder: Path, members: Members, packing: int = zipfile.ZIP_STORED) -> Path:
    """An export with these members and the checksums they have."""
    manifest = json.loads(members["manifest.json"])
    rest = {name: data for name, data in members.items() if name != "manifest.json"}
    if isinstance(manifest, dict) and isinstance(manifest.get("sha256"), dict):
        manifest["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in rest.items()}
    file = folder / "forged"
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, data in rest.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", json.dumps(manifest))
    return file


def test_members_may_not_share_their_bytes(tmp_path: Path, good: Members, target: Gallery) -> None:
    """Ten thousand names for one member of a megabyte would unfold to ten gigabytes."""
    file = forged(tmp_path, good | {"thumbnails/1": bytes(10_000)})
    with zipfile.ZipFile(file, "a") as archive:
        shared = copy.copy(archive.getinfo("thumbnails/1"))
        shared.filename = "thumbnails/2"
        archive.filelist.append(shared)
        archive.writestr("last", b"")
    with pytest.raises(GalleryError, match="packed by another program"):
        target.import_(file)


def changed(member: str, **fields: Any) -> Callable[[Members], Members]:
    """The first line of a member with other fields; a field set to ``...`` is left out."""

    def change(members: Members) -> Members:
        whole = member == "manifest.json"
        first, *rest = [members[member]] if whole else members[member].splitlines()
        record = {**json.loads(first), **fields}
        record = {key: value for key, value in record.items() if value is not ...}
        return members | {member: b"\n".join([json.dumps(record).encode(), *rest])}

    return change


def array(values: np.ndarray) -> Callable[[Members], Members]:
    target = io.BytesIO()
    np.lib.format.write_array(target, values)
    return lambda members: members | {"embeddings.npy": target.getvalue()}


def huge_array(members: Members) -> Members:
    head = io.BytesIO()
    shape = {"descr": "<f2", "fortran_order": False, "shape": (10**12, 512)}
    np.lib.format.write_array_header_1_0(head, shape)
    return members | {"embeddings.npy": head.getvalue() + bytes(100)}


def header(text: str) -> Callable[[Members], Members]:
    data = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode()
    return lambda members: members | {"embeddings.npy": data}


FORGERIES = {
    "no manifest": lambda members: members | {"manifest.json": b"[]"},
    "odd sums": changed("manifest.json", sha256=3),
    "odd version": changed("manifest.json", version=[]),
    "person is a list": lambda members: members | {"people.jsonl": b"[1, 2]"},
    "person is null": lambda members: members | {"people.jsonl": b"null"},
    "deep": lambda members: members | {"people.jsonl": b"[" * 100_000},
    "id is a dict": changed("people.jsonl", id={}),
    "id is a path": changed("people.jsonl", id="../../etc"),
    "no name": changed("people.jsonl", name=...),
    "name is a number": changed("people.jsonl", name=7),
    "name has a control character": changed("people.jsonl", name="Ann\u202eLee"),
    "name is long": changed("people.jsonl", name="x" * 201),
    "consent is a list": changed("people.jsonl", consent=["<script>"]),
    "metadata is text": changed("people.jsonl", metadata="x"),
    "photo has an unknown field": changed("photos.jsonl", thumbnail="x"),
    "photo of a list": changed("photos.jsonl", person_id=[]),
    "quality is text": changed("photos.jsonl", quality="high"),
    "quality is huge": changed("photos.jsonl", quality=1e300),
    "note is a number": changed("photos.jsonl", note=7),
    "hash is null": changed("photos.jsonl", content_hash=None),
    "created is text": changed("people.jsonl", created="yesterday"),
    "created is a list": changed("photos.jsonl", created=[]),
    "created is true": changed("photos.jsonl", created=True),
    "created is negative": changed("people.jsonl", created=-1),
    "created is not a number": changed("photos.jsonl", created=float("nan")),
    "created is in the far future": changed("photos.jsonl", created=time.time() + 10**6),
    "updated is infinite": changed("people.jsonl", updated=float("inf")),
    "updated is huge": changed("people.jsonl", updated=10**400),
    "too few vectors": array(np.ones((1, 512), np.float16)),
    "vectors are numbers": array(np.ones(2, np.float16)),
    "vectors are not finite": array(np.full((2, 512), np.nan, np.float16)),
    "vectors are text": array(np.full((2, 512), "x")),
    "more vectors than memory": huge_array,
    "header ends early": header("{'descr': ("),
    "header is indented oddly": header("if x:\n  a\n b"),
}  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_export_is_refused_as_a_whole(
    tmp_path: Path, good: Members, target: Gallery, forge: Callable[[Members], Members]
) -> None:
    with pytest.raises(GalleryError):
        target.import_(forged(tmp_path, forge(good)))
    assert target.reader.count() == 0


def without(data: bytes, *fields: str) -> bytes:
    """The lines of a member without fields they all have."""
    lines = [json.loads(line) for line in data.splitlines()]
    assert all(line.pop(field) for line in lines for field in fields)
    return "\n".join(map(json.dumps, lines)).encode()


def test_an_export_from_before_there_were_notes_and_dates_is_imported(
    tmp_path: Path, good: Members
) -> None:
    members = changed("manifest.json", version=1)(good)
    members["people.jsonl"] = without(good["people.jsonl"], "created", "updated")
    members["photos.jsonl"] = without(good["photos.jsonl"], "note", "created")
    before = time.time()
    with Gallery.open(tmp_path / "b", model_id=MODEL) as gallery:
        assert gallery.import_(forged(tmp_path, members)) == 2
        people = gallery.reader.people()
        photos = [photo for each in people for photo in gallery.reader.photos(each.id)]
    assert {photo.note for photo in photos} == {""}
    dates = [*(each.created for each in (*people, *photos)), *(each.updated for each in people)]
    assert all(before <= date <= time.time() for date in dates)


def test_a_packed_export_is_refused_before_it_unfolds(
    tmp_path: Path, good: Members, target: Gallery
) -> None:
    bomb = forged(tmp_path, good | {"people.jsonl": bytes(50_000_000)}, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1_000_000
    with pytest.raises(GalleryError, match="packed"):
        target.import_(bomb)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    where=st.sampled_from(["people.jsonl", "photos.jsonl"]),
    field=st.sampled_from(
        ["id", "name", "metadata", "consent", "person_id", "quality", "created", "updated", "x"]
    ),
    value=junk,
)
def test_any_value_in_any_field_is_imported_or_refused(
    tmp_path: Path, good: Members, target: Gallery, where: str, field: str, value: Any
) -> None:
    file = forged(tmp_path, changed(where, **{field: value})(good))
    try:
        target.import_(file)
    except FaceError:
        assert target.reader.count() == 0
    for person in target.reader.people():
        assert isinstance(person.name, str)
        assert isinstance(person.consent, str)
        target.forget(person.id)


@pytest.mark.parametrize(
    "changed",
    [{"consent": "x" * 10_001}, {"name": "x" * 10_001}, {"metadata": {"n": "x" * 50_001}}],
    ids=["consent", "name", "metadata"],
)
def test_imported_texts_are_bounded(
    tmp_path: Path, good: Members, target: Gallery, changed: dict[str, Any]
) -> None:
    people = [json.loads(line) for line in good["people.jsonl"].splitlines()]
    people[0] |= changed
    lines = "".join(json.dumps(person) + "\n" for person in people).encode()
    with pytest.raises(GalleryError):
        target.import_(forged(tmp_path, good | {"people.jsonl": lines}))
    assert target.reader.count() == 0
