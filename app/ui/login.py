"""The page's login: Gradio asks for a name and a key, and keeps who was let in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from app.auth import KeyStore

_opened: ContextVar[str] = ContextVar("opened")
"""The user of the key that opened the login at work."""


class Users(dict[str, str]):
    """Takes the place of Gradio's users by token.

    Gradio keeps the name that was typed, without end. A name can be given again to another key,
    so this keeps the key's own user, as :meth:`app.auth.KeyStore.login` gives it.
    """

    def __setitem__(self, token: str, name: str) -> None:
        super().__setitem__(token, _opened.get())

    def drop_revoked(self, keys: KeyStore) -> None:
        """Forget whoever came in with a key that is no more: the page asks them to log in."""
        stored = keys.keys()
        users = {key.user for key in stored}
        # A logout may delete in another thread.
        for token, user in list(self.items()):
            if user not in users:
                self.pop(token, None)


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
        _opened.set(user)
        return True

    return check
