"""A connection pool with timeouts, and errors that say what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "30s",
    # A writer that hangs must not keep all the others out.
    "idle_in_transaction_session_timeout": "2min",
    # A server that vanished without closing its connection must not hold a lock for long.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    # Every query finds its rows by key. A plan made before the first ANALYZE must not read a whole
    # table instead, and is the same for any number of keys.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
CONNECT: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    # In milliseconds: a statement sent to a host that has vanished is given up.
    "tcp_user_timeout": 20_000,
}
POOL_SECONDS = 5.0
RECONNECT_SECONDS = 2.0
"""After so long without a connection the pool gives up, and the next caller tries anew. Its own
attempts come less and less often: after an hour without the database, minutes apart."""

_HINTS = {
    "08": "start the database or check the address, and try again",
    "28": "check the user and the password",
    "3D": "create the database first",
    "42501": "the role needs the right to create and change tables in the schema",
    "53100": "the disk is full; free some space and try again",
    "53300": "allow more connections, or start fewer servers",
    "55P03": "another server is writing; try again",
    "57014": "the database took too long; try again",
    "57P": "the database is starting or stopping; try again",
    "25006": "this is a read-only standby; name the primary server",
}
"""Advice by SQLSTATE or its class."""


class Pool:
    """Connections in autocommit mode to one database.

    Args:
        url: ``postgresql://user@host/name``, with the options of libpq; defaults come from the
            usual variables such as ``PGPASSWORD`` and ``PGSSLMODE``.
        what: Name of the database in messages, such as "the gallery's database".
        prepare: Called with a first connection before the pool opens, to create the tables.

    Raises:
        GalleryUnavailable: If the server cannot be reached or refuses; applies to all methods.
    """

    def __init__(
        self, url: str, what: str, size: int, prepare: Callable[[psycopg.Connection], object]
    ) -> None:
        given = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
        self.conninfo = make_conninfo(url, **{**CONNECT, "application_name": "faces", **given})
        self._what = what
        self._pool: ConnectionPool | None = None
        with self.explained():
            with psycopg.connect(self.conninfo, autocommit=True) as first:
                _configure(first)
                prepare(first)
            self._pool = ConnectionPool(
                self.conninfo,
                kwargs={"autocommit": True},
                configure=_configure,
                min_size=1,
                max_size=size,
                timeout=POOL_SECONDS,
                max_idle=300,
                reconnect_timeout=RECONNECT_SECONDS,
                open=True,
            )

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """A connection for a block; an open transaction is rolled back if the block raises."""
        with self.explained(), self._opened.connection() as connection:
            yield connection

    def borrow(self) -> psycopg.Connection:
        """Borrows a connection for :meth:`give_back`; call it within :meth:`explained`."""
        return self._opened.getconn()

    def give_back(self, connection: psycopg.Connection) -> None:
        self._opened.putconn(connection)

    def close(self) -> None:
        """Closes every connection that is not in use."""
        self._opened.close()

    @property
    def _opened(self) -> ConnectionPool:
        assert self._pool is not None
        return self._pool

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Converts database errors to errors of this project."""
        try:
            yield
        except psycopg.IntegrityError:
            raise
        except psycopg.DataError as error:
            raise ValueError(str(error)) from error
        except PoolClosed as error:
            raise GalleryUnavailable("The gallery was closed; open it again.") from error
        except (psycopg.Error, PoolTimeout) as error:
            log.error("%s failed: %s", self._what, error)
            state = getattr(error, "sqlstate", None) or "08000"
            hints = (_HINTS.get(state[:length]) for length in (5, 3, 2))
            hint = next(filter(None, hints), "see the server's log for the cause")
            if state.startswith(("08", "57P")) and self._pool is not None:
                # The other idle connections are probably broken too.
                self._pool.check()
            # API clients see the message, so it must not reveal the database's address.
            cause = f"{type(error).__name__}, SQLSTATE {state}"
            what = self._what[0].upper() + self._what[1:]
            raise GalleryUnavailable(f"{what} failed ({cause}): {hint}.") from error


def _configure(connection: psycopg.Connection) -> None:
    connection.execute(
        "SELECT set_config(name, value, false) "
        "FROM unnest(%s::text[], %s::text[]) AS settings (name, value)",
        (list(SESSION), list(SESSION.values())),
    )
    # Keep a stricter setting such as remote_apply.
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    )
