"""Apps, accounts, repositories: what the demo does not need."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

from capuchin_demo.hub import rest_repositories
from capuchin_demo.hub.git_repository import Entry
from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import Repo, now, stamp
from tests.support.github import git_json, repository_json, rest_search
from tests.support.github.access import refuse_unavailable
from tests.support.github.hub_state import hub_of


async def show_branch(call: RestCall) -> RestResponse:
    name, git = call.parts["branch"], call.repo.git
    sha = (await asyncio.to_thread(git.list_refs, "refs/heads/")).get(name)
    if sha is None:
        raise Refusal(404, "Branch not found")
    head = await asyncio.to_thread(git.read_commit, sha)
    return RestResponse(
        200, git_json.full_branch(call.repo, name, call.shapes.commit(call.repo, head, None))
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


async def show_repo_installation(call: RestCall) -> RestResponse:
    state = hub_of(call)
    name = f"{call.parts['of']}/{call.parts['name']}"
    repo = state.find_repo(name) or state.find_moved(name)  # GitHub redirects here, too
    if repo is None or repo.installation is None:
        raise not_found()
    return RestResponse(200, repository_json.installation(state.app, repo.installation))


async def show_rate_limit(call: RestCall) -> RestResponse:
    hub = hub_of(call)
    facts, search = hub.limit.summary(), hub.search_limit.summary()
    return RestResponse(200, {"resources": {"core": facts, "search": search}, "rate": facts})


async def convert_manifest(call: RestCall) -> RestResponse:
    """Exchange the code of a new App for its keys, once."""
    made = hub_of(call).new_apps.pop(call.parts["code"], None)
    if made is None:
        raise not_found()
    identity, secret = made
    return RestResponse(
        201,
        {
            **repository_json.app(identity, call.state.bot),
            "client_secret": secrets.token_hex(20),
            "webhook_secret": secret or None,
            "pem": identity.private_key_pem,
        },
    )


async def show_contents(call: RestCall) -> RestResponse:
    """A file, a folder's listing, or, with the raw media type, a file's bytes."""
    rev = call.query.get("ref") or call.repo.default_branch
    path = call.parts.get("path", "").strip("/")
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
        folder = f"{path}/" if path else ""
        inside = [replace(line, path=folder + line.path) for line in git.list_entries(entry.sha)]
        return RestResponse(200, [git_json.content(call.repo, line, rev) for line in inside])
    if entry.kind != "blob":
        shape = git_json.content(call.repo, entry, rev)
        return RestResponse(200, {**shape, "submodule_git_url": "", "git_url": None})
    data = git.read_object("blob", entry.sha)
    if "raw" in call.headers.get("accept", ""):
        return RestResponse(200, data, {"content-type": "application/vnd.github.raw+json"})
    return RestResponse(200, _file_json(call.repo, entry, rev, data))


def _file_json(repo: Repo, entry: Entry, rev: str, data: bytes) -> dict[str, object]:
    shape = git_json.content(repo, entry, rev, data)
    if shape["type"] == "symlink":
        del shape["content"], shape["encoding"]
        return {**shape, "target": data.decode("utf-8", "replace")}
    # For larger files, GitHub leaves `content` empty and requires the raw media type.
    if len(data) > 1024 * 1024:
        return {**shape, "content": "", "encoding": "none"}
    return shape


async def show_repository(call: RestCall) -> RestResponse:
    shape = rest_search.show_popular(hub_of(call), call.repo)
    return RestResponse(200, {**shape, "network_count": 0, "subscribers_count": 0})


async def show_user(call: RestCall) -> RestResponse:
    user = call.state.find_user(call.parts["login"])
    if user is None:
        raise not_found()
    return RestResponse(200, repository_json.public_user(user))


async def create_token(call: RestCall) -> RestResponse:
    if one := call.state.installations.get(call.number("id")):
        refuse_unavailable(hub_of(call), one)
    return await rest_repositories.create_token(call)


OPERATIONS = (
    operation("GET", REPO, show_repository, "metadata:read"),
    operation("GET", REPO + "/contents", show_contents, "contents:read"),
    operation("GET", REPO + "/contents/", show_contents, "contents:read"),
    operation("GET", REPO + "/contents/{path...}", show_contents, "contents:read"),
    operation("GET", REPO + "/branches/{branch...}", show_branch, "contents:read"),
    operation("POST", "/app-manifests/{code}/conversions", convert_manifest, "open"),
    operation("GET", "/app/hook/deliveries", list_deliveries, "app"),
    operation("GET", "/app/installations/{id}", show_installation, "app"),
    operation("POST", "/app/installations/{id}/access_tokens", create_token, "app"),
    operation("GET", "/repos/{of}/{name}/installation", show_repo_installation, "app"),
    operation("GET", "/users/{login}", show_user),
    operation("GET", "/rate_limit", show_rate_limit),
)
