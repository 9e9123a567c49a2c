"""Repositories: data, files, branches, permissions."""

from __future__ import annotations

import asyncio

from bot.localhub.errors import Refusal, not_found
from bot.localhub.git.types import Entry
from bot.localhub.json import gitdata, repositories
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.state import Repo

REPO = "/repos/{owner}/{repo}"

MAX_INLINE = 1024 * 1024
"""In bytes. For larger files, GitHub leaves `content` empty and requires the raw media type."""


async def show(call: RestCall) -> RestResponse:
    return RestResponse(200, repositories.full_repository(call.hub.url, call.repo))


async def show_permission(call: RestCall) -> RestResponse:
    user = call.hub.find_user(call.parts["login"])
    if user is None or user.type == "Bot":
        raise Refusal(404, f"{call.parts['login']} is not a user")
    return RestResponse(200, repositories.permission(call.hub.url, call.repo, user))


async def show_contents(call: RestCall) -> RestResponse:
    """A file, a folder's listing, or, with the raw media type, a file's bytes."""
    rev = call.query.get("ref") or call.repo.default_branch
    path = call.parts.get("path", "").strip("/")
    return await asyncio.to_thread(_read_contents, call, rev, path)


def _read_contents(call: RestCall, rev: str, path: str) -> RestResponse:
    git, url = call.repo.git, call.hub.url
    if git.resolve(rev) is None:
        empty = "This repository is empty."
        raise Refusal(404, f"No commit found for the ref {rev}" if git.list_refs() else empty)
    entry = git.find_entry(rev, path)
    if entry is None:
        raise not_found()
    if entry.kind == "tree":
        inside = [_prefix_path(path, line) for line in git.list_entries(entry.sha)]
        listing = [gitdata.content(url, call.repo, line, rev) for line in inside]
        return RestResponse(200, listing)
    if entry.kind != "blob":
        return RestResponse(200, _submodule_json(url, call.repo, entry, rev))
    data = git.read_object("blob", entry.sha)
    if "raw" in call.headers.get("accept", ""):
        return RestResponse(200, data, {"content-type": "application/vnd.github.raw+json"})
    return RestResponse(200, _file_json(url, call.repo, entry, rev, data))


def _file_json(url: str, repo: Repo, entry: Entry, rev: str, data: bytes) -> dict[str, object]:
    shape = gitdata.content(url, repo, entry, rev, data)
    if shape["type"] == "symlink":
        del shape["content"], shape["encoding"]
        return {**shape, "target": data.decode("utf-8", "replace")}
    if len(data) > MAX_INLINE:
        return {**shape, "content": "", "encoding": "none"}
    return shape


def _submodule_json(url: str, repo: Repo, entry: Entry, rev: str) -> dict[str, object]:
    return {**gitdata.content(url, repo, entry, rev), "submodule_git_url": "", "git_url": None}


def _prefix_path(folder: str, line: Entry) -> Entry:
    path = f"{folder}/{line.path}" if folder else line.path
    return Entry(line.mode, line.kind, line.sha, line.size, path)


async def list_branches(call: RestCall) -> RestResponse:
    heads = await asyncio.to_thread(call.repo.git.list_refs, "refs/heads/")
    shown = [gitdata.branch(call.hub.url, call.repo, name, sha) for name, sha in heads.items()]
    return paginate(call, shown)


async def show_branch(call: RestCall) -> RestResponse:
    name, git = call.parts["branch"], call.repo.git
    sha = (await asyncio.to_thread(git.list_refs, "refs/heads/")).get(name)
    if sha is None:
        raise Refusal(404, "Branch not found")
    head = await asyncio.to_thread(git.read_commit, sha)
    return RestResponse(200, gitdata.full_branch(call.hub.url, call.repo, name, head))


OPERATIONS = (
    operation("GET", REPO, show, "metadata:read"),
    operation("GET", REPO + "/collaborators/{login}/permission", show_permission, "metadata:read"),
    operation("GET", REPO + "/contents", show_contents, "contents:read"),
    operation("GET", REPO + "/contents/", show_contents, "contents:read"),
    operation("GET", REPO + "/contents/{path...}", show_contents, "contents:read"),
    operation("GET", REPO + "/branches", list_branches, "contents:read"),
    operation("GET", REPO + "/branches/{branch...}", show_branch, "contents:read"),
)
