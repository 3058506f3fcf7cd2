"""A real server process: start, access rules, examples in curl and Python, shutdown."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app import samples
from app.auth import KeyStore
from app.settings import Settings
from tests.app import helpers
from tests.app.helpers import Photos
from tests.paths import ROOT


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "app", *map(str, arguments)]


@contextmanager
def serving(
    data: Path, bundle: Path, *arguments: object, environment: dict[str, str] | None = None
) -> Iterator[str]:
    """A server on a free port; its address."""
    with (data.parent / "server.log").open("w") as log:
        process = subprocess.Popen(
            command("--data", data, "--bundle", bundle, "--port", 0, "--no-page", *arguments),
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, (line, (data.parent / "server.log").read_text())
            yield found[0]
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    with serving(folder / "data", bundle_folder) as address:
        yield address


def test_it_answers_only_on_loopback(address: str) -> None:
    assert address.startswith("http://127.0.0.1:")
    assert httpx.get(address + "/ready", timeout=60).json()["status"] == "ok"
    assert "server" not in httpx.get(address + "/health", timeout=60).headers
    port = int(address.rpartition(":")[2])
    try:
        own = socket.gethostbyname(socket.gethostname())
    except socket.gaierror:
        return  # This machine has no other address by name.
    if not own.startswith("127."):
        with pytest.raises(OSError), socket.create_connection((own, port), timeout=1):
            pass


def test_it_is_not_ready_without_its_gallery(tmp_path: Path, bundle_folder: Path) -> None:
    data = tmp_path / "data"
    file = Settings(data=data).gallery_folder / "gallery.sqlite"
    with serving(data, bundle_folder) as address:
        assert httpx.get(address + "/ready", timeout=60).status_code == 200
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
            # A change by another process, and the server reads the file anew.
            other.execute("CREATE TABLE change (x)")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.write_bytes(b"no database any more" * 1000)
        answer = httpx.get(address + "/ready", timeout=60)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "gallery_unavailable"
        assert str(tmp_path) not in answer.text
        assert httpx.get(address + "/health", timeout=60).status_code == 200
    assert str(file) in (tmp_path / "server.log").read_text()


def curl_examples() -> list[str]:
    """The curl commands of the guide's section on REST, each on one line."""
    section = (ROOT / "app" / "README.md").read_text().split("\n## REST\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("curl ")]


def test_the_curl_examples_of_the_guide(address: str, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    examples = curl_examples()
    assert len(examples) >= 4
    for name in re.findall(r"@(\S+)", " ".join(examples)):
        shutil.copy(samples.FOLDER / "eileen_collins.jpg", tmp_path / name)
    for example in examples:
        people = httpx.get(address + "/v1/people", timeout=60).json()["people"]
        words = example.replace("http://127.0.0.1:7860", address)
        words = re.sub(r"\bID\b", people[0]["id"] if people else "", words)
        done = subprocess.run(
            [*shlex.split(words), "-sS", "--fail-with-body"],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, (example, done.stdout, done.stderr)
        assert "request_id" in done.stdout


def test_the_python_example(address: str, photos: Photos) -> None:
    answer = httpx.post(
        address + "/v1/verify",
        files={"img1": photos.collins, "img2": photos.hopper},
        timeout=60,
    ).json()
    assert answer["decision"] == "different"


HEAD = (
    b"POST /v1/detect HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    b"Content-Type: application/json\r\n\r\n"
)


def trickle(address: str, seconds: float) -> tuple[bytes, float]:
    """Send a byte now and then; the answer and when it came."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    started = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(HEAD)
        connection.settimeout(0.1)
        while time.monotonic() - started < seconds:
            connection.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                begun = connection.recv(65536)
                connection.settimeout(seconds)
                return begun + rest(connection, begun), time.monotonic() - started
    return b"", seconds


def rest(connection: socket.socket, begun: bytes) -> bytes:
    """What is still to come of an answer: head and body may be sent apart."""
    answer = begun
    while True:
        head, end, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if end and length and len(body) >= int(length[1]):
            return answer[len(begun) :]
        more = connection.recv(65536)
        if not more:
            return answer[len(begun) :]
        answer += more


def test_a_slow_upload_is_ended_and_keeps_nobody_else_waiting(
    tmp_path: Path, bundle_folder: Path, photos: Photos
) -> None:
    slow = {"FACE_UPLOAD_SECONDS": "10", "FACE_WORKERS": "1", "FACE_QUEUE": "1"}
    with (
        serving(tmp_path / "data", bundle_folder, environment=slow) as address,
        ThreadPoolExecutor(1) as pool,
    ):
        # The first one is slow, and not what is measured.
        httpx.post(address + "/v1/detect", files={"img": photos.nobody}, timeout=60)
        dripping = pool.submit(trickle, address, 90)
        answered = 0
        while not dripping.done():
            # One place is left for requests that arrive, and the queue has none taken.
            answer = httpx.post(address + "/v1/detect", files={"img": photos.nobody}, timeout=60)
            assert answer.status_code == 200
            answered += 1
        answer, seconds = dripping.result()
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"slow_upload" in answer
        assert 3 < seconds < 60
        assert answered > 1


def test_other_addresses_need_a_key_first(tmp_path: Path, bundle_folder: Path) -> None:
    data = tmp_path / "data"
    arguments = ("--data", data, "--bundle", bundle_folder, "--port", 0, "--no-page")
    refused = subprocess.run(
        command(*arguments, "--host", "0.0.0.0"),
        cwd=ROOT, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert refused.returncode == 3
    assert "keys add" in refused.stderr
    made = subprocess.run(
        command("keys", "add", "ann", "--scope", "admin", "--data", data),
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    secret = made.stdout.splitlines()[-1]
    with serving(data, bundle_folder, "--host", "0.0.0.0") as address:
        local = address.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(local + "/v1/people", timeout=60).status_code == 401
        # Without a key nobody waits for the body either.
        answer, seconds = trickle(local, 60)
        assert answer.startswith(b"HTTP/1.1 401")
        assert seconds < 30
        key = {"authorization": f"Bearer {secret}"}
        assert httpx.get(local + "/v1/people", headers=key, timeout=60).status_code == 200
        # Closed, not open, once the last key is gone.
        KeyStore(data / "keys.json").revoke("ann")
        assert httpx.get(local + "/v1/people", headers=key, timeout=60).status_code == 401
        assert httpx.get(local + "/v1/people", timeout=60).status_code == 401
    log = (tmp_path / "server.log").read_text()
    assert secret not in log
    assert re.search(r"\[[0-9a-f]{16}\] app.access: GET /v1/\? 401", log)
    assert re.search(r"\[[0-9a-f]{16}\] app.access: GET /v1/people 200", log)


def idle(address: str, source: str, head: bytes) -> socket.socket:
    """A connection that says what it will send, and sends nothing."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0))
    connection.sendall(head)
    return connection


def test_idle_connections_without_a_key_keep_nobody_out(
    tmp_path: Path, bundle_folder: Path, photos: Photos
) -> None:
    data = tmp_path / "data"
    key = {"x-api-key": KeyStore(data / "keys.json").add("ann", "read")}
    login = HEAD.replace(b"/v1/detect", b"/login").replace(b"100000", b"1000")
    with serving(data, bundle_folder) as address, contextlib.ExitStack() as held:
        for number in range(60):
            source = f"127.0.0.{2 + number % 10}"
            for head in (HEAD, login):
                held.enter_context(idle(address, source, head))
        for _ in range(3):
            started = time.monotonic()
            sent = {"files": {"img": photos.nobody}, "headers": key}
            assert httpx.post(address + "/v1/detect", **sent, timeout=60).status_code == 200
            assert httpx.get(address + "/ready", timeout=60).status_code == 200
            assert time.monotonic() - started < 10


def test_a_taken_port_is_a_sentence(address: str, tmp_path: Path, bundle_folder: Path) -> None:
    port = address.rpartition(":")[2]
    done = subprocess.run(
        command("--data", tmp_path, "--bundle", bundle_folder, "--port", port, "--no-page"),
        cwd=ROOT, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 3
    assert port in done.stderr
    assert "Traceback" not in done.stderr


def test_the_start_says_that_a_model_is_not_calibrated_and_how_to_change_it(tmp_path: Path) -> None:
    bundle = helpers.make_bare_bundle(tmp_path / "bare")
    process = subprocess.Popen(
        command("--data", tmp_path / "data", "--bundle", bundle, "--port", 0, "--no-page"),
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = process.stdout.readline()
        assert f"python -m training calibrate --bundle {bundle} --data PHOTOS" in said
        assert "Ready at" in process.stdout.readline()
    finally:
        process.kill()
        process.wait()
