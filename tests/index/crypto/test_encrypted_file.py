from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.crypto import encrypted_file
from index.crypto.encrypted_file import EncryptedReader, EncryptedWriter
from model.errors import WrongKey

KEY = bytes(range(32))
CHUNK = 64


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encrypted_file, "CHUNK_BYTES", CHUNK)


def written(data: bytes, pieces: int = 1) -> io.BytesIO:
    file = io.BytesIO()
    with EncryptedWriter(file, KEY) as stream:
        for part in np.array_split(np.frombuffer(data, np.uint8), pieces):
            stream.write(part.tobytes())
    return file


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 500])
@pytest.mark.parametrize("pieces", [1, 7])
def test_any_length_comes_back(size: int, pieces: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert EncryptedReader(written(data, pieces), KEY).read() == data


def test_same_content_never_looks_the_same() -> None:
    assert written(b"x" * 200).getvalue()[24:] != written(b"x" * 200).getvalue()[24:]


@settings(deadline=None, max_examples=50)
@given(start=st.integers(0, 400), count=st.integers(0, 400))
def test_reading_from_anywhere(start: int, count: int) -> None:
    data = np.random.default_rng(1).bytes(300)
    reader = EncryptedReader(written(data), KEY)
    reader.seek(start)
    assert reader.read(count) == data[start : start + count]


def test_damage_cuts_swaps_and_wrong_keys_are_noticed() -> None:
    data = bytes(range(256)) * 2
    good = written(data).getvalue()
    step = CHUNK + encrypted_file.TAG_BYTES
    head = encrypted_file.HEAD_BYTES
    first, second = good[head : head + step], good[head + step : head + 2 * step]
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    for bad, key in (
        (good, bytes(32)),
        (bytes(flipped), KEY),
        (good[: head + 3 * step], KEY),
        (good[:-5], KEY),
        (good[:head] + second + first + good[head + 2 * step :], KEY),
        (good[:10], KEY),
        (b"something else entirely, long enough to have a head", KEY),
    ):
        with pytest.raises(WrongKey):
            EncryptedReader(io.BytesIO(bad), key).read()
