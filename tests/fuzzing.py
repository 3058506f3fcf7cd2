"""Fuzzing by structure: valid JSON with values, types, sizes, keys and depths changed.

``FUZZ_CASES`` is the number of cases for each target.
"""

from __future__ import annotations

import copy
import io
import json
import os
import re
import struct
import zipfile
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

CASES = int(os.environ.get("FUZZ_CASES", "300"))
SECONDS = 5
"""The longest that one case may take."""

many = settings(
    max_examples=CASES,
    deadline=SECONDS * 1000,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)

ODD_TEXTS = (
    "", " ", "\0", "\n", "\ud800", "\udcff", "\u202eeeL", "A\u030a", "\u2028", "\ufeff", "\uffff",
    "\U0001f469\u200d\U0001f680", "ﷺ", "İ", "ß", "x" * 201, "x" * 3000, "é" * 70_000,
    "../../etc/passwd", "/dev/zero", "=cmd()", "%00", "%s%n", "{0}", "' OR 1=1 --", "null", "true",
    "NaN", "1e400", "-0", "0x10", "１", "a\tb;c,d\"", "data:image/png;base64,", "AAAA", "A",
    "data:;base64,AAAA", "http://127.0.0.1/",
)  # fmt: skip
ODD_NUMBERS = (
    0, -1, 1, 2, 100, 1001, 2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400,
    0.5, 1e-320, 1e308, -0.0, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
RAW = {
    "@digits": "9" * 5000,
    "@fraction": "0." + "3" * 5000,
    "@large": "1e999999999",
    "@half": '"\\ud83d"',
    "@open": "[" * 9000,
    "@wide": "[" + "0," * 4000 + "0]",
    "@twice": '{"name": 1, "name": 2}',
    "@broken": '"\\u12"',
}
"""Values no JSON encoder writes; a text of this name in a value becomes them."""

odd_text = st.sampled_from(ODD_TEXTS) | st.text(max_size=12)
depths = st.builds("@{}:{}".format, st.sampled_from(("lists", "objects")), st.integers(1, 4000))
leaf = (
    st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | odd_text
    | st.integers() | st.floats() | st.sampled_from(sorted(RAW)) | depths
)  # fmt: skip
junk = leaf | st.recursive(
    leaf,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_text, inner, max_size=3),
    max_leaves=5,
)


