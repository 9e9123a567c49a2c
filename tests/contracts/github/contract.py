"""Checks REST exchanges and webhooks against GitHub's own OpenAPI documents, in this process.

Stricter than the documents: unknown keys of a body or query are problems too, and so is a status
that an operation does not document, unless `UNDOCUMENTED` says why."""

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

from capuchin_demo.hub.webhooks import Delivery
from tests.contracts.github.openapi_document import COMPOSED, Document, Json
from tests.support.github.hub_state import Exchange

UNDOCUMENTED: Mapping[int, str] = {
    301: "a repository that was renamed or transferred: any reading operation",
    307: "the same for operations that write",
    304: "answered to any conditional request (Best practices for using the REST API)",
    401: "answered by every operation, documented for few",
    403: "missing permission or spent rate limit: any operation",
    404: "a repository that the token cannot see: any operation",
    410: "a deleted issue: documented for most operations on issues only",
    422: "check runs and reviewers are refused with it; their documents leave it or its body out",
    451: "a repository that was taken down (troubleshooting the REST API): any operation",
    429: "secondary rate limit: any operation",
}
SERVER_FAULTS = range(500, 600)
"""Any operation can fail; the documents list few of these statuses."""

DEFECTS: Mapping[str, tuple[str, str]] = {
    "apps/list-installations": (
        r"\d+/account: ",
        "the document wants an account to be a user and an enterprise at once (allOf for anyOf)",
    ),
}
"""Errors in GitHub's document: the operation, the problems to ignore, and why."""

REMOVED = '"merge_commit_sha" is a required property'
"""The document is of the version before 2026-03-10, which took this field out."""

SPANNING = {"/contents/{path}": "path", "/branches/{branch}": "branch"}
"""Parameters that may contain slashes, besides `ref` of git's refs."""


@dataclass(frozen=True)
class Route:
    """An operation of the document and its position there."""

    path: re.Pattern[str]
    pointer: str
    methods: Mapping[str, Json]


class RestContract:
    """Requests and responses of the operations kept in the slimmed document."""

    def __init__(self) -> None:
        self._document = Document("rest")
        paths: dict[str, Json] = self._document.content["paths"]
        fewest_parts_first = sorted(
            paths.items(), key=lambda item: (item[0].count("{"), -len(item[0]))
        )
        self._routes = [
            Route(_pattern(path), f"/paths/{_escaped(path)}", methods)
            for path, methods in fewest_parts_first
        ]

    @property
    def operations(self) -> set[str]:
        """All operation ids."""
        return {op["operationId"] for route in self._routes for op in route.methods.values()}

    def operation(self, method: str, path: str) -> str | None:
        """The id of the operation for a request."""
        found = self._find(method, path)
        return found[1]["operationId"] if found else None

    def request(
        self, method: str, path: str, query: Iterable[tuple[str, str]], body: bytes
    ) -> list[str]:
        """The violations of GitHub's document in a request."""
        found = self._find(method, path)
        if found is None:
            return ["no such operation"]
        pointer, operation, parts = found
        problems = self._parameters(operation, dict(query), parts)
        return problems + self._body(pointer, operation, body)

    def response(self, method: str, path: str, status: int, kind: str, body: bytes) -> list[str]:
        """The violations of GitHub's document in a response. `kind` is its content type."""
        found = self._find(method, path)
        if found is None:
            return ["no such operation"]
        pointer, operation, _ = found
        documented = operation["responses"].get(str(status))
        if documented is None:
            return _undocumented(status, body)
        pointer = f"{pointer}/responses/{status}"
        if "$ref" in documented:
            pointer, documented = documented["$ref"][1:], self._document.resolved(documented)
        if "application/json" not in documented.get("content", {}):
            return _undocumented(status, body) if body else []
        if not kind.startswith("application/json"):
            return []
        where = f"{pointer}/content/application~1json/schema"
        left_out = DEFECTS.get(operation["operationId"], ("(?!)", ""))[0]
        problems = self._document.problems(where, json.loads(body))
        return [
            problem
            for problem in problems
            if not re.match(left_out, problem) and not problem.endswith(REMOVED)
        ]

    def _find(self, method: str, path: str) -> tuple[str, Json, Mapping[str, str]] | None:
        for route in self._routes:
            operation = route.methods.get(method.lower())
            if operation is not None and (match := route.path.fullmatch(path)):
                parts = {name: unquote(value) for name, value in match.groupdict().items()}
                return f"{route.pointer}/{method.lower()}", operation, parts
        return None

    def _parameters(
        self, operation: Json, query: dict[str, str], parts: Mapping[str, str]
    ) -> list[str]:
        problems: list[str] = []
        known: set[str] = set()
        for one in map(self._document.resolved, operation.get("parameters", [])):
            name, place = one["name"], one["in"]
            if place == "query":
                known.add(name)
            value = query.get(name) if place == "query" else parts.get(name)
            if value is not None:
                schema = self._document.resolved(one["schema"])
                problems += [f"{place} {name}: {p}" for p in _plain_problems(schema, value)]
            elif place == "query" and one.get("required"):
                problems.append(f"query {name} is missing")
        return problems + [f"query {name} is unknown" for name in query.keys() - known]

    def _body(self, pointer: str, operation: Json, body: bytes) -> list[str]:
        asked = operation.get("requestBody")
        if asked is None:
            return ["takes no body"] if body not in (b"", b"{}") else []
        content = asked.get("content", {}).get("application/json")
        if not body:
            return ["body is missing"] if asked.get("required") else []
        if content is None:
            return []
        value = json.loads(body)
        where = f"{pointer}/requestBody/content/application~1json/schema"
        problems = [f"body {problem}" for problem in self._document.problems(where, value)]
        return problems + self._unknown_keys(content["schema"], value)

    def _unknown_keys(self, schema: Json, value: Any) -> list[str]:
        known = self._document.resolved(schema)
        if not isinstance(value, dict) or "properties" not in known:
            return []
        if any(key in known for key in COMPOSED):
            return []
        keys = cast("Json", value).keys()
        return [f"body {key}: is unknown" for key in keys if key not in known["properties"]]


