"""The decoder: whatever is damaged, too large or no picture at all is BadImage."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from model.errors import BadImage, ImageTooLarge
from model.faces.image import FORMATS, load_image
from tests.model.helpers import encoded, scene
from tests.paths import ROOT


def png_claiming(width: int, height: int) -> bytes:
    """A well-formed PNG header for a picture of any size, with next to no data behind it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.zeros((3, 4, 2), np.uint8), "shape"),
        (np.zeros((2, 3, 4, 3), np.uint8), "shape"),
        (np.zeros(7, np.uint8), "shape"),
        (np.zeros((0, 5, 3), np.uint8), "no pixels"),
        (np.full((3, 3, 3), 200.0), "between 0 and 1"),
        (np.full((3, 3, 3), np.nan), "finite"),
        (np.zeros((3, 3, 3), np.int64), "int64"),
        (np.empty((2, 2), object), "object"),
    ],
)
def test_arrays_that_are_no_pictures(values: np.ndarray, says: str) -> None:
    with pytest.raises(BadImage, match=says):
        load_image(values)


JPEG = encoded(Image.fromarray(scene(200, 150)), "JPEG", quality=90)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"Dear Sir or Madam,\n" * 50, "not a picture", id="text"),
        pytest.param(b"%PDF-1.7\n" + b"x" * 500, "not a picture", id="pdf"),
        pytest.param(
            b"\x89PNG\r\n\x1a\n", "cannot be decoded|not a picture", id="only a signature"
        ),
        pytest.param(JPEG[: len(JPEG) // 2], "cut short", id="truncated jpeg"),
        pytest.param(encoded(Image.fromarray(scene()), "PNG")[:-60], "cut short", id="cut png"),
        pytest.param(png_claiming(60_000, 60_000), "megapixels", id="bomb"),
        pytest.param(png_claiming(0, 10), "cannot be decoded|not a picture|no pixels", id="zero"),
        pytest.param(png_claiming(50, 50), "cut short", id="missing data"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture", id="svg"),
        pytest.param(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a pict", id="eps"),
    ],
)
def test_bad_files_are_bad_images(data: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "holiday.jpg"
    path.write_bytes(data)
    with pytest.raises(BadImage, match=says):
        load_image(data)
    with pytest.raises(BadImage, match=r"holiday\.jpg"):
        load_image(path)


def test_no_warning_of_pillow_escapes(tmp_path: Path) -> None:
    """In a process where every warning is an error, warned-about pictures still decode."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0\xff\xff\0\0"
    (tmp_path / "exif.jpg").write_bytes(encoded(Image.fromarray(scene()), "JPEG", exif=exif))
    (tmp_path / "large.png").write_bytes(png_claiming(9_500, 9_500))
    program = (
        "import sys; from model.errors import BadImage; from model.faces.image import load_image\n"
        "print(load_image(sys.argv[1]).shape)\n"
        "try: load_image(sys.argv[2])\n"
        "except BadImage as error: print('truncated' in error.message)\n"
    )
    paths = [tmp_path / "exif.jpg", tmp_path / "large.png"]
    done = subprocess.run(
        [sys.executable, "-Werror::UserWarning", "-Werror::RuntimeWarning", "-c", program, *paths],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.split("\n")[:2] == ["(24, 40, 3)", "True"]
    assert done.stderr == ""


def test_limits_hold_before_decoding() -> None:
    data = encoded(Image.fromarray(scene(100, 100)), "PNG")
    assert load_image(data, max_bytes=len(data), max_pixels=10_000).shape == (100, 100, 3)
    with pytest.raises(BadImage, match="MB"):
        load_image(data, max_bytes=len(data) - 1)
    for source in (data, scene(100, 100), Image.fromarray(scene(100, 100))):
        with pytest.raises(BadImage, match="100x100"):
            load_image(source, max_pixels=9_999)


@pytest.mark.parametrize("size", [(1, 49_000_000), (49_000_000, 1), (40_000, 500), (10, 2000)])
def test_strips_are_refused_before_decoding(size: tuple[int, int]) -> None:
    with pytest.raises(ImageTooLarge):
        load_image(png_claiming(*size))


def test_a_panorama_is_read() -> None:
    assert load_image(np.zeros((20, 2000, 3), np.uint8)).shape == (20, 2000, 3)


def test_a_long_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "huge.jpg"
    with path.open("wb") as file:
        file.truncate(10 * 2**40)
    with pytest.raises(BadImage, match=r"huge\.jpg"):
        load_image(path)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "missing.jpg", tmp_path, tmp_path / "pipe.jpg", "a\0b", "x" * 5000):
        with pytest.raises(BadImage):
            load_image(path)


def test_a_pil_image_that_cannot_be_loaded_is_a_bad_image() -> None:
    lazy = Image.open(io.BytesIO(JPEG[: len(JPEG) // 2]))
    with pytest.raises(BadImage, match="cut short"):
        load_image(lazy)


def test_other_types_are_value_errors() -> None:
    with pytest.raises(ValueError, match="int"):
        load_image(3)


def test_no_format_that_runs_programs_is_read() -> None:
    assert not {"EPS", "WMF", "PDF", "FPX", "MIC"} & set(FORMATS)


def assert_array_or_bad_image(data: bytes) -> None:
    try:
        decoded = load_image(data, max_pixels=1_000_000)
    except BadImage:
        return
    assert decoded.ndim == 3
    assert decoded.shape[2] == 3
    assert decoded.dtype == np.uint8


SEEDS = [
    JPEG,
    encoded(Image.fromarray(scene()), "PNG"),
    encoded(Image.fromarray(scene()), "GIF"),
    encoded(Image.fromarray(scene()), "BMP"),
    encoded(Image.fromarray(scene()), "TIFF", compression="tiff_lzw"),
    encoded(Image.fromarray(scene()), "WEBP"),
    encoded(Image.fromarray(scene()), "PPM"),
]


@settings(deadline=None, max_examples=400)
@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=0, max_size=6)), max_size=6),
    keep=st.floats(0.1, 1),
)
def test_mutated_files_give_an_array_or_bad_image(
    seed: bytes, edits: list[tuple[float, bytes]], keep: float
) -> None:
    data = bytearray(seed[: int(len(seed) * keep)])
    for position, patch in edits:
        at = int(position**3 * len(data))
        data[at : at + len(patch)] = patch
    assert_array_or_bad_image(bytes(data))


@settings(deadline=None, max_examples=100)
@given(data=st.binary(max_size=300))
def test_random_bytes_give_an_array_or_bad_image(data: bytes) -> None:
    assert_array_or_bad_image(data)