def as_json(value: Any) -> bytes:
    """A value as JSON, its raw and deep parts filled in; half characters stay escaped."""

    def filled(match: re.Match[str]) -> str:
        kind, depth = match[1], int(match[2] or 0)
        if kind == "lists":
            return "[" * depth + "]" * depth
        if kind == "objects":
            return '{"a":' * depth + "1" + "}" * depth
        return RAW.get("@" + kind, match[0])

    return re.sub(r'"@([a-z]+):?(\d{0,4})"', filled, json.dumps(value)).encode()


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container within a value, with each of its keys."""
    if isinstance(value, dict):
        keys: list[Any] = list(value)
    elif isinstance(value, list):
        # Of a long row the ends are enough.
        keys = sorted({*range(min(3, len(value))), *range(max(0, len(value) - 2), len(value))})
    else:
        return []
    found = [(value, key) for key in keys]
    for key in keys:
        found += places(value[key])
    return found


@st.composite
def changed(draw: st.DrawFn, original: Any, most: int = 3) -> Any:
    """A copy of a JSON value with up to ``most`` changes anywhere in it."""
    box = [copy.deepcopy(original)]
    for _ in range(draw(st.integers(0, most))):
        inside, key = draw(st.sampled_from(places(box)))
        value = inside[key]
        way = draw(st.integers(0, 8))
        if way == 0 and inside is not box:
            del inside[key]
        elif way == 1 and isinstance(inside, dict):
            inside[draw(odd_text)] = draw(junk)
        elif way == 2 and isinstance(inside, list) and inside is not box:
            inside.extend([value] * draw(st.sampled_from((1, 2, 30))))
        elif way == 3:
            inside[key] = draw(st.sampled_from(([value], {"a": value}, str(value), [[value] * 2])))
        elif way == 4 and type(value) in (int, float) and abs(value) < 1e300:
            inside[key] = draw(st.sampled_from((-value, value + 1, value * 10**9, value / 7)))
        elif way == 5 and isinstance(value, str):
            inside[key] = value + draw(odd_text)
        elif way == 6 and isinstance(inside, dict):
            inside[key], other = inside[draw(st.sampled_from(sorted(inside)))], value
            inside[draw(odd_text)] = other
        else:
            inside[key] = draw(junk)
    return box[0]


@st.composite
def damaged(draw: st.DrawFn, original: bytes, most: int = 3) -> bytes:
    """Bytes with up to ``most`` places cut, exchanged or repeated."""
    data = bytearray(original)
    for _ in range(draw(st.integers(0, most))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from((0, 1, 2, 4, 8, 100)))
        fresh = draw(
            st.binary(max_size=8)
            | st.sampled_from((b"\xff" * 4, bytes(4), b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0"))
            | st.just(bytes(data[place : place + 50]) * 2)
        )
        data[place : place + length] = fresh
    return bytes(data)


@st.composite
def arrays(draw: st.DrawFn, rows: int) -> bytes:
    """A ``.npy`` whose header and size may not fit."""
    kind = draw(
        st.sampled_from(("<f2", ">f2", "<f4", "<i8", "|O", "|S9", "<U4", "<c8", "|V8", "<M8[s]"))
    )
    shape = draw(
        st.sampled_from(((rows, 64), (64, rows), (rows,), (), (0, 64), (rows, 10**9), (-1, 64)))
    )
    head = f"{{'descr': '{kind}', 'fortran_order': {draw(st.booleans())}, 'shape': {shape}, }}"
    text = draw(damaged(head.encode() + b"\n", 2))
    version = draw(st.sampled_from((b"\1\0", b"\2\0", b"\3\0", b"\x09\0")))
    length = struct.pack("<H" if version == b"\1\0" else "<I", len(text))
    values = draw(st.sampled_from((0.1, float("nan"), float("inf"), 0.0)))
    body = np.full((rows, 64), values, np.float16).tobytes()
    return b"\x93NUMPY" + version + length + text + draw(st.just(body) | damaged(body))


ZIP_NAMES = (
    "", "/", "Ann/1.jpg", "Ann_0001.jpg", "../a.jpg", "/a.jpg", "a//b.jpg", ".jpg", "Ann/.jpg",
    "_" * 60_000 + ".jpg", "a/" * 20_000 + "1.jpg", "C:\\Ann\\1.jpg", "1" * 60_000 + "a.jpg",
)  # fmt: skip


@st.composite
def zips(draw: st.DrawFn) -> bytes:
    """A zip with odd names and packings, whose lists of contents may then say other things."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for _ in range(draw(st.integers(0, 4))):
            name = draw(st.sampled_from(ZIP_NAMES) | odd_text.map(lambda text: text + "/1.jpg"))
            entry = zipfile.ZipInfo("x")
            entry.filename = name.encode(errors="replace").decode()[-60_000:]
            if not name.isascii():
                entry.filename = entry.filename[-20_000:]
            entry.compress_type = draw(st.sampled_from((0, 8, 12, 14, 0, 8)))
            entry.extra = draw(
                st.just(b"") | st.sampled_from((b"\1\0\x08\0" + b"\xff" * 8, b"\1\0"))
            )
            archive.writestr(entry, b"photo" * draw(st.sampled_from((0, 1, 1000))))
        archive.comment = draw(st.binary(max_size=3))
    data = bytearray(target.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        marks = (b"PK\1\2", b"PK\3\4", b"PK\5\6")
        start = data.find(draw(st.sampled_from(marks)))
        if start >= 0:
            place = start + draw(st.integers(4, 45))
            fresh = draw(
                st.sampled_from((b"\xff\xff", b"\xff" * 4, bytes(4), b"\1", b"\x63\0", b"\x08"))
            )
            data[place : place + len(fresh)] = fresh
    if draw(st.integers(0, 3)) == 0:
        end = max(0, data.rfind(b"PK\5\6"))
        sizes = struct.pack(
            "<IQI",
            draw(st.integers(0, 2)),
            draw(st.sampled_from((0, end, 2**63))),
            draw(st.integers(0, 2)),
        )
        data[end:end] = b"PK\6\7" + sizes
    return bytes(data)
