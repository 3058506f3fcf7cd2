"""The only image decoder: returns an upright RGB array or raises BadImage.

Input is untrusted. Size limits are checked on the header, before any pixel is decoded, and every
error or warning of Pillow becomes a one-sentence BadImage.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pi_heif
from PIL import ExifTags, Image, ImageOps

from model.errors import BadImage, ImageTooLarge
from model.faces.picture import Picture

MAX_BYTES = 64 * 1024 * 1024
"""Largest file decoded, in bytes."""

MAX_PIXELS = 100_000_000
"""Largest picture decoded, width times height: 100 megapixels, 300 MB as RGB."""

MAX_SIDE = 30_000
"""Longest side decoded, in pixels."""

MAX_ASPECT = 100
"""Largest ratio of the longer to the shorter side. A strip one pixel wide takes far more memory
than a photo with as many pixels, and shows no face."""

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "MPO", "PPM", "HEIF")
"""Formats accepted. Pillow reads many more, but each one adds attack surface."""

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif",
                      ".heic", ".heif", ".ppm"})  # fmt: skip
"""File name suffixes of these formats; used to find the photos in a folder."""

FORMAT_HINT = "Use JPEG, PNG, WebP, HEIC, AVIF or TIFF."
"""Advice for files of an unsupported format."""

pi_heif.register_heif_opener()

# load_image repairs or rejects whatever Pillow warns about. Set once for the process, because
# warnings.catch_warnings is not thread-safe.
warnings.filterwarnings("ignore", module=r"PIL\.")

COARSE_SIDE = 900
"""Shortest longest side in pixels of the first copy of a large JPEG. Smaller photos, such as all
that calibrations measure, are decoded whole."""

_SIXTEEN_BIT_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I")

UPRIGHT = 1
"""EXIF orientation of a picture that is stored upright."""

ON_ITS_SIDE = (5, 6, 7, 8)
"""EXIF orientations of a picture whose width is stored as its height."""

DRAFTS = (2, 4, 8)
"""How many times smaller a JPEG can be decoded."""

ImageSource = bytes | bytearray | memoryview | str | os.PathLike | Image.Image | np.ndarray


def load_image(
    source: ImageSource, *, max_bytes: int = MAX_BYTES, max_pixels: int = MAX_PIXELS
) -> np.ndarray:
    """Decode a photo.

    Applies the EXIF orientation, composites transparency on white, takes the first frame of an
    animation and scales 16-bit values to 8 bits.

    Args:
        source: The encoded file as bytes or path, a PIL image, or an array: ``(H, W)`` or
            ``(H, W, 1|3|4)``, uint8, uint16, bool or float in ``[0, 1]``.
        max_bytes: Larger files are rejected.
        max_pixels: Larger pictures are rejected before decoding.

    Returns:
        uint8 array ``(H, W, 3)``, RGB, upright, C-contiguous and writable.

    Raises:
        BadImage: The input is empty, not a picture, damaged, or beyond a limit.
    """
    if isinstance(source, np.ndarray):
        return _from_array(source, max_pixels)
    if isinstance(source, Image.Image):
        with _bad_image("The image", max_pixels):
            _check_pixels(source.width, source.height, "The image", max_pixels)
            return _from_pil(source, max_pixels)
    return _decode(*_encoded(source, max_bytes), max_pixels).pixels()


def open_image(
    source: bytes | str | os.PathLike,
    *,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> Picture:
    """Decode a photo as :func:`load_image` does, but a large JPEG only as finely as needed.

    A JPEG decodes at a half, a quarter or an eighth of its size in a fraction of the time. The
    first copy is fine enough to find a large face; see :meth:`Picture.pixels` for finer ones.
    """
    data, name = _encoded(source, max_bytes)
    picture = _decode(data, name, max_pixels, COARSE_SIDE)
    picture.finer = lambda side: _decode(data, name, max_pixels, side).pixels()
    return picture


def _decode(data: bytes, name: str, max_pixels: int, side: float = np.inf) -> Picture:
    """Decode a file to a longest side of at least ``side`` pixels, or whole."""
    with (
        _bad_image(name, max_pixels),
        Image.open(io.BytesIO(data), formats=_readable_formats()) as picture,
    ):
        width, height = picture.size
        _check_pixels(width, height, name, max_pixels)
        shrink = max((each for each in DRAFTS if max(picture.size) >= each * side), default=1)
        if shrink > 1:  # only JPEG can; other formats ignore it
            picture.draft(None, (width // shrink, height // shrink))
        if picture.size == (width, height):
            return Picture(_from_pil(picture, max_pixels))
        shape = (width, height, 3) if _orientation(picture) in ON_ITS_SIDE else (height, width, 3)
        return Picture(_from_pil(picture, max_pixels), shape=shape)


@contextmanager
def _bad_image(name: str, max_pixels: int) -> Iterator[None]:
    """Turn every error of Pillow into a BadImage that names the file."""
    try:
        yield
    except BadImage:
        raise
    except Image.DecompressionBombError:
        raise ImageTooLarge(
            f"{name} unpacks to more than the {max_pixels / 1e6:.0f} megapixels that are accepted. "
            "Make the picture smaller."
        ) from None
    except Image.UnidentifiedImageError:
        raise BadImage(f"{name} is not a picture this program reads. {FORMAT_HINT}") from None
    except Exception as error:
        # Pillow's plugins raise nearly every built-in exception on damaged input.
        raise BadImage(
            f"{name} looks like a picture but cannot be decoded ({_brief(error)}). "
            "It may be cut short or damaged; save it again or choose another."
        ) from error


def encoded_pixels(data: bytes) -> int:
    """Read width times height from a file's header; 0 if it is not a picture."""
    try:
        with Image.open(io.BytesIO(data), formats=_readable_formats()) as picture:
            return picture.width * picture.height
    except Exception:  # load_image reports what is wrong
        return 0


