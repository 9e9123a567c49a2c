"""GitHub's OpenAPI document as JSON Schema, with validators that are created on demand."""

import gzip
import json
import re
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import jsonschema_rs

DATA = Path(__file__).parent / "data"

Json = dict[str, Any]

EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
"""Bots' addresses contain `[bot]`, which the standard's grammar does not allow."""

LITERAL = ("example", "examples", "enum", "default", "const")
COMPOSED = ("allOf", "anyOf", "oneOf", "$ref")


def as_json_schema(node: Any) -> Any:
    """OpenAPI 3.0's `nullable` as JSON Schema, in place."""
    if isinstance(node, list):
        for item in cast("list[Any]", node):
            as_json_schema(item)
    elif isinstance(node, dict):
        schema = cast("Json", node)
        for key, value in schema.items():
            if key not in LITERAL:
                as_json_schema(value)
        if schema.get("nullable") is True:
            _allow_null(schema)
    return cast("Any", node)


def _allow_null(schema: Json) -> None:
    del schema["nullable"]
    kind = schema.get("type")
    if isinstance(kind, str) and not any(key in schema for key in COMPOSED):
        schema["type"] = [kind, "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        return
    inner = dict(schema)
    schema.clear()
    schema["anyOf"] = [inner, {"type": "null"}]


class Document:
    """One OpenAPI document with its validators, created on first use."""

    def __init__(self, name: str) -> None:
        self.content: Json = as_json_schema(
            json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes()))
        )
        self._name = f"urn:{name}"
        resources: list[tuple[str, Any]] = [(self._name, self.content)]
        self._registry = jsonschema_rs.Registry(resources, draft=jsonschema_rs.Draft202012)
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def problems(self, pointer: str, value: object) -> list[str]:
        """The violations of the schema at a JSON pointer in `value`."""
        validator = self._validators.get(pointer)
        if validator is None:
            fragment = quote(pointer, safe="/~!$&'()*+,;=:@-._")
            validator = jsonschema_rs.Draft202012Validator(
                {"$ref": f"{self._name}#{fragment}"},
                registry=self._registry,
                validate_formats=True,
                formats={"email": _is_email},
            )
            self._validators[pointer] = validator
        return [
            f"{'/'.join(map(str, error.instance_path))}: {error.message[:200]}"
            for error in validator.iter_errors(value)
        ]

    def resolved(self, node: Json) -> Json:
        """Follow `$ref`."""
        while "$ref" in node:
            target: Any = self.content
            for step in node["$ref"][2:].split("/"):
                target = target[step.replace("~1", "/").replace("~0", "~")]
            node = target
        return node


def _is_email(text: str) -> bool:
    return EMAIL.fullmatch(text) is not None
