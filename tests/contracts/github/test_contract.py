"""The checker finds violations, and the hub's table matches GitHub's document."""

from __future__ import annotations

import re

import pytest

from capuchin_demo.hub.rest_call import match
from capuchin_demo.hub.rest_router import OPERATIONS
from tests.contracts.github.contract import rest_contract, webhook_contract
from tests.contracts.github.slim_documents import OPERATIONS as DOCUMENTED

SAMPLES = {"installation_id": "1", "basehead": "a...b", "ref": "heads/main"}


def concrete(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: SAMPLES.get(found[1], "1"), path)


@pytest.mark.parametrize(
    ("method", "path"),
    [(method, path) for path, methods in DOCUMENTED.items() for method in methods.split()],
)
def test_the_hub_has_every_operation_of_the_slimmed_document(method: str, path: str) -> None:
    found = match(OPERATIONS, method.upper(), concrete(path))
    assert found is not None
    assert rest_contract().operation(method, concrete(path)) is not None


def test_the_document_has_every_operation_of_the_hub() -> None:
    samples = {"of": "o", "owner": "o", "repo": "r", "ref": "heads/main", "basehead": "a...b"}
    for operation in OPERATIONS:
        path = re.sub(
            r"\(\?P<(\w+)>[^)]*\)", lambda found: samples.get(found[1], "1"), operation.path.pattern
        ).replace("\\", "")
        assert rest_contract().operation(operation.method, path.removesuffix("/") or path) or (
            rest_contract().operation(operation.method, f"{path.rstrip('/')}/")
        ), path


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "complaint"),
    [
        ("POST", "/repos/o/r/issues", [], b"{}", "title"),
        ("POST", "/repos/o/r/issues", [], b'{"title": ["x"]}', "title"),
        ("POST", "/repos/o/r/issues/1/comments", [], b'{"body": "x", "bdy": 1}', "bdy"),
        ("POST", "/repos/o/r/issues/1/comments", [], b"", "body is missing"),
        ("GET", "/repos/o/r/issues", [("state", "bogus")], b"", "not one of"),
        ("GET", "/repos/o/r/issues", [("per_page", "x")], b"", "no integer"),
        ("GET", "/repos/o/r/issues", [("stat", "open")], b"", "stat is unknown"),
        ("GET", "/repos/o/r/issues", [], b'{"a": 1}', "takes no body"),
        ("GET", "/repos/o/r/nothing", [], b"", "no such operation"),
    ],
)
def test_a_request_that_github_would_not_take_is_a_problem(
    method: str, path: str, query: list[tuple[str, str]], body: bytes, complaint: str
) -> None:
    assert complaint in " ".join(rest_contract().request(method, path, query, body))


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [
        (200, b"{}", "required"),
        (418, b"{}", "not documented"),
        (401, b'{"oops": 1}', "no error document"),
    ],
)
def test_an_answer_that_github_would_not_give_is_a_problem(
    status: int, body: bytes, complaint: str
) -> None:
    problems = rest_contract().response(
        "GET", "/repos/o/r/issues/1", status, "application/json", body
    )
    assert complaint in " ".join(problems)


def test_paths_with_slashes_find_their_operation() -> None:
    contract = rest_contract()
    assert contract.operation("GET", "/repos/o/r/contents/a/b/c.py") == "repos/get-content"
    assert contract.operation("PATCH", "/repos/o/r/git/refs/heads/a/b") == "git/update-ref"
    assert contract.operation("GET", "/repos/o/r/branches/a/b") == "repos/get-branch"


def test_a_payload_that_github_would_not_send_is_a_problem() -> None:
    assert webhook_contract().problems("issues", {"action": "labeled"})
    assert webhook_contract().problems("nonsense", {}) == ["no such webhook"]