class WebhookContract:
    """Payloads of the events kept in the slimmed document."""

    def __init__(self) -> None:
        self._document = Document("webhooks")

    def problems(self, event: str, payload: Json) -> list[str]:
        """The violations of GitHub's document in a payload."""
        hooks = self._document.content["webhooks"]
        action = f"-{payload['action']}" if "action" in payload else ""
        name = f"{event}{action}".replace("_", "-")
        if name not in hooks:
            name = event.replace("_", "-")
        if name not in hooks:
            return ["no such webhook"]
        where = f"/webhooks/{name}/post/requestBody/content/application~1json/schema"
        return self._document.problems(where, payload)


@functools.cache
def rest_contract() -> RestContract:
    """Loaded once (0.1 s)."""
    return RestContract()


@functools.cache
def webhook_contract() -> WebhookContract:
    """Loaded once (0.1 s)."""
    return WebhookContract()


def _undocumented(status: int, body: bytes) -> list[str]:
    if status in SERVER_FAULTS:
        return []
    if status not in UNDOCUMENTED:
        return [f"status {status} is not documented"]
    if status == 304:
        return ["has a body"] if body else []
    error = json.loads(body)
    return [] if {"message", "documentation_url"} <= error.keys() else ["is no error document"]


def _plain_problems(schema: Json, value: str) -> list[str]:
    """The violations of a parameter, which is text whatever its type."""
    kinds = schema.get("type")
    kind = cast("list[str]", kinds)[0] if isinstance(kinds, list) else kinds
    if kind == "integer" and not re.fullmatch(r"-?\d+", value):
        return [f"{value!r} is no integer"]
    if kind == "boolean" and value not in ("true", "false"):
        return [f"{value!r} is no boolean"]
    if kind == "string" and "enum" in schema and value not in schema["enum"]:
        return [f"{value!r} is not one of {schema['enum']}"]
    return []


def _pattern(path: str) -> re.Pattern[str]:
    spans = {name for end, name in SPANNING.items() if path.endswith(end)}
    if re.search(r"/git/(ref|refs|matching-refs)/|/commits/\{ref\}", path):
        spans.add("ref")
    parts = re.split(r"\{(\w+)\}", path)
    written = [
        f"(?P<{part}>{'.*' if part == 'path' else '.+' if part in spans else '[^/]+'})"
        if number % 2
        else re.escape(part)
        for number, part in enumerate(parts)
    ]
    return re.compile("".join(written))


def _escaped(path: str) -> str:
    return path.replace("~", "~0").replace("/", "~1")


class ContractLog:
    """`problems` are sentences; `operations` the ids of all successful operations.

    `bad_requests_too` also checks requests that the hub rejected (4xx): a bot under test should
    never send invalid ones, but a test of rejections does.
    """

    def __init__(self, *, bad_requests_too: bool = False) -> None:
        self.problems: list[str] = []
        self.operations: set[str] = set()
        self._all = bad_requests_too

    def __call__(self, exchange: Exchange) -> None:
        """Check an exchange, both ways. The document does not cover git's protocol."""
        if exchange.api != "rest":
            return
        contract, path = rest_contract(), exchange.path
        name = f"{exchange.method} {exchange.path} → {exchange.status}"
        if self._all or exchange.status < 400:
            asked = contract.request(exchange.method, path, exchange.query, exchange.body)
            self.problems += [f"{name}: request: {problem}" for problem in asked]
        kind = exchange.response_headers.get("content-type", "")
        answered = contract.response(
            exchange.method, path, exchange.status, kind, exchange.response
        )
        self.problems += [f"{name}: response: {problem}" for problem in answered]
        operation = contract.operation(exchange.method, path)
        if operation is not None and exchange.status < 400:
            self.operations.add(operation)

    def check(self, deliveries: Iterable[Delivery]) -> None:
        """Check the payloads of webhooks."""
        for delivery in deliveries:
            found = webhook_contract().problems(delivery.event, delivery.payload)
            name = f"webhook {delivery.event}.{delivery.action}"
            self.problems += [f"{name}: {problem}" for problem in found]
