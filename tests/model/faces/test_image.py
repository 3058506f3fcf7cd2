"""The decoder: every kind of picture comes out right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from model.errors import BadImage
from model.faces.image import load_image
from tests.model.helpers import encoded, scene


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_are_exact(kind: str) -> None:
    np.testing.assert_array_equal(load_image(encoded(Image.fromarray(scene()), kind)), scene())


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "AVIF"])
def test_lossy_formats_are_close(kind: str) -> None:
    Image.init()
    if kind not in Image.SAVE:
        pytest.skip(f"this Pillow writes no {kind}")
    decoded = load_image(encoded(Image.fromarray(scene()), kind, quality=95))
    assert np.abs(decoded.astype(int) - scene()).mean() < 6


def test_heic_is_read_and_damage_to_it_is_named() -> None:
    """The file is :func:`scene`, written once by a program that can write HEIC; ours only reads."""
    data = Path(__file__).with_name("scene.heic").read_bytes()
    assert np.abs(load_image(data).astype(int) - scene()).mean() < 6
    for cut in range(8, len(data), 40):
        with pytest.raises(BadImage):
            load_image(data[:cut])


def test_every_source_gives_the_same_pixels(tmp_path: Path) -> None:
    picture = Image.fromarray(scene())
    data = encoded(picture, "PNG")
    path = tmp_path / "photo.png"
    path.write_bytes(data)
    for source in (data, bytearray(data), memoryview(data), path, str(path), picture, scene()):
        np.testing.assert_array_equal(load_image(source), scene())


def test_the_result_is_a_copy_contiguous_and_writable() -> None:
    pixels = scene()
    for source in (pixels, pixels[:, ::-1], Image.fromarray(pixels), np.asfortranarray(pixels)):
        decoded = load_image(source)
        assert decoded.flags.c_contiguous
        assert decoded.flags.writeable
        assert decoded.dtype == np.uint8
        assert not np.shares_memory(decoded, pixels)


UPRIGHT_TO_STORED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a.transpose(1, 0, 2)[::-1, ::-1],
    8: lambda a: np.rot90(a, -1),
}


@pytest.mark.parametrize("orientation", UPRIGHT_TO_STORED)
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
def test_exif_orientation_is_undone(orientation: int, kind: str) -> None:
    stored = np.ascontiguousarray(UPRIGHT_TO_STORED[orientation](scene()))
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(Image.fromarray(stored), kind, exif=exif, **options)
    np.testing.assert_array_equal(load_image(data), scene())


@pytest.mark.parametrize("exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b""])
def test_broken_exif_does_not_hide_the_picture(exif: bytes) -> None:
    data = encoded(Image.fromarray(scene()), "JPEG", exif=exif, quality=95)
    assert load_image(data).shape == scene().shape


def test_transparency_is_laid_on_white() -> None:
    rgba = np.dstack([scene(), np.full(scene().shape[:2], 255, np.uint8)])
    rgba[:, 20:, 3] = 0
    rgba[0, 0, 3] = 128
    for source in (encoded(Image.fromarray(rgba), "PNG"), rgba):
        decoded = load_image(source)
        assert (decoded[:, 20:] == 255).all()
        np.testing.assert_array_equal(decoded[1:, :20], scene()[1:, :20])
        expected = scene()[0, 0] * (128 / 255) + 255 * (127 / 255)
        np.testing.assert_allclose(decoded[0, 0], expected, atol=1)


def test_transparent_palette_is_laid_on_white() -> None:
    picture = Image.new("P", (4, 4), 0)
    picture.putpalette([10, 20, 30, 200, 100, 50])
    picture.putpixel((2, 2), 1)
    decoded = load_image(encoded(picture, "PNG", transparency=0))
    assert tuple(decoded[0, 0]) == (255, 255, 255)
    assert tuple(decoded[2, 2]) == (200, 100, 50)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "1", "CMYK", "YCbCr", "F", "I", "I;16"])
def test_every_pil_mode_becomes_rgb(mode: str) -> None:
    decoded = load_image(Image.new(mode, (5, 3)))
    assert decoded.shape == (3, 5, 3)
    assert decoded.dtype == np.uint8


def test_greyscale_fills_three_channels() -> None:
    grey = scene()[:, :, 0]
    decoded = load_image(encoded(Image.fromarray(grey), "PNG"))
    for channel in range(3):
        np.testing.assert_array_equal(decoded[:, :, channel], grey)


def test_cmyk_jpeg_keeps_its_colours() -> None:
    cmyk = Image.fromarray(scene()).convert("CMYK")
    decoded = load_image(encoded(cmyk, "JPEG", quality=95))
    assert np.abs(decoded.astype(int) - scene()).mean() < 6


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_clipped(kind: str) -> None:
    values = np.array([[0, 257, 32768, 65535]], np.uint16)
    decoded = load_image(encoded(Image.fromarray(values), kind))
    np.testing.assert_array_equal(decoded[0, :, 0], [0, 1, 128, 255])


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    red, green, blue = load_image(data)[4, 4]
    assert red > 240
    assert green < 15
    assert blue < 15


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[True, False]]), [255, 0]),
        (np.array([[0.0, 1.0]], np.float32), [0, 255]),
        (np.array([[0, 65535]], np.uint16), [0, 255]),
        (np.array([[7, 9]], np.uint8), [7, 9]),
    ],
)
def test_arrays_of_other_types(values: np.ndarray, expected: list[int]) -> None:
    np.testing.assert_array_equal(load_image(values)[0, :, 0], expected)
