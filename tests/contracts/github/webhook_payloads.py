"""Generates payloads from GitHub's schema of its webhooks, and payloads that violate it."""

import copy
import functools
import random
from collections.abc import Iterator
from typing import Any, Final, cast

from tests.contracts.github.openapi_document import Document, Json

FORMATS: Final = {
    "date-time": "2026-05-01T08:00:00Z",
    "date": "2026-05-01",
    "uri": "https://github.com/acme/shop",
    "uri-template": "https://api.github.com/users/acme/following{/other_user}",
    "email": "ann@example.com",
}
NAMES: Final = {
    "sha": "a" * 40,
    "head_sha": "a" * 40,
    "before": "b" * 40,
    "after": "c" * 40,
    "ref": "refs/heads/main",
    "full_name": "acme/shop",
}
WORDS: Final = ("shop", "acme", "capuchin", "ann")
NULL: Final = {"type": "null"}
EVENTS: Final = (
    "issues", "issue-comment", "pull-request", "pull-request-review",
    "pull-request-review-comment", "installation", "installation-repositories", "repository",
    "check-run", "check-suite", "push", "ping", "status",
)  # fmt: skip
ODD: Final[tuple[Any, ...]] = (
    None, True, -1, 0, 2**63, 1.5, "", "\u202e\0", "x" * 70_000, [], [None], {}, {"": None},
    "2026-99-99T00:00:00Z", "../..",
)  # fmt: skip
"""Values that may replace GitHub's own."""
MOST_DEEP: Final = 12


class Payloads:
    """Generates payloads of every webhook in the slimmed document."""

    def __init__(self) -> None:
        self._document = Document("webhooks")
        hooks: dict[str, Json] = self._document.content["webhooks"]
        self._schemas = {
            name: hook["post"]["requestBody"]["content"]["application/json"]["schema"]
            for name, hook in hooks.items()
        }

    @property
    def names(self) -> list[str]:
        """The names in the document, such as `issue-comment-created`."""
        return sorted(self._schemas)

    def event(self, name: str) -> str:
        """The name in `X-GitHub-Event`."""
        if name == "pull-request-review-requested":
            return "pull_request"
        of = [event for event in EVENTS if f"{name}-".startswith(f"{event}-")]
        return max(of, key=len).replace("-", "_")

    def valid(self, name: str, dice: random.Random) -> Json:
        """A valid payload for an App: every required key and some of the others.

        The schema lets a repository's owner be null; an App is never installed there.
        """
        payload = cast("Json", self._value(self._schemas[name], "", dice, 0))
        if not name.startswith("installation"):
            payload["installation"] = {"id": 99, "node_id": "x"}
        return payload

    def _value(self, schema: Json, key: str, dice: random.Random, depth: int) -> Any:
        schema = self._document.resolved(schema)
        for fixed in ("const", "enum"):
            if fixed in schema:
                return schema[fixed] if fixed == "const" else dice.choice(schema[fixed])
        for kind in ("oneOf", "anyOf"):
            if kind in schema:
                choices = [one for one in schema[kind] if key != "owner" or one != NULL]
                return self._value(dice.choice(choices), key, dice, depth)
        if "allOf" in schema:
            whole = functools.reduce(self._both, schema["allOf"])
            return self._value(whole, key, dice, depth)
        kind = schema.get("type", "object" if "properties" in schema else "null")
        if isinstance(kind, list):
            kinds = [one for one in cast("list[str]", kind) if key != "owner" or one != "null"]
            kind = dice.choice(kinds)
        return self._of(str(kind), schema, key, dice, depth)

    def _both(self, one: Json, other: Json) -> Json:
        """A schema of the values that both schemas allow."""
        one, other = (self._plain(each) for each in (one, other))
        mine, theirs = one.get("properties", {}), other.get("properties", {})
        merged = {**other, **one, "properties": {**theirs, **mine}}
        for key in mine.keys() & theirs.keys():
            merged["properties"][key] = self._both(mine[key], theirs[key])
        needed = [*one.get("required", ()), *other.get("required", ())]
        kinds = [_kinds(each) for each in (one, other) if "type" in each]
        if kinds:
            merged["type"] = sorted(functools.reduce(set[str].intersection, kinds))
        if not merged["properties"]:
            del merged["properties"]
        return {**merged, "required": needed}

    def _plain(self, schema: Json) -> Json:
        """A schema without references and choices; a nullable value is never null."""
        schema = self._document.resolved(schema)
        if "allOf" in schema:
            return functools.reduce(self._both, schema["allOf"])
        for kind in ("oneOf", "anyOf"):
            if kind in schema:
                return self._plain(next(one for one in schema[kind] if one != NULL))
        return schema

    def _of(self, kind: str, schema: Json, key: str, dice: random.Random, depth: int) -> Any:
        if kind == "object":
            needed = set(schema.get("required", ()))
            chance = 0.3 if depth < MOST_DEEP else 0.0
            return {
                name: self._value(inner, name, dice, depth + 1)
                for name, inner in schema.get("properties", {}).items()
                if name in needed or dice.random() < chance
            }
        if kind == "array":
            few = schema.get("minItems", 0) + (dice.randrange(3) if depth < MOST_DEEP else 0)
            items = schema.get("items", {"type": "string"})
            return [self._value(items, key, dice, depth + 1) for _ in range(few)]
        if kind == "string":
            word = NAMES.get(key) or dice.choice(WORDS)
            return FORMATS.get(schema.get("format", ""), word)
        return {"integer": dice.randrange(1, 9), "number": 1.5, "boolean": True}.get(kind)


def _kinds(schema: Json) -> set[str]:
    kind = schema["type"]
    return {kind} if isinstance(kind, str) else set(kind)


def broken(payload: Json, dice: random.Random) -> Json:
    """The payload with something missing or replaced, anywhere."""
    payload = copy.deepcopy(payload)
    for _ in range(dice.randrange(1, 4)):
        holder, key = dice.choice(list(_places(payload)))
        if dice.random() < 0.3 and isinstance(holder, dict):
            del holder[key]
        else:
            holder[key] = copy.deepcopy(dice.choice(ODD))
    return payload


def _places(node: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every key and index; those near the root more often, because most code reads there."""
    inner: Any = cast("Json", node).items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(inner):
        yield from [(node, key)] * max(1, 24 // (1 + depth * 4))
        if isinstance(value, dict | list):
            yield from _places(value, depth + 1)
