"""Field types of the REST API's requests, each with a message that says what is allowed."""

from __future__ import annotations

import base64
import re
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from app.usecases.results import OVERRIDABLE
from index.types import MAX_NAME, usable_name

_DATA_URI = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,", re.ASCII)


def only(allowed: str) -> WrapValidator:
    """Replace any validation error of a field by one message that says what is allowed.

    Args:
        allowed: Completes the sentence "must be ...".
    """

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(
                "not_allowed", "must be {allowed}", {"allowed": allowed}
            ) from None

    return WrapValidator(check)


def _picture(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = _DATA_URI.sub("", value[:100], count=1) + value[100:]
    return base64.b64decode(text, validate=True)


Picture = Annotated[
    bytes,
    BeforeValidator(_picture),
    only("the picture itself, as a file or in base64; addresses and paths are not read"),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]
Name = Annotated[
    str,
    AfterValidator(usable_name),
    Field(min_length=1, max_length=MAX_NAME, pattern=r"\S"),
    only(f"1 to {MAX_NAME} characters that can be printed"),
]
FaceNumber = Annotated[int, Field(ge=1, le=1000), only("a whole number from 1 to 1000")]
PersonId = Annotated[
    str,
    Field(pattern=r"^[0-9A-Za-z_-]{1,64}$"),
    only("a person's id: 1 to 64 letters, digits, - and _"),
]
TargetRate = Annotated[
    float, Field(gt=0, lt=1, allow_inf_nan=False), only("a number above 0 and below 1")
]
Override = Literal["conflict", "outlier", "poor_quality"]
OverrideName = Annotated[Override, only(f"named one of {', '.join(OVERRIDABLE)}")]
Reason = Annotated[
    str, Field(min_length=1, max_length=500), only("a reason of 1 to 500 characters")
]

if set(get_args(Override)) != set(OVERRIDABLE):
    raise ValueError(f"The API offers the overrides {get_args(Override)}, not {OVERRIDABLE}.")
