"""What the hub answers when it does not do as asked, worded as GitHub words it.

Refusal              any answer other than success
GitFailed            the git binary failed: a fault of ours, never of a client
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCUMENTATION = "https://docs.github.com/rest"


class Refusal(Exception):
    """An error answer of the REST API: status, message, and GitHub's list of `errors`."""

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
        """GitHub's error document."""
        errors = {} if self.errors is None else {"errors": self.errors}
        return {
            "message": self.message,
            **errors,
            "documentation_url": DOCUMENTATION,
            "status": str(self.status),
        }


class GitCommandFailed(Exception):
    """git ended with an error. The message holds what it printed."""


def not_found() -> Refusal:
    """Also the answer for what exists but may not be seen."""
    return Refusal(404, "Not Found")


def invalid(resource: str, field: str, code: str = "invalid", message: str = "") -> Refusal:
    """422 with one entry in `errors`, in the form of GitHub's validation errors."""
    error = {"resource": resource, "field": field, "code": code}
    if message:
        error["message"] = message
    return Refusal(422, "Validation Failed", [error])


def unprocessable(message: str) -> Refusal:
    """422 whose one error is a bare sentence, as reviews answer it."""
    return Refusal(422, "Unprocessable Entity", [message])


def custom_error(resource: str, message: str) -> Refusal:
    """422 whose one error is a sentence of its own (`code` is `custom_error`)."""
    return Refusal(
        422, "Validation Failed", [{"resource": resource, "code": "custom", "message": message}]
    )
