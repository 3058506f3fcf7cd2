"""The page's login: Gradio asks for a name and a key, and keeps who was let in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from app.auth import KeyStore
from app.ui.gradio_patches import let_in


def login(keys: KeyStore) -> Callable[[str, str], Awaitable[bool]]:
    """The login, off the event loop: Gradio awaits a coroutine, and calls all else on it."""
    # One at a time, as unknown keys of the API: guesses must not take all processors.
    guessing = asyncio.Lock()

    async def check(name: str, secret: str) -> bool:
        async with guessing:
            user = await asyncio.to_thread(keys.login, name, secret)
        if user is None:
            return False
        # Gradio writes down who was let in as the next thing in this very task.
        let_in.set(user)
        return True

    return check
