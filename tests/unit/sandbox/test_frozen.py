"""Plain data and its checked replacement."""

import ast
from typing import Annotated

import pytest
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from sandbox.frozen import Frozen, replace
from tests.support.sources import ROOT, list_modules, parse

ROOMS = ("bot", "pipeline", "prompts", "sandbox", "tests")


class Inner(Frozen):
    text: str = ""


class Outer(Frozen):
    number: int = Field(default=1, gt=0)
    words: tuple[str, ...] = ()
    inner: Inner = Inner()
    lower: Annotated[str, BeforeValidator(str.lower)] = ""
    other: str = Field(default="", validation_alias="another")


class Strict(Frozen):
    model_config = ConfigDict(strict=True)

    seconds: float = 0
    number: int = 0


def test_a_replacement_differs_in_the_given_fields_only() -> None:
    before = Outer(words=("a",))
    after = replace(before, number=2)
    assert (before.number, after.number, after.words) == (1, 2, ("a",))
    assert after.model_fields_set == {"words", "number"}
    assert after.model_dump(exclude_unset=True) == {"words": ("a",), "number": 2}


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Outer has no field nmaes, nubmer$"):
        replace(Outer(), nubmer=2, nmaes=())


@pytest.mark.parametrize(
    ("field", "value"),
    [("number", "x"), ("number", 0), ("words", "abc"), ("words", (1,)), ("inner", Outer())],
)
def test_an_ill_typed_value_is_refused_and_its_field_named(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        replace(Outer(), **{field: value})
    assert refused.value.__notes__ == [f"The field is Outer.{field}."]


def test_a_strict_model_converts_nothing() -> None:
    assert replace(Strict(), number=2).number == 2
    with pytest.raises(ValidationError):
        replace(Strict(), number="2")


def test_values_are_validated_as_the_constructor_does() -> None:
    after = replace(Outer(), words=["a", "b"], lower="ABC", other="by its name, not its alias")
    assert (after.words, after.lower) == (("a", "b"), "abc")
    assert after.other == "by its name, not its alias"


def test_nested_values_are_shared_and_not_validated_again() -> None:
    unchecked = Inner.model_construct(text=1)  # not a string: validation would refuse it
    before = Outer.model_construct(inner=unchecked)
    assert replace(before, number=2).inner is unchecked
    assert replace(Outer(), inner=unchecked).inner is unchecked


def test_a_changed_copy_is_made_by_replace_only() -> None:
    """`model_copy` accepts any field and any value, so nothing else calls it."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in ROOMS
        for path in list_modules(room)
        if path != ROOT / "sandbox" / "frozen.py" and "model_copy" in path.read_text("utf-8")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and node.attr == "model_copy"
    ]
    assert found == []
