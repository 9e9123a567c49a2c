"""Apps, accounts, repositories."""

import asyncio
from dataclasses import replace
from typing import Any, cast

from capuchin_demo.hub import git_json, repository_json
from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.state import AppInstallation, Repo, now, stamp
from capuchin_demo.hub.tokens import LEVELS

REPO = "/repos/{owner}/{repo}"


async def show_repository(call: RestCall) -> RestResponse:
    return RestResponse(200, repository_json.repository(call.repo))


async def show_permission(call: RestCall) -> RestResponse:
    user = call.state.find_user(call.parts["login"])
    if user is None or user.type == "Bot":
        raise Refusal(404, f"{call.parts['login']} is not a user")
    return RestResponse(200, repository_json.permission(call.repo, user))


async def list_branches(call: RestCall) -> RestResponse:
    heads = await asyncio.to_thread(call.repo.git.list_refs, "refs/heads/")
    shown = [git_json.branch(call.repo, name, sha) for name, sha in heads.items()]
    return paginate(call, shown)


async def show_app(call: RestCall) -> RestResponse:
    state = call.state
    return RestResponse(200, state.app_json)


async def list_installations(call: RestCall) -> RestResponse:
    state = call.state
    every = [repository_json.installation(state.app, one) for one in state.installations.values()]
    return paginate(call, every)


async def create_token(call: RestCall) -> RestResponse:
    """Create a token. It may have fewer permissions than the installation, never more (422)."""
    state = call.state
    one = state.installations.get(call.number("id"))
    if one is None:
        raise not_found()
    repos, permissions = _parse_repos(call, one), _parse_permissions(call, one)
    token = state.tokens.create_for_installation(one, state.bot, repos, permissions)
    body: dict[str, Any] = {
        "token": token.value,
        "expires_at": stamp(token.expires_at),
        "permissions": permissions,
        "repository_selection": "selected",
    }
    if repos is not None:
        body["repositories"] = [repository_json.repository(repo) for repo in repos]
    return RestResponse(201, body)


async def list_repositories(call: RestCall) -> RestResponse:
    token = call.bearer
    if token.installation is None:
        raise Refusal(403, "You must authenticate with an installation access token in order to "
                      "list repositories for an installation.")  # fmt: skip
    seen = [repo for repo in token.installation.repos if token.can_see(repo)]
    answer = paginate(
        call, [repository_json.repository(repo) for repo in seen], wrap="repositories"
    )
    return RestResponse(200, {**answer.body, "repository_selection": "selected"}, answer.headers)


def _parse_repos(call: RestCall, one: AppInstallation) -> tuple[Repo, ...] | None:
    body = call.json()
    names, ids = body.get("repositories"), body.get("repository_ids")
    if names is None and ids is None:
        return None
    by_name = {repo.name.lower(): repo for repo in one.repos}
    by_id = {repo.id: repo for repo in one.repos}
    try:
        named = [by_name[str(name).lower()] for name in cast("list[Any]", names or [])]
        return (*named, *(by_id[number] for number in cast("list[Any]", ids or [])))
    except KeyError:
        raise Refusal(
            422,
            "There is at least one repository that does not exist or is not accessible to the "
            "parent installation.",
        ) from None


def _parse_permissions(call: RestCall, one: AppInstallation) -> dict[str, str]:
    asked = cast("dict[str, str] | None", call.json().get("permissions"))
    if asked is None:
        return dict(one.permissions)
    for name, level in asked.items():
        granted = one.permissions.get(name, "none")
        if level not in LEVELS or LEVELS.index(level) > LEVELS.index(granted):
            raise Refusal(422, "The permissions requested are not granted to this installation.")
    return {"metadata": "read", **asked}


async def show_branch(call: RestCall) -> RestResponse:
    name, git = call.parts["branch"], call.repo.git
    sha = (await asyncio.to_thread(git.list_refs, "refs/heads/")).get(name)
    if sha is None:
        raise Refusal(404, "Branch not found")
    head = await asyncio.to_thread(git.read_commit, sha)
    return RestResponse(
        200, git_json.full_branch(call.repo, name, git_json.commit(call.repo, head, None))
    )


async def list_deliveries(call: RestCall) -> RestResponse:
    sent = [
        {
            "id": number,
            "guid": delivery.guid,
            "delivered_at": stamp(now()),
            "redelivery": False,
            "duration": 0.03,
            "status": "OK" if delivery.status and delivery.status < 300 else delivery.error,
            "status_code": delivery.status or 0,
            "event": delivery.event,
            "action": delivery.action,
            "installation_id": None,
            "repository_id": None,
        }
        for number, delivery in enumerate(call.state.webhooks.deliveries, 1)
    ]
    return paginate(call, sent[::-1])


async def show_installation(call: RestCall) -> RestResponse:
    one = call.state.installations.get(call.number("id"))
    if one is None:
        raise not_found()
    return RestResponse(200, repository_json.installation(call.state.app, one))


async def show_contents(call: RestCall) -> RestResponse:
    """A file or a folder's listing."""
    rev = call.query.get("ref") or call.repo.default_branch
    path = call.parts["path"]
    return await asyncio.to_thread(_read_contents, call, rev, path)


def _read_contents(call: RestCall, rev: str, path: str) -> RestResponse:
    git = call.repo.git
    if git.resolve(rev) is None:
        empty = "This repository is empty."
        raise Refusal(404, f"No commit found for the ref {rev}" if git.list_refs() else empty)
    entry = git.find_entry(rev, path)
    if entry is None:
        raise not_found()
    if entry.kind == "tree":
        inside = [replace(e, path=f"{path}/{e.path}") for e in git.list_entries(entry.sha)]
        return RestResponse(200, [git_json.content(call.repo, line, rev) for line in inside])
    data = git.read_object("blob", entry.sha)
    return RestResponse(200, git_json.content(call.repo, entry, rev, data))


async def show_user(call: RestCall) -> RestResponse:
    user = call.state.find_user(call.parts["login"])
    if user is None:
        raise not_found()
    return RestResponse(200, repository_json.public_user(user))


async def list_branch_rules(_: RestCall) -> RestResponse:
    """None: this GitHub has no rulesets."""
    return RestResponse(200, [])


OPERATIONS = (
    operation("GET", REPO + "/rules/branches/{branch...}", list_branch_rules, "metadata:read"),
    operation("GET", REPO + "/contents/{path...}", show_contents, "contents:read"),
    operation("GET", REPO + "/branches/{branch...}", show_branch, "contents:read"),
    operation("GET", "/app/hook/deliveries", list_deliveries, "app"),
    operation("GET", "/app/installations/{id}", show_installation, "app"),
    operation("GET", REPO, show_repository, "metadata:read"),
    operation("GET", REPO + "/collaborators/{login}/permission", show_permission, "metadata:read"),
    operation("GET", REPO + "/branches", list_branches, "contents:read"),
    operation("GET", "/app", show_app, "app"),
    operation("GET", "/app/installations", list_installations, "app"),
    operation("POST", "/app/installations/{id}/access_tokens", create_token, "app"),
    operation("GET", "/installation/repositories", list_repositories),
    operation("GET", "/users/{login}", show_user),
)
