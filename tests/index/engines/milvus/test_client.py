"""A Milvus server that is away, hangs or refuses: who waits for it, and how long."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from index.engines.milvus import client as milvus_client
from index.engines.milvus.address import MilvusAddress
from index.engines.milvus.client import retry
from index.engines.milvus.index import MilvusIndex
from index.types import Mark
from model.errors import IndexUnavailable
from tests.index.helpers import MODEL


def test_passing_trouble_is_waited_out_and_refusal_is_not() -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")
    calls = []

    def shaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise exceptions.MilvusException(2, "StatusCode.UNAVAILABLE")
        return "done"

    assert retry(shaky, "uri") == "done"
    assert len(calls) == 3

    def refuse() -> None:
        calls.append(1)
        raise exceptions.MilvusException(1100, "field person_id is wrong")

    with pytest.raises(IndexUnavailable, match="refused"):
        retry(refuse, "uri")
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("code", "temporary"),
    [("UNAVAILABLE", True), ("DEADLINE_EXCEEDED", True), ("UNAUTHENTICATED", False)],
)
def test_what_grpc_reported_counts_not_the_code_pymilvus_wraps_it_in(
    code: str, temporary: bool
) -> None:
    grpc = pytest.importorskip("grpc")
    exceptions = pytest.importorskip("pymilvus.exceptions")

    class Failed(grpc.RpcError):
        def code(self) -> object:
            return grpc.StatusCode[code]

    wrapped = exceptions.MilvusException(message="Retry run out of 75 retry times")
    wrapped.__cause__ = Failed()
    assert milvus_client._is_temporary(wrapped) is temporary
    assert milvus_client._is_temporary(Failed()) is temporary


def test_complaints_about_the_request_are_not_temporary() -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")
    assert not milvus_client._is_temporary(exceptions.ParamError(message="timeout is no number"))
    broken = exceptions.MilvusException(message="Unexpected error")
    broken.__cause__ = KeyError("channel")
    assert not milvus_client._is_temporary(broken)
    assert milvus_client._is_temporary(exceptions.MilvusException(5, "busy", retriable=True))


def test_a_server_that_hangs_is_waited_for_by_one_caller_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")
    clock = [100.0]
    monkeypatch.setattr(milvus_client.time, "monotonic", lambda: clock[0])
    asked = threading.Semaphore(0)
    answers: queue.Queue[list | Exception] = queue.Queue()

    class Hanging:
        def query(self, *_: object, **options: float) -> list:
            asked.release()
            answer = answers.get(timeout=60)
            if isinstance(answer, Exception):
                clock[0] += options["timeout"]
                raise answer
            return answer

    def count() -> int | str:
        try:
            return len(index)
        except IndexUnavailable as error:
            return "moment ago" if "a moment ago" in error.message else "no answer"

    index = MilvusIndex(Hanging(), MilvusAddress.parse("milvus://server"), 8, MODEL)
    gone = exceptions.MilvusException(2, "DEADLINE_EXCEEDED")
    answers.put(gone)
    assert count() == "no answer"
    assert count() == "moment ago"
    clock[0] += milvus_client.AWAY_SECONDS
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            assert asked.acquire(timeout=60)
            prober = pool.submit(count)
            assert asked.acquire(timeout=60)
            assert count() == "moment ago", "somebody is asking"
            answers.put(gone)
            assert prober.result(60) == "no answer"
            clock[0] += milvus_client.AWAY_SECONDS
            asked.release()
        answers.put([{"count(*)": 3}])
        assert count() == 3
        answers.put([{"count(*)": 4}])
        assert count() == 4, "everybody may ask again"


class Answering:
    """A client whose answers to ``query`` are said beforehand; everything else succeeds."""

    def __init__(self, *answers: list | Exception) -> None:
        self.answers = list(answers)

    def query(self, *_: object, **__: object) -> list:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def upsert(self, *_: object, **__: object) -> None:
        pass


def test_a_refusal_is_an_answer() -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")
    client = Answering(exceptions.MilvusException(1100, "collection not loaded"), [{"count(*)": 3}])
    calls = milvus_client.RetryingClient(client, "uri")
    calls._away = True
    with pytest.raises(IndexUnavailable, match="not loaded"):
        calls.ask("query")
    assert not calls._away
    assert calls.ask("query") == [{"count(*)": 3}]


def test_the_end_of_a_rebuild_waits_out_a_hiccup(monkeypatch: pytest.MonkeyPatch) -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")
    clock = [100.0]
    monkeypatch.setattr(milvus_client.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(milvus_client.time, "sleep", lambda pause: clock.__setitem__(0, 130.0))
    client = Answering(exceptions.MilvusException(2, "DEADLINE_EXCEEDED"), [])
    index = MilvusIndex(client, MilvusAddress.parse("milvus://server"), 8, MODEL)
    index.advance(Mark("gallery", 7, 1))
    assert index._mark == Mark("gallery", 7, 1)


def test_work_is_not_given_up_after_one_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")
    clock = [100.0]
    monkeypatch.setattr(milvus_client.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(milvus_client.time, "sleep", lambda pause: None)
    calls = []

    def slow() -> str:
        calls.append(1)
        clock[0] += 20
        if len(calls) < 4:
            raise exceptions.MilvusException(2, "DEADLINE_EXCEEDED")
        return "done"

    assert retry(slow, "uri") == "done"
    calls.clear()
    with pytest.raises(IndexUnavailable, match="does not answer"):
        retry(slow, "uri", patience=5)
    assert len(calls) == 1
