"""The base of plain data in every room, and the checked way to make a changed copy of it."""

from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

M = TypeVar("M", bound=BaseModel)


class Frozen(BaseModel):
    """A value: it never changes, and it refuses fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def replace(model: M, /, **fields: object) -> M:
    """A copy of `model` with other values in `fields`; the rest is shared, not validated again.

    Raises:
        TypeError: the model has no such field.
        ValidationError: a value does not fit its field, which a note of the error names.
    """
    kind = type(model)
    unknown = fields.keys() - kind.model_fields.keys()
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(unknown))}")
    checked = {name: _validate(kind, name, value) for name, value in fields.items()}
    return model.model_copy(update=checked)


def _validate(kind: type[BaseModel], name: str, value: object) -> object:
    try:
        return _adapter(kind, name).validate_python(value, strict=kind.model_config.get("strict"))
    except ValidationError as error:
        error.add_note(f"The field is {kind.__name__}.{name}.")
        raise


@cache
def _adapter(kind: type[BaseModel], name: str) -> TypeAdapter[Any]:
    field = kind.model_fields[name]
    described: Any = field.annotation
    for part in field.metadata:
        described = Annotated[described, part]
    return TypeAdapter[Any](described)
