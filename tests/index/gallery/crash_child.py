"""Enrolls and forgets people without end and says so after each; killed from outside.

Runs as ``python -m tests.index.gallery.crash_child FOLDER [URL]``. Imports once, then forks a fresh
process for every line on standard input, so that a kill costs milliseconds and not a start of
Python. A line holds a seed; the answer is the child's process id, one line per acknowledged batch,
``?name`` before someone is forgotten, ``-name`` when that is done, and ``dead``. While the database
is away the child goes on with other people.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import count

from index.gallery import Gallery
from model.errors import GalleryUnavailable
from tests.index.helpers import MODEL, Faces

PHOTOS = 3
BATCH = 4


def work_forever(folder: str, url: str | None, seed: int) -> None:
    gallery, faces = None, Faces(people=20, seed=seed)
    for turn in count():
        try:
            gallery = gallery or Gallery.open(folder, url=url, model_id=MODEL)
            take_turn(gallery, faces, seed, turn)
        except GalleryUnavailable:
            time.sleep(0.01)


def take_turn(gallery: Gallery, faces: Faces, seed: int, turn: int) -> None:
    names = [f"{seed}/{turn}/{n}" for n in range(BATCH if turn % 3 == 0 else 1)]
    with gallery.batch():
        for name in names:
            gallery.enroll(name, faces.photos(turn % 20, PHOTOS))
    say(*names)
    if turn % 2:
        (person,) = gallery.reader.find_by_name(names[0])
        say(f"?{names[0]}")
        gallery.forget(person.id)
        say(f"-{names[0]}")


def say(*words: str) -> None:
    os.write(1, (" ".join(words) + "\n").encode())


def main() -> None:
    folder, url = sys.argv[1], (sys.argv[2:] or [None])[0]
    if url:
        import index.gallery.postgresql  # noqa: F401
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            say("pid", str(os.getpid()))
            work_forever(folder, url, int(line))
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    main()
