"""How long a caller may take to say what he wants, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from app.web.protocol import TimeoutProtocol

SECONDS = 0.5


LARGE = 50_000_000


class Quick(TimeoutProtocol):
    seconds = SECONDS
    lost = threading.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost.set()


async def slow_app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(3 * SECONDS)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/streamed":
        for _ in range(50):
            await send(
                {"type": "http.response.body", "body": bytes(LARGE // 50), "more_body": True}
            )
    body = bytes(LARGE) if scope["path"] == "/large" else b"done"
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def port() -> Iterator[int]:
    config = uvicorn.Config(slow_app, http=Quick, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    Quick.lost.clear()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


def until_closed(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    heard = bytearray()
    while part := connection.recv(1_000_000):
        heard += part
    return bytes(heard)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_who_does_not_finish_asking_is_hung_up_on(port: int, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(said)
        assert b"done" not in until_closed(connection)


def test_a_second_question_that_does_not_end_is_hung_up_on(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        connection.settimeout(30)
        heard = b""
        while b"done" not in heard:
            heard += connection.recv(4096)
        # Ends the wait for the next question, and is none.
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert b"done" not in until_closed(connection)


def test_a_slow_answer_is_waited_for(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"done" in until_closed(connection)


def test_a_streamed_answer_may_be_read_slowly(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /streamed HTTP/1.1\r\nHost: a\r\n\r\n")
        connection.settimeout(30)
        heard, started = 0, time.monotonic()
        while heard < LARGE and (part := connection.recv(500_000)):
            heard += len(part)
            time.sleep(SECONDS / 10)
        assert heard >= LARGE
        assert time.monotonic() - started > 4 * SECONDS


@pytest.mark.parametrize("path", [b"/large", b"/streamed"])
def test_who_does_not_read_the_answer_is_hung_up_on(port: int, path: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n")
        assert Quick.lost.wait(60)
        assert len(until_closed(connection)) < LARGE


def test_connections_of_one_address_are_bounded(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quick, "seconds", 30)
    monkeypatch.setattr(Quick, "per_address", 5)
    held = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(5)]
    time.sleep(0.2)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as more:
        with contextlib.suppress(OSError):
            more.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            answer = more.recv(1)
        except ConnectionResetError:
            answer = b""
        assert answer == b""
    elsewhere = ("127.0.0.2", 0)
    address = ("127.0.0.1", port)
    with socket.create_connection(address, timeout=5, source_address=elsewhere) as other:
        other.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert other.recv(12) == b"HTTP/1.1 200"
    for connection in held:
        connection.close()
