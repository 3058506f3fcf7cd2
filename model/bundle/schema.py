"""The schema of a bundle's manifest. Bundles are untrusted input."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from model.embedding.architecture import Architecture
from model.embedding.preprocess import Preprocessing
from model.errors import BundleError

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
"""A file name in the folder: not a path and not hidden."""

MAX_INPUT_SIZE, MAX_DIMENSION = 1024, 16_384
"""Largest input side in pixels and longest vector; bounds memory."""


class Manifest(BaseModel):
    """The fields of ``bundle.json`` except its digest."""

    model_config = ConfigDict(strict=True)

    format: int
    name: Annotated[str, Field(min_length=1, max_length=200)]
    model_id: Sha256
    architecture: dict[str, Any] | None
    preprocessing: dict[str, Any]
    alignment: dict[str, Any]
    provenance: dict[str, Any]
    metrics: dict[str, Any]
    versions: dict[str, str]
    files: Annotated[dict[FileName, Sha256], Field(max_length=100)]


def check_manifest(manifest: Any, where: object) -> None:
    """Validate a manifest.

    Raises:
        BundleError: A field is missing or has an invalid value.
    """
    try:
        checked = Manifest.model_validate(manifest)
        preprocessing = TypeAdapter(Preprocessing).validate_python(checked.preprocessing)
        network = checked.architecture and TypeAdapter(Architecture).validate_python(
            checked.architecture
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise BundleError(f"{where} is damaged: {place}: {first['msg']}.") from None
    _check_as_written(preprocessing, checked.preprocessing, where)
    if network:
        _check_as_written(network, checked.architecture or {}, where)
    if preprocessing.input_size > MAX_INPUT_SIZE:
        raise BundleError(f"{where} asks for input of more than {MAX_INPUT_SIZE} pixels a side.")
    if network and not 1 <= network.dim <= MAX_DIMENSION:
        raise BundleError(f"{where} asks for vectors of {network.dim} numbers.")


def _check_as_written(
    read: Preprocessing | Architecture, given: dict[str, Any], where: object
) -> None:
    """Refuse fields that are unknown or that were read only by turning them into another type."""
    values = {name: list(v) if isinstance(v, tuple) else v for name, v in read.to_dict().items()}
    if wrong := [name for name in given if name not in values or values[name] != given[name]]:
        raise BundleError(f"{where} is damaged: {wrong[0]!r} is unknown or of the wrong type.")
