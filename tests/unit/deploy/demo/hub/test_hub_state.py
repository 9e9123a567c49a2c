"""Names, roles and tokens: which are valid, and which are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from capuchin_demo.hub.github_errors import GitCommandFailed
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import AppIdentity
from capuchin_demo.hub.webhooks import sign
from tests.support.github.hub import LocalHub


@pytest.mark.parametrize(
    "name", ["acme/..", "acme/.", "acme/a b", "acme/", "acme", "../shop", "acme/x/y", "acme/x.git",
             "-x/shop", "acme/x\n"]
)  # fmt: skip
def test_a_bad_repository_name_is_refused(
    app_identity: AppIdentity, tmp_path: Path, name: str
) -> None:
    hub = LocalHub(tmp_path, "s", app_identity)
    with pytest.raises(ValueError, match="is no"):
        hub.add_repo(name)
    assert hub.repos == {}


def test_a_name_is_taken_whatever_its_case(hub: LocalHub, repo: Repo) -> None:
    with pytest.raises(ValueError, match="exists already"):
        hub.add_repo("ACME/Shop")
    assert hub.find_repo("ACME/SHOP") is repo


@pytest.mark.parametrize("path", ["../up", ".git/hooks/x", "/abs", "a/.GIT/b", "a\0b", ""])
def test_a_file_outside_the_tree_is_refused(
    app_identity: AppIdentity, tmp_path: Path, path: str
) -> None:
    hub = LocalHub(tmp_path, "s", app_identity)
    with pytest.raises(GitCommandFailed, match="not a path"):
        hub.add_repo("acme/shop", {path: "x"})


@pytest.mark.parametrize("branch", ["a..b", "-x", "a b", ""])
def test_a_bad_branch_name_is_refused(
    app_identity: AppIdentity, tmp_path: Path, branch: str
) -> None:
    with pytest.raises(GitCommandFailed):
        LocalHub(tmp_path, "s", app_identity).add_repo(
            "acme/shop", {"a": "b"}, default_branch=branch
        )


def test_an_unknown_role_is_refused(repo: Repo) -> None:
    with pytest.raises(ValueError, match="is not a role"):
        repo.grant("alice", "owner")


def test_a_stranger_reads_what_is_public_and_nothing_private(hub: LocalHub, repo: Repo) -> None:
    stranger = hub.add_user("carol")
    private = hub.add_repo("acme/secret", {"a": "b"}, private=True)
    assert (repo.role_of(stranger), private.role_of(stranger)) == ("read", "none")
    assert repo.role_of(repo.owner) == "admin"


def test_the_signature_is_githubs_own_example() -> None:
    """https://docs.github.com/webhooks/using-webhooks/validating-webhook-deliveries."""
    assert sign("It's a Secret to Everybody", b"Hello, World!") == (
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    )


def test_secrets_stay_out_of_what_is_printed(hub: LocalHub, repo: Repo) -> None:
    token = hub.create_personal_token("alice")
    found = hub.tokens.find(token)
    assert token not in repr(found)
    assert "PRIVATE" not in repr(hub.app)
