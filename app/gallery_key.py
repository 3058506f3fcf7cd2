"""The key of an encrypted gallery, from the key file or the environment."""

from __future__ import annotations

import os

from app.settings import Settings
from index.crypto.keys import KEY_FILE_VARIABLE, key_from


def gallery_key(settings: Settings) -> bytes | None:
    """Return the key, or None if the gallery is not encrypted.

    Raises:
        WrongKey: A key is configured but cannot be read.
    """
    environment = dict(os.environ)
    if settings.gallery_key_file is not None:
        environment[KEY_FILE_VARIABLE] = str(settings.gallery_key_file)
    return key_from(environment)
