"""Files from strangers, changed by structure: read, or refused with one of our own errors."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.batch.metadata import joined
from app.batch.sources import open_source
from index.gallery import Gallery
from model.bundle import Bundle
from model.bundle.bundle import ALIGNMENT
from model.bundle.files import _digest, sha256
from model.calibration import Calibration
from model.calibration.files import content_hash
from model.errors import FaceError
from tests.fuzzing import arrays, as_json, changed, damaged, many, odd_text, zips
from tests.index.helpers import MODEL, Faces
from tests.model.helpers import small_bundle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Duplicate name", "ignore::RuntimeWarning"),
]

KEY = bytes(range(32))
MANIFEST = "manifest.json"


def small_calibration(model_id: str) -> Calibration:
    random = np.random.default_rng(0)
    scores = (
        np.clip(random.normal(0.7, 0.1, 200), -1, 1),
        np.clip(random.normal(0, 0.1, 900), -1, 1),
    )
    return Calibration.from_scores(
        *scores, model_id=model_id, protocol="made up", data_fingerprint="none"
    )


def packed(members: dict[str, bytes], *, sums: bool = True) -> bytes:
    """An export of these members with the checksums they have."""
    if sums:
        with suppress(ValueError, RecursionError):
            manifest = json.loads(members[MANIFEST])
            if isinstance(manifest, dict) and isinstance(manifest.get("sha256"), dict):
                rest = {name: data for name, data in members.items() if name != MANIFEST}
                manifest["sha256"] = {
                    name: hashlib.sha256(data).hexdigest() for name, data in rest.items()
                }
                members = members | {MANIFEST: json.dumps(manifest).encode()}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


def exported(folder: Path, key: bytes | None) -> Path:
    faces = Faces()
    with Gallery.open(folder / "a", model_id=MODEL, key=key) as gallery:
        for number in range(2):
            gallery.enroll(f"Person {number}", faces.photos(number, 2), {"n": number}, "yes")
        return gallery.export(folder / "export")


def imported(gallery: Gallery, file: Path) -> None:
    """All of a file or nothing; what came in can be read, and is forgotten again."""
    try:
        gallery.import_(file)
    except FaceError:
        assert gallery.reader.count() == 0
    for person in gallery.reader.people():
        gallery.reader.photos(person.id)
        json.dumps(person.metadata)
        gallery.forget(person.id)


def test_exports(tmp_path: Path) -> None:
    with zipfile.ZipFile(exported(tmp_path, None)) as archive:
        good = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(good[MANIFEST])
    rows = {
        name: [json.loads(line) for line in good[name].splitlines()]
        for name in ("people.jsonl", "photos.jsonl")
    }
    file = tmp_path / "changed"
    with Gallery.open(tmp_path / "b", model_id=MODEL) as gallery:

        @many
        @given(st.data())
        def read(data: st.DataObject) -> None:
            members = dict(good)
            which = data.draw(st.sampled_from((*rows, MANIFEST, "embeddings.npy", "names", "")))
            if which in rows:
                lines = data.draw(changed(rows[which]))
                lines = lines if isinstance(lines, list) else [lines]
                members[which] = b"".join(as_json(line) + b"\n" for line in lines)
            elif which == MANIFEST:
                members[which] = as_json(data.draw(changed(manifest)))
            elif which == "embeddings.npy":
                members[which] = data.draw(arrays(len(rows["photos.jsonl"])))
            elif which == "names":
                old = data.draw(st.sampled_from(sorted(set(members) - {MANIFEST})))
                name = data.draw(odd_text).encode(errors="replace").decode()[:20_000]
                name = name.split("\0")[0]  # zipfile writes no more of it, and fails without
                members[name or "thumbnails/x"] = members.pop(old)
            whole = packed(members, sums=data.draw(st.integers(0, 9)) > 0)
            file.write_bytes(data.draw(damaged(whole)) if not which else whole)
            imported(gallery, file)

        read()


def test_sealed_exports(tmp_path: Path) -> None:
    sealed = exported(tmp_path, KEY).read_bytes()
    file = tmp_path / "changed"
    with Gallery.open(tmp_path / "b", model_id=MODEL, key=KEY) as gallery:

        @many
        @given(damaged(sealed))
        def read(data: bytes) -> None:
            file.write_bytes(data)
            imported(gallery, file)

        read()


def test_bundles(tmp_path: Path) -> None:
    original = small_bundle(tmp_path / "small")
    original = original.with_calibration(small_calibration(original.model_id))
    copy = Path(shutil.copytree(original.path, tmp_path / "copy"))
    good = json.loads((copy / "bundle.json").read_text())
    good.pop("digest")
    weights = (copy / "weights.safetensors").read_bytes()
    graph = (copy / "graph.onnx").read_bytes()

    @many
    @given(st.data())
    def read(data: st.DataObject) -> None:
        text = as_json(data.draw(changed(good)))
        (copy / "graph.onnx").write_bytes(data.draw(st.just(graph) | damaged(graph)))
        with suppress(ValueError, RecursionError, TypeError, KeyError, AttributeError):
            manifest = json.loads(text)
            described = [manifest["architecture"], manifest["preprocessing"], ALIGNMENT]
            core = weights if manifest["architecture"] else (copy / "graph.onnx").read_bytes()
            manifest["files"]["graph.onnx"] = sha256((copy / "graph.onnx").read_bytes())
            manifest["model_id"] = sha256(core + json.dumps(described, sort_keys=True).encode())
            text = json.dumps({**manifest, "digest": _digest(manifest)}).encode()
        (copy / "bundle.json").write_bytes(text)
        with suppress(FaceError):
            bundle = Bundle.load(copy)
            _ = bundle.calibration
            if data.draw(st.integers(0, 9)) == 0:  # slow: it reads all weights
                bundle.network()

    read()


def used(calibration: Calibration) -> None:
    """What a server asks of its calibration."""
    for score in (-1.0, 0.3, 0.9):
        calibration.decide(score, 1e-3, quality=0.5, prior=0.5)
    _ = calibration.targets, calibration.id
    calibration.to_json()


def test_calibrations(tmp_path: Path) -> None:
    good = small_calibration("model").to_dict()
    good.pop("id")
    good = json.loads(json.dumps(good))
    file = tmp_path / "calibration.json"

    @many
    @given(changed(good))
    def read(data: Any) -> None:
        text = as_json(data)
        with suppress(ValueError, RecursionError, TypeError):
            values = json.loads(text)
            text = json.dumps({"id": content_hash(values), **values}).encode()
        file.write_bytes(text)
        with suppress(FaceError):
            used(Calibration.load(file))

    read()


def opened(source: Path) -> None:
    """All items of a source, as a batch takes them."""
    with suppress(FaceError):
        items, _ = joined(open_source(source, 1000))
        for item in items:
            item.file.encode()
            item.name.encode()
            with suppress(FaceError):
                assert len(item.read()) <= 1001


def test_csv_sources(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"photo")
    table = [["name", "path", "consent", "team"], ["Ann", "a.jpg", "by mail", "blue"],
             ["Bo", "b.jpg", "", ""], ["Ann", "a.jpg", "", "red"]]  # fmt: skip
    file = tmp_path / "people.csv"
    codecs = ("utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-8")

    @many
    @given(changed(table), st.sampled_from(codecs), st.sampled_from(",;\t"), st.data())
    def read(rows: Any, codec: str, delimiter: str, data: st.DataObject) -> None:
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        for row in rows if isinstance(rows, list) else [rows]:
            writer.writerow([str(cell) for cell in (row if isinstance(row, list) else [row])])
        plain = text.getvalue() if data.draw(st.booleans()) else text.getvalue().replace('"', "")
        whole = plain.encode(codec, errors="replace")
        file.write_bytes(data.draw(st.just(whole) | damaged(whole)))
        opened(file)

    read()


def test_zip_sources(tmp_path: Path) -> None:
    file = tmp_path / "people.zip"

    @many
    @given(zips(), st.data())
    def read(whole: bytes, data: st.DataObject) -> None:
        file.write_bytes(data.draw(st.just(whole) | damaged(whole)))
        opened(file)

    read()
