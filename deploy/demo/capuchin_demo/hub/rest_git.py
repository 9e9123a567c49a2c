"""Commits, git objects, refs."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from capuchin_demo.hub import git_compare, pull_actions
from capuchin_demo.hub.git_repository import Commit, GitRepo, Signature
from capuchin_demo.hub.github_errors import GitCommandFailed, Refusal, not_found
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import User, now, stamp

READ = "contents:read"
WRITE = "contents:write"
GIT = REPO + "/git"


def find_committer(state: State, commit: Commit) -> User | None:
    """The account of the author's e-mail, if it is an account's noreply address."""
    found = re.fullmatch(r"(?:\d+\+)?(.+)@users\.noreply\.github\.com", commit.author.email)
    return state.find_user(found[1]) if found else None


async def list_commits(call: RestCall) -> RestResponse:
    rev = call.query.get("sha") or call.repo.default_branch
    git = call.repo.git
    if not await asyncio.to_thread(git.list_refs):
        raise Refusal(409, "Git Repository is empty.")
    if await asyncio.to_thread(git.resolve, rev) is None:
        raise not_found()
    path = call.query.get("path", "")
    log = await asyncio.to_thread(lambda: git.log(rev, path=path, limit=1000))
    since = call.query.get("since", "")
    return paginate(
        call, [commit_json(call, one) for one in log if since <= stamp(one.committer.at)]
    )


async def compare(call: RestCall) -> RestResponse:
    """Compare `base...head`."""
    base, dots, head = call.parts["basehead"].partition("...")
    git = call.repo.git
    ours, theirs = [await asyncio.to_thread(git.resolve, rev) for rev in (base, head)]
    if not dots or ours is None or theirs is None:
        raise not_found()
    compared = await asyncio.to_thread(git_compare.compare, git, ours, theirs)
    if compared.merge_base is None:
        raise Refusal(404, "No common ancestor between the two.")
    return RestResponse(200, {"merge_base_commit": {"sha": compared.merge_base}})


def commit_json(call: RestCall, one: Commit) -> dict[str, Any]:
    return call.shapes.commit(call.repo, one, find_committer(call.state, one))


Json = dict[str, Any]


async def create_tree(call: RestCall) -> RestResponse:
    return await asyncio.to_thread(_create_tree, call)


def _create_tree(call: RestCall) -> RestResponse:
    git, body = call.repo.git, call.json()
    require_not_empty(git)
    base = body.get("base_tree")
    if base is not None:
        base = resolve_tree(git, str(base))
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
    return RestResponse(201, call.shapes.tree(call.repo, sha, git.list_entries(sha)))


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
    if mode not in ("100644", "100755", "120000", "160000"):
        raise Refusal(422, "Must supply a valid tree.mode")
    if mode != "160000" and kind != "blob":
        raise Refusal(422, f"tree.sha {sha} is not a valid blob")
    return {path: (mode, str(sha))}


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
    return RestResponse(201, call.shapes.git_commit(call.repo, git.read_commit(sha)))


async def show_git_commit(call: RestCall) -> RestResponse:
    sha, git = call.parts["sha"], call.repo.git
    if await asyncio.to_thread(git.object_kind, sha) != "commit":
        raise not_found()
    commit = await asyncio.to_thread(git.read_commit, sha)
    return RestResponse(200, call.shapes.git_commit(call.repo, commit))


def _parse_signature(fields: Json | None, user: User) -> Signature:
    if not fields:
        host = urlsplit(user.site.url).hostname
        return Signature(user.login, f"{user.id}+{user.login}@users.noreply.{host}", now())
    when = fields.get("date")
    try:
        at = datetime.fromisoformat(when).astimezone(UTC) if when else now()
        return Signature(str(fields["name"]), str(fields["email"]), at)
    except (KeyError, ValueError):
        raise Refusal(422, "Invalid request.\n\nauthor needs name and email") from None


def resolve_tree(git: GitRepo, name: str) -> str:
    if git.object_kind(name) == "tree":
        return name
    commit = git.resolve(name)
    if commit is None:
        raise Refusal(422, "base_tree is not a valid tree oid")
    return git.read_commit(commit).tree


def require_not_empty(git: GitRepo) -> None:
    if not git.list_refs():
        raise Refusal(409, "Git Repository is empty.")


async def show_ref(call: RestCall) -> RestResponse:
    """Show a ref by its exact name; a prefix of other names is 404."""
    name = f"refs/{call.parts['ref']}"
    sha = (await asyncio.to_thread(call.repo.git.list_refs, "")).get(name)
    if sha is None:
        raise not_found()
    return RestResponse(200, call.shapes.ref(call.repo, name, sha))


async def create_ref(call: RestCall) -> RestResponse:
    git, name, sha = call.repo.git, call.text("ref", "Reference"), call.text("sha", "Reference")
    before = await asyncio.to_thread(git.list_refs, "")
    if not before:
        raise Refusal(409, "Git Repository is empty.")
    if not name.startswith("refs/") or name.count("/") < 2:
        raise Refusal(422, "Reference name must start with 'refs/' and have at least 2 slashes.")
    if not await asyncio.to_thread(git.is_valid_ref, name):
        raise Refusal(422, f"{name} is not a valid ref name.")
    if name in before:
        raise Refusal(422, "Reference already exists")
    await require_object(call, sha)
    await set_ref(call, name, sha, before)
    return RestResponse(201, call.shapes.ref(call.repo, name, sha))


async def delete_ref(call: RestCall) -> RestResponse:
    git, name = call.repo.git, f"refs/{call.parts['ref']}"
    before = await asyncio.to_thread(git.list_refs, "")
    if name not in before:
        raise Refusal(422, "Reference does not exist")
    if name == f"refs/heads/{call.repo.default_branch}":
        raise Refusal(422, "Cannot delete the default branch")
    await asyncio.to_thread(git.delete_ref, name)
    after = {ref: sha for ref, sha in before.items() if ref != name}
    await pull_actions.announce_ref_changes(call.state, call.repo, before, after, call.bearer.actor)
    return RestResponse(204)


async def require_object(call: RestCall, sha: str) -> None:
    if await asyncio.to_thread(call.repo.git.object_kind, sha) is None:
        raise Refusal(422, "Object does not exist")


async def set_ref(call: RestCall, name: str, sha: str, before: dict[str, str]) -> None:
    try:
        await asyncio.to_thread(call.repo.git.set_ref, name, sha, before.get(name))
    except GitCommandFailed:
        raise Refusal(422, "Reference update failed") from None
    await pull_actions.announce_ref_changes(
        call.state, call.repo, before, {**before, name: sha}, call.bearer.actor
    )


OPERATIONS = (
    operation("GET", REPO + "/compare/{basehead...}", compare, READ),
    operation("POST", GIT + "/trees", create_tree, WRITE),
    operation("POST", GIT + "/commits", create_commit, WRITE),
    operation("GET", GIT + "/commits/{sha}", show_git_commit, READ),
    operation("GET", GIT + "/ref/{ref...}", show_ref, READ),
    operation("POST", GIT + "/refs", create_ref, WRITE),
    operation("DELETE", GIT + "/refs/{ref...}", delete_ref, WRITE),
    operation("GET", REPO + "/commits", list_commits, READ),
)
