"""Git objects: blobs, trees, commits, with the ids that git computes."""

from __future__ import annotations

import asyncio
import base64
import binascii
from datetime import UTC, datetime
from typing import Any, cast

from bot.localhub.errors import GitCommandFailed, Refusal, not_found
from bot.localhub.git.repo import GitRepo
from bot.localhub.git.types import Signature
from bot.localhub.json import gitdata as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import User, now

READ = "contents:read"
WRITE = "contents:write"

FILE_MODES = ("100644", "100755", "120000", "160000")

Json = dict[str, Any]


async def create_blob(call: RestCall) -> RestResponse:
    _require_not_empty(call.repo.git)
    body = call.json()
    content = body.get("content")
    if not isinstance(content, str):
        raise Refusal(422, 'Invalid request.\n\n"content" wasn\'t supplied.')
    data = _decode(content, str(body.get("encoding", "utf-8")))
    sha = await asyncio.to_thread(call.repo.git.write_blob, data)
    shape = shapes.blob(call.hub.url, call.repo, sha, b"")
    return RestResponse(201, {"sha": sha, "url": shape["url"]})


async def show_blob(call: RestCall) -> RestResponse:
    sha, git = call.parts["sha"], call.repo.git
    if await asyncio.to_thread(git.object_kind, sha) != "blob":
        raise not_found()
    data = await asyncio.to_thread(git.read_object, "blob", sha)
    if "raw" in call.headers.get("accept", ""):
        return RestResponse(200, data, {"content-type": "application/vnd.github.raw+json"})
    return RestResponse(200, shapes.blob(call.hub.url, call.repo, sha, data))


async def create_tree(call: RestCall) -> RestResponse:
    return await asyncio.to_thread(_create_tree, call)


def _create_tree(call: RestCall) -> RestResponse:
    git, body = call.repo.git, call.json()
    _require_not_empty(git)
    base = body.get("base_tree")
    if base is not None:
        base = _resolve_tree(git, str(base))
    asked = body.get("tree")
    if not isinstance(asked, list):
        raise Refusal(422, 'Invalid request.\n\n"tree" wasn\'t supplied.')
    files: dict[str, tuple[str, str] | None] = {}
    for one in cast("list[Json]", asked):
        files |= _parse_tree_entry(git, one)
    try:
        sha = git.write_paths(base, files)
    except GitCommandFailed:
        raise Refusal(422, "tree.path contains a malformed path component") from None
    return RestResponse(201, shapes.tree(call.hub.url, call.repo, sha, git.list_entries(sha)))


def _parse_tree_entry(git: GitRepo, one: Json) -> dict[str, tuple[str, str] | None]:
    path, mode, sha = str(one.get("path") or ""), one.get("mode"), one.get("sha")
    if not path or "\0" in path or "\n" in path:
        raise Refusal(422, "tree.path contains a malformed path component")
    if "sha" in one and sha is None:
        return {path: None}
    if sha is None:
        if not isinstance(one.get("content"), str):
            raise Refusal(422, "Must supply either tree.sha or tree.content")
        sha = git.write_blob(one["content"].encode())
    kind = git.object_kind(str(sha))
    if mode == "040000" and kind == "tree":
        inside = git.list_entries(str(sha), recursive=True)
        return {f"{path}/{e.path}": (e.mode, e.sha) for e in inside if e.kind != "tree"}
    if mode not in FILE_MODES:
        raise Refusal(422, "Must supply a valid tree.mode")
    if mode != "160000" and kind != "blob":
        raise Refusal(422, f"tree.sha {sha} is not a valid blob")
    return {path: (mode, str(sha))}


async def show_tree(call: RestCall) -> RestResponse:
    """Show a tree by its id, or of a branch or commit."""
    git = call.repo.git
    try:
        sha = await asyncio.to_thread(_resolve_tree, git, call.parts["sha"])
    except Refusal:
        raise not_found() from None
    recursive = bool(call.query.get("recursive"))
    lines = await asyncio.to_thread(lambda: git.list_entries(sha, recursive=recursive))
    return RestResponse(200, shapes.tree(call.hub.url, call.repo, sha, lines))


async def create_commit(call: RestCall) -> RestResponse:
    return await asyncio.to_thread(_create_commit, call)


def _create_commit(call: RestCall) -> RestResponse:
    git, body = call.repo.git, call.json()
    message = call.text("message", "Commit")
    tree, parents = str(body.get("tree")), cast("list[str]", body.get("parents") or [])
    if git.object_kind(tree) != "tree":
        raise Refusal(422, "Tree SHA does not exist")
    for parent in parents:
        if git.object_kind(str(parent)) != "commit":
            raise Refusal(422, "Parent SHA does not exist or is not a commit object")
    author = _parse_signature(body.get("author"), call.bearer.actor)
    by = (
        _parse_signature(body.get("committer"), call.bearer.actor)
        if body.get("committer")
        else author
    )
    sha = git.write_commit(tree, parents, message, author, by)
    return RestResponse(201, shapes.git_commit(call.hub.url, call.repo, git.read_commit(sha)))


async def show_commit(call: RestCall) -> RestResponse:
    sha, git = call.parts["sha"], call.repo.git
    if await asyncio.to_thread(git.object_kind, sha) != "commit":
        raise not_found()
    commit = await asyncio.to_thread(git.read_commit, sha)
    return RestResponse(200, shapes.git_commit(call.hub.url, call.repo, commit))


def noreply_address(user: User) -> str:
    """The noreply address that GitHub gives each account, including bots."""
    return f"{user.id}+{user.login}@users.noreply.github.com"


def _parse_signature(fields: Json | None, user: User) -> Signature:
    if not fields:
        return Signature(user.login, noreply_address(user), now())
    when = fields.get("date")
    try:
        at = datetime.fromisoformat(when).astimezone(UTC) if when else now()
        return Signature(str(fields["name"]), str(fields["email"]), at)
    except (KeyError, ValueError):
        raise Refusal(422, "Invalid request.\n\nauthor needs name and email") from None


def _decode(content: str, encoding: str) -> bytes:
    if encoding == "utf-8":
        return content.encode()
    try:
        return base64.b64decode(content)
    except (binascii.Error, ValueError):
        raise Refusal(422, "content is not valid Base64") from None


def _resolve_tree(git: GitRepo, name: str) -> str:
    if git.object_kind(name) == "tree":
        return name
    commit = git.resolve(name)
    if commit is None:
        raise Refusal(422, "base_tree is not a valid tree oid")
    return git.read_commit(commit).tree


def _require_not_empty(git: GitRepo) -> None:
    if not git.list_refs():
        raise Refusal(409, "Git Repository is empty.")


GIT = REPO + "/git"

OPERATIONS = (
    operation("POST", GIT + "/blobs", create_blob, WRITE),
    operation("GET", GIT + "/blobs/{sha}", show_blob, READ),
    operation("POST", GIT + "/trees", create_tree, WRITE),
    operation("GET", GIT + "/trees/{sha...}", show_tree, READ),
    operation("POST", GIT + "/commits", create_commit, WRITE),
    operation("GET", GIT + "/commits/{sha}", show_commit, READ),
)
