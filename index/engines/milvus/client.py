"""Calls to a Milvus server with retries and a circuit breaker."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from model.errors import IndexUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

ATTEMPTS = 5
TIMEOUT = 20.0
ASK_TIMEOUT = 10.0
ASK_PATIENCE = 5.0
"""Seconds after which an interactive read is not retried."""
AWAY_SECONDS = 5.0
"""Seconds for which interactive reads fail at once after the server did not answer."""


TEMPORARY_GRPC = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "CANCELLED"})

TEMPORARY_MILVUS = frozenset(
    {
        1,  # service not ready; also pymilvus's code for a timeout
        2,  # service unavailable; also "cannot connect"
        4,  # too many requests
        8,  # rate limit
        11,  # the server's clock is behind
        103,  # collection not fully loaded
        401,  # no replica available
        503,  # channel not available
        *range(901, 906),  # node not found, offline, lacking, not matching, not available
    }
)
"""Codes from https://github.com/milvus-io/milvus/blob/master/pkg/util/merr/errors.go."""


class RetryingClient:
    """Calls methods of a Milvus client by name.

    Args:
        uri: The server, for messages.
    """

    def __init__(self, client: Any, uri: str) -> None:
        self._client = client
        self._uri = uri
        self._away = False
        self._away_until = 0.0
        self._probing = threading.Lock()

    def write(self, method: str, *args: Any, **options: Any) -> Any:
        """Calls a write, or a read for a write; retries for long, so that no work is lost."""
        action = getattr(self._client, method)
        return retry(lambda: action(*args, timeout=TIMEOUT, **options), self._uri)

    def ask(self, method: str, *args: Any, **options: Any) -> Any:
        """Calls an interactive read.

        While the server does not answer, one caller at a time probes it and the others fail at
        once. Otherwise all threads would wait for it, including those needed for other work such
        as comparing two photos.
        """
        if not self._away:
            return self._heard(method, *args, **options)
        if time.monotonic() < self._away_until or not self._probing.acquire(blocking=False):
            raise IndexUnavailable(
                f"Milvus at {self._uri} did not answer a moment ago; try again soon."
            )
        try:
            return self._heard(method, *args, **options)
        finally:
            self._probing.release()

    def _heard(self, method: str, *args: Any, **options: Any) -> Any:
        action = getattr(self._client, method)
        try:
            answer = retry(
                lambda: action(*args, timeout=ASK_TIMEOUT, **options),
                self._uri,
                patience=ASK_PATIENCE,
            )
        except MilvusUnavailable:
            self._away, self._away_until = True, time.monotonic() + AWAY_SECONDS
            raise
        except IndexUnavailable:
            self._away = False  # the server answered, with a refusal
            raise
        self._away = False
        return answer


class MilvusUnavailable(IndexUnavailable):
    """The server does not answer. A refusal raises :class:`IndexUnavailable` itself."""


def retry(action: Callable[[], T], uri: str, *, patience: float = math.inf) -> T:
    """Calls a Milvus action and retries it, with growing pauses, while there is no answer.

    Args:
        action: The call; must be idempotent.
        patience: Seconds after which it is not retried.

    Raises:
        MilvusUnavailable: If the server does not answer.
        IndexUnavailable: If the server refuses the action.
    """
    import grpc
    from pymilvus.exceptions import MilvusException

    pause, started = 0.5, time.monotonic()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return action()
        except (MilvusException, grpc.RpcError) as error:
            if not _is_temporary(error):
                raise IndexUnavailable(f"Milvus at {uri} refused the operation: {error}") from error
            if attempt == ATTEMPTS or time.monotonic() - started > patience:
                raise MilvusUnavailable(
                    f"Milvus at {uri} does not answer ({error}). Start the server or check the "
                    "address; enrollments are safe in the gallery, and `python -m index sync` "
                    "brings the index up to date afterwards."
                ) from error
            log.info("Milvus at %s: %s; trying again in %.1f s", uri, error, pause)
            time.sleep(pause)
            pause *= 2
    raise AssertionError("ATTEMPTS must be at least 1")


def _is_temporary(error: BaseException) -> bool:
    """Whether the call may succeed later, according to the codes of gRPC and Milvus."""
    import grpc
    from pymilvus.exceptions import ConnectError, MilvusException, MilvusUnavailableException

    if isinstance(error, grpc.RpcError):
        return error.code().name in TEMPORARY_GRPC
    if isinstance(error, (ConnectError, MilvusUnavailableException)):
        return True
    # The other subclasses report errors in the request.
    if not isinstance(error, MilvusException) or type(error) is not MilvusException:
        return False
    # pymilvus wraps errors of gRPC and its own under a generic code.
    wrapped = error.__cause__ or error.__context__
    if wrapped is not None and wrapped is not error:
        return _is_temporary(wrapped)
    return error.retriable or error.code in TEMPORARY_MILVUS