def _readable_formats() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def _encoded(source: object, max_bytes: int) -> tuple[bytes, str]:
    """Return the file's bytes, within the limit, and its name for messages."""
    if isinstance(source, bytes | bytearray | memoryview):
        data, name = bytes(source), "The file"
    elif isinstance(source, str | os.PathLike):
        data, name = _read(Path(source), max_bytes)
    else:
        raise ValueError(
            f"source is {type(source).__name__}; give bytes, a path, a PIL image or an array."
        )
    if not data:
        raise BadImage(f"{name} is empty (0 bytes). Choose another file.")
    if len(data) > max_bytes:
        raise ImageTooLarge(_too_long(name, len(data), max_bytes))
    return data, name


def _read(path: Path, max_bytes: int) -> tuple[bytes, str]:
    name = f"The file {path.name!r}"
    try:
        # A named pipe or a device would block or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadImage(f"{name} is not a regular file. Give the path of a picture.")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise ImageTooLarge(_too_long(name, size, max_bytes))
            return file.read(max_bytes + 1), name
    except (OSError, ValueError) as error:
        raise BadImage(f"{name} cannot be read: {_brief(error)}.") from error


def _too_long(name: str, length: int, max_bytes: int) -> str:
    return (
        f"{name} has {length / 1e6:.1f} MB; at most {max_bytes / 1e6:.1f} MB are accepted. "
        "Save the picture smaller."
    )


def _brief(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0].rstrip(".")[:120]


def _check_pixels(width: int, height: int, name: str, max_pixels: int) -> None:
    if width < 1 or height < 1:
        raise BadImage(f"{name} has no pixels ({width}x{height}). Choose another file.")
    if width * height > max_pixels:
        raise ImageTooLarge(
            f"{name} has {width}x{height} pixels ({width * height / 1e6:.0f} megapixels); at most "
            f"{max_pixels / 1e6:.0f} megapixels are accepted. Make the picture smaller."
        )

    if max(width, height) > min(MAX_SIDE, MAX_ASPECT * min(width, height)):
        raise ImageTooLarge(
            f"{name} has {width}x{height} pixels; no side may be longer than {MAX_SIDE} pixels, "
            f"nor {MAX_ASPECT} times as long as the other. Cut the picture."
        )


def _orientation(picture: Image.Image) -> int:
    return picture.getexif().get(ExifTags.Base.Orientation, UPRIGHT)


def _from_pil(picture: Image.Image, max_pixels: int) -> np.ndarray:
    picture.load()
    if _orientation(picture) != UPRIGHT:
        picture = ImageOps.exif_transpose(picture)
    if picture.mode in _SIXTEEN_BIT_MODES:
        # Pillow would clip 16-bit values at 255 instead of scaling them.
        values = np.asarray(picture).astype(np.int64)
        return _from_array(np.clip(values, 0, 65535).astype(np.uint16), max_pixels)
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    return np.array(picture if picture.mode == "RGB" else picture.convert("RGB"))


def _from_array(values: np.ndarray, max_pixels: int) -> np.ndarray:
    if values.ndim == 2:
        values = values[:, :, None]
    if values.ndim != 3 or values.shape[2] not in (1, 3, 4):
        raise BadImage(f"An array of shape {values.shape} is no picture; give (H, W, 3).")
    _check_pixels(values.shape[1], values.shape[0], "The array", max_pixels)
    if values.dtype == np.uint16:
        values = ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    elif values.dtype == bool:
        values = values.astype(np.uint8) * 255
    elif values.dtype.kind == "f":
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
            raise BadImage("An array of floats must hold finite values between 0 and 1.")
        values = np.rint(values * 255).astype(np.uint8)
    elif values.dtype != np.uint8:
        raise BadImage(f"An array of {values.dtype} is no picture; give uint8.")
    if values.shape[2] == 1:
        values = np.repeat(values, 3, axis=2)
    elif values.shape[2] == 4:
        alpha = values[:, :, 3:].astype(np.uint32)
        values = ((values[:, :, :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(np.uint8)
    return np.array(values, order="C")
