"""Enrolls and forgets people without end and says so after each; killed from outside.

Runs as ``python -m tests.index.gallery.crash_child FOLDER``. Imports once, then forks a fresh
process for every line on standard input, so that a kill costs milliseconds and not a start of
Python. A line holds a seed; the answer is the child's process id, one line per acknowledged batch,
``?name`` before someone is forgotten, ``-name`` when that is done, and ``dead``.
"""

from __future__ import annotations

import os
import sys

from index.gallery import Gallery
from tests.index.helpers import MODEL, Faces

PHOTOS = 3
BATCH = 4


def work_forever(folder: str, seed: int) -> None:
    gallery = Gallery.open(folder, model_id=MODEL)
    faces = Faces(people=20, seed=seed)
    number = 0
    while True:
        names = [f"{seed}/{number + n}" for n in range(BATCH if number % 3 == 0 else 1)]
        with gallery.batch():
            for name in names:
                gallery.enroll(name, faces.photos(number % 20, PHOTOS))
        number += len(names)
        os.write(1, (" ".join(names) + "\n").encode())
        if number % 2 == 0:
            (person,) = gallery.reader.find_by_name(names[0])
            os.write(1, f"?{names[0]}\n".encode())
            gallery.forget(person.id)
            os.write(1, f"-{names[0]}\n".encode())


def main() -> None:
    folder = sys.argv[1]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.write(1, f"pid {os.getpid()}\n".encode())
            work_forever(folder, int(line))
        os.waitpid(child, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main()
