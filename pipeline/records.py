"""The form of every saved document: a format number in front of the record.

Redis and the folders of the command line hold `{"format": 3, "record": …}`. Raise `FORMAT` whenever
a saved model changes in a way that an earlier Capuchin cannot read; a new field is one. Workers of
two releases run side by side during an upgrade: a worker reads the format before its own too, where
new fields have defaults, and leaves newer records alone.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import from_json

from pipeline.errors import OtherFormat, UnreadableRecord

M = TypeVar("M", bound=BaseModel)

FORMAT: Final = 3
OLDEST: Final = 2
"""The oldest format that is read: the one before `FORMAT`, or `FORMAT` itself if no record of the
one before can be read."""
UNNUMBERED: Final = 1
"""The format of documents without a number: releases before 2 wrote none."""


def encode_record(
    value: BaseModel, *, indent: int | None = None, exclude_defaults: bool = False
) -> bytes:
    """`value` as JSON in UTF-8; equal values yield equal bytes."""
    record = value.model_dump_json(indent=indent, exclude_defaults=exclude_defaults)
    return f'{{"format":{FORMAT},"record":{record}}}'.encode()


def decode_record(kind: type[M], data: bytes, name: str) -> M:
    """Decode a `kind` from `data`; `name` identifies it in errors, such as `Run 4f2a`.

    Raises:
        OtherFormat: another version of Capuchin saved it.
        UnreadableRecord: it is damaged.
    """
    try:
        return cast(Any, _envelope(kind, FORMAT).model_validate_json(data)).record
    except ValidationError:
        found = _read_format(data)
        if found is not None and found != FORMAT:
            raise OtherFormat(name, found, FORMAT) from None
        raise UnreadableRecord(f"{name} is damaged.") from None


@cache
def _envelope(kind: type[BaseModel], newest: int) -> type[BaseModel]:
    return create_model(
        f"{kind.__name__}Record",
        __config__=ConfigDict(extra="forbid"),
        format=(Annotated[int, Field(ge=OLDEST, le=newest, strict=True)], ...),
        record=(kind, ...),
    )


def _read_format(data: bytes) -> int | None:
    """The format's number; None for data that no version wrote."""
    try:
        found = from_json(data)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    number = cast("dict[str, Any]", found).get("format", UNNUMBERED)
    return number if type(number) is int else None
