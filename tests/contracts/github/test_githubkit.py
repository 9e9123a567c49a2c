"""githubkit's App authentication and strict models accept the hub's responses."""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any

from githubkit.cache import MemCacheStrategy

from tests.contracts.github.hub_api import HubApi

githubkit: Any = import_module("githubkit")
"""Untyped: for these tests alone, pyright would read thousands of modules of its models."""


def client(world: HubApi) -> Any:
    assert world.repo.installation is not None
    app = world.hub.app
    return githubkit.GitHub(
        githubkit.AppInstallationAuthStrategy(
            app.app_id, app.private_key_pem, world.repo.installation.id
        ),
        base_url=f"{world.hub.url}/api/v3",
        http_cache=False,
        auto_retry=False,
        cache_strategy=MemCacheStrategy(),
    )


async def test_an_issue_is_commented_on_and_labelled(world: HubApi) -> None:
    issue = await world.hub.open_issue(world.repo, "t", "b", "bob", labels=["a b"])
    async with client(world) as github:
        shown = await github.rest.issues.async_get("acme", "shop", issue.number)
        assert shown.parsed_data.title == "t"
        made = await github.rest.issues.async_create_comment("acme", "shop", 1, body="hello")
        assert made.parsed_data.body == "hello"
        gone = await github.rest.issues.async_remove_label("acme", "shop", 1, "a%20b")
        assert gone.json() == []
        await github.rest.reactions.async_create_for_issue("acme", "shop", 1, content="eyes")
    assert [comment.body for comment in issue.comments] == ["hello"]


async def test_a_pull_request_is_opened_and_checked(world: HubApi) -> None:
    sha = await world.hub.commit(world.repo, "fix", {"a.py": "1\n"}, "Add", "alice")
    async with client(world) as github:
        made = await github.rest.pulls.async_create(
            "acme", "shop", title="Fix", head="fix", base="main", draft=True
        )
        assert made.parsed_data.head.sha == sha
        run = await github.rest.checks.async_create(
            "acme", "shop", data={"name": "c", "head_sha": sha, "status": "in_progress"}
        )
        assert run.parsed_data.status == "in_progress"
        role = await github.rest.repos.async_get_collaborator_permission_level(
            "acme", "shop", "alice"
        )
        assert role.parsed_data.permission == "write"


async def test_pages_are_followed(world: HubApi) -> None:
    for number in range(3):
        await world.hub.open_issue(world.repo, f"issue {number}", None, "bob")
    async with client(world) as github:
        pages = github.rest.paginate(
            github.rest.issues.async_list_for_repo,
            map_func=operator.methodcaller("json"),
            owner="acme",
            repo="shop",
            per_page=2,
        )
        numbers = [issue["number"] async for issue in pages]
    assert numbers == [3, 2, 1]
