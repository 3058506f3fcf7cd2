"""Prometheus metrics: number of requests, their duration, and the queue's load."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.web.limits import WorkQueue

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The metrics of one server."""

    def __init__(self, queue: WorkQueue) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "face_requests", "Requests answered.", ["method", "route", "status"],
            registry=self.registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "face_request_seconds", "Time to the answer.", ["route"], registry=self.registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )  # fmt: skip
        self.verdicts = Counter(
            "face_verdicts", "Verifications by decision.", ["decision"], registry=self.registry
        )
        admitted = Gauge(
            "face_requests_admitted", "Requests that have arrived and wait or are worked on.",
            registry=self.registry,
        )  # fmt: skip
        admitted.set_function(lambda: queue.admitted)
        running = Gauge(
            "face_requests_running", "Requests being worked on.", registry=self.registry
        )
        running.set_function(lambda: queue.running)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
