"""Our own OpenAPI description against the server it describes: generated requests, no 5xx."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from app.service import FaceService
from app.settings import Settings
from app.web import api

schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, bundle_folder: object) -> Iterator[object]:
    own = Settings(data=tmp_path_factory.mktemp("openapi"), bundle=bundle_folder, rate_per_minute=0)
    # The name under which the in-process client calls.
    service = FaceService.open(dataclasses.replace(own, public_names=("testserver",)))
    yield schemathesis.openapi.from_asgi("/openapi.json", api.create(service))
    service.close()


def test_generated_requests_are_answered_as_described(generated: object) -> None:
    checks = schemathesis.checks
    tried = 0

    def answered(case: schemathesis.Case) -> None:
        nonlocal tried
        tried += 1
        case.call_and_validate(
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ]
        )

    operations = [found.ok() for found in generated.get_all_operations()]
    assert len(operations) >= 15
    for operation in operations:
        for mode in schemathesis.GenerationMode:
            quietly = settings(
                max_examples=8,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            with suppress(Unsatisfiable):
                quietly(given(operation.as_strategy(generation_mode=mode))(answered))()
    assert tried > 100
