"""Encrypted files with streaming writes and random-access reads.

Layout: magic, 16 random bytes, then chunks of 4 MiB, each encrypted with AES-256-GCM. The file's
key is derived from the caller's key and the random bytes. The nonce is the chunk's number with a
flag on the last one, so that swapped chunks and truncated files are detected.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from model.errors import WrongKey

MAGIC = b"FACESEA1"
SALT_BYTES = 16
CHUNK_BYTES = 4 << 20
TAG_BYTES = 16
HEAD_BYTES = len(MAGIC) + SALT_BYTES


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), length=32, salt=salt, info=MAGIC).derive(key))


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def is_encrypted(path: os.PathLike[str] | str) -> bool:
    """Whether the file at ``path`` starts like an encrypted file."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class EncryptedWriter(io.RawIOBase):
    """A write-only stream into ``file``; closing it writes the last chunk.

    Args:
        file: An open binary file; the caller closes it.
        key: 32 bytes.
    """

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        super().__init__()
        self._file = file
        salt = os.urandom(SALT_BYTES)
        self._cipher = _cipher(key, salt)
        self._buffer = bytearray()
        self._number = 0
        file.write(MAGIC + salt)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")
        for start in range(0, len(view), CHUNK_BYTES):
            self._buffer += view[start : start + CHUNK_BYTES]
            # The last chunk has a flag, so always keep one full chunk in the buffer.
            while len(self._buffer) > CHUNK_BYTES:
                self._flush_chunk(bytes(self._buffer[:CHUNK_BYTES]), last=False)
                del self._buffer[:CHUNK_BYTES]
        return len(view)

    def _flush_chunk(self, chunk: bytes, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last), chunk, MAGIC))
        self._number += 1

    def close(self) -> None:
        if not self.closed:
            self._flush_chunk(bytes(self._buffer), last=True)
            self._buffer.clear()
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._buffer.clear()
            super().close()


class EncryptedReader(io.RawIOBase):
    """A seekable read-only stream of a file written by :class:`EncryptedWriter`.

    Args:
        file: An open, seekable binary file; the caller closes it.

    Raises:
        WrongKey: If the file is not encrypted by this program or is truncated; on reading, if the
            key is wrong or the file is damaged.
    """

    def __init__(self, file: io.BufferedIOBase | io.FileIO, key: bytes) -> None:
        super().__init__()
        self._file = file
        file.seek(0)
        head = file.read(HEAD_BYTES)
        if len(head) < HEAD_BYTES or not head.startswith(MAGIC):
            raise WrongKey("The file is not a sealed file of this program.")
        self._cipher = _cipher(key, head[len(MAGIC) :])
        body = file.seek(0, os.SEEK_END) - HEAD_BYTES
        self._chunks = max(1, -(-body // (CHUNK_BYTES + TAG_BYTES)))
        self._size = body - self._chunks * TAG_BYTES
        if self._size < 0:
            raise WrongKey("The sealed file is cut off.")
        self._position = 0
        self._sealed = memoryview(bytearray(CHUNK_BYTES + TAG_BYTES))
        self._plain = memoryview(bytearray(CHUNK_BYTES))
        self._loaded = -1
        self._chunk = self._plain[:0]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, target: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(target).cast("B")
        wanted = min(len(view), self._size - self._position)
        done = 0
        while done < wanted:
            number, offset = divmod(self._position, CHUNK_BYTES)
            if offset == 0 and wanted - done >= CHUNK_BYTES:
                # Decrypt a whole chunk directly into the target, without a copy.
                count = self._open(number, view[done : done + CHUNK_BYTES])
            else:
                chunk = self._load(number)
                count = min(wanted - done, len(chunk) - offset)
                view[done : done + count] = chunk[offset : offset + count]
            self._position += count
            done += count
        return done

    def _load(self, number: int) -> memoryview:
        if number != self._loaded:
            self._loaded = -1
            self._chunk = self._plain[: self._open(number, self._plain)]
            self._loaded = number
        return self._chunk

    def _open(self, number: int, target: memoryview) -> int:
        """Decrypts one chunk into ``target`` and returns its length."""
        self._file.seek(HEAD_BYTES + number * (CHUNK_BYTES + TAG_BYTES))
        sealed = self._sealed[: self._file.readinto(self._sealed)]
        nonce = _nonce(number, number == self._chunks - 1)
        try:
            length = len(sealed) - TAG_BYTES
            return self._cipher.decrypt_into(nonce, sealed, MAGIC, target[: max(0, length)])
        except (InvalidTag, ValueError) as error:
            raise WrongKey(
                f"Part {number + 1} of {self._chunks} of the sealed file cannot be opened: "
                "the key is wrong or the file is damaged."
            ) from error
