"""GitHub's error words.

Refusal              any response other than success
QueryFailed          errors of GraphQL, which come with status 200
GitCommandFailed     the git binary failed: a bug of the hub, not of a client
"""

from collections.abc import Mapping
from typing import Any


class Refusal(Exception):
    """An error response of the REST API: status, message, and GitHub's list of `errors`."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON document of GitHub's error responses."""
        errors = {} if self.errors is None else {"errors": self.errors}
        return {
            "message": self.message,
            **errors,
            "documentation_url": "https://docs.github.com/rest",
            "status": str(self.status),
        }


class QueryFailed(Exception):
    """The `errors` of a GraphQL response, which has status 200. An empty `kind` sends no type."""

    def __init__(self, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        error = {"message": message, **({"type": kind} if kind else {})}
        self.body: dict[str, Any] = {"data": None, "errors": [error]}
        self.headers = dict(headers or {})


class GitCommandFailed(Exception):
    """git exited with an error. The message contains its output."""


def not_found() -> Refusal:
    """404, also for objects that the caller may not see."""
    return Refusal(404, "Not Found")


def invalid(resource: str, field: str, code: str = "invalid", message: str = "") -> Refusal:
    """422 with one entry in `errors`, as for GitHub's validation errors."""
    error = {"resource": resource, "field": field, "code": code}
    if message:
        error["message"] = message
    return Refusal(422, "Validation Failed", [error])


def unprocessable(message: str) -> Refusal:
    """422 with one plain sentence in `errors`, as for reviews."""
    return Refusal(422, "Unprocessable Entity", [message])


def custom_error(resource: str, message: str) -> Refusal:
    """422 with one sentence in `errors` (its `code` is `custom`)."""
    return Refusal(
        422, "Validation Failed", [{"resource": resource, "code": "custom", "message": message}]
    )
