"""The note on which hosts received code claims only what is certain."""

from __future__ import annotations

import pytest

from bot.comments.run_details import destinations_note, external_hosts
from bot.settings import Settings
from sandbox.frozen import replace
from tests.support.data.publishing import ACCOUNTS

OWN = ("127.0.0.1", "10.0.0.5")
LIVE = [replace(account, model="qwen") for account in ACCOUNTS]


def said(*sent_to: str, served: bool = True, **fields: str) -> str:
    hosts = external_hosts(sent_to, Settings.model_validate(fields), by_app=served)
    return destinations_note(hosts, LIVE, by_app=served)


def test_all_on_the_operators_own_machines() -> None:
    assert said(*OWN) == (
        "The models ran on the operator's own machines or network, and I sent code nowhere else "
        "except to GitHub. I cannot see whether those machines pass it on."
    )
    assert "nowhere else. I cannot" in said(*OWN, served=False)


def test_hosts_elsewhere_are_named_and_own_ones_are_not() -> None:
    assert said(*OWN, "api.anthropic.com") == "Code was sent to `api.anthropic.com`."
    many = said(*(f"m{n}.example.org" for n in range(13)))
    assert many.endswith("`m9.example.org` and 3 more.")


@pytest.mark.parametrize(
    ("fields", "host"),
    [
        ({"redis_url": "redis://user:secret@redis.example.org:6379/0"}, "redis.example.org"),
        ({"docker_url": "ssh://root@build.example.org"}, "build.example.org"),
        ({"docker_url": "tcp://builder:2376"}, "builder"),
    ],
)
def test_what_keeps_and_runs_the_code_counts_too(fields: dict[str, str], host: str) -> None:
    assert said(*OWN, served=True, **fields) == f"Code was sent to `{host}`."
    assert "nowhere else" in said(*OWN, served=True, own_hosts=f"x, {host}", **fields)


def test_a_cluster_is_somewhere_unless_it_is_declared() -> None:
    fields = {"sandbox": "kubernetes", "sandbox_registry": "registry.example.org:5000/capuchin"}
    assert (
        said(*OWN, served=True, **fields)
        == "Code was sent to `kubernetes`, `registry.example.org`."
    )
    own = "kubernetes,.example.org"
    assert "nowhere else" in said(*OWN, served=True, own_hosts=own, **fields)


def test_without_redis_its_address_is_of_no_interest() -> None:
    assert "nowhere else" in said(*OWN, served=False, redis_url="redis://redis.example.org")


def test_what_is_not_known_is_not_said() -> None:
    assert (said(), said("", *OWN)) == ("", "")
