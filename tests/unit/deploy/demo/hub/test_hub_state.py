"""Names, roles and tokens: which are valid, and which are rejected."""

import pytest

from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.webhooks import sign
from tests.support.github.hub import LocalHub


def test_a_name_is_taken_whatever_its_case(hub: LocalHub, repo: Repo) -> None:
    with pytest.raises(ValueError, match="exists already"):
        hub.add_repo("ACME/Shop")
    assert hub.find_repo("ACME/SHOP") is repo


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
