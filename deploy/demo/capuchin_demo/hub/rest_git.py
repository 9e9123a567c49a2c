"""Commits, git objects, refs."""

import asyncio
import base64
import binascii
import re
from typing import Any, cast
from urllib.parse import urlsplit

from capuchin_demo.hub import git_compare, git_json, pull_actions
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


def commit_json(call: RestCall, one: Commit) -> dict[str, Any]:
    return git_json.commit(call.repo, one, find_committer(call.state, one))


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
    return RestResponse(201, git_json.tree(call.repo, sha, git.list_entries(sha)))


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
    who = call.bearer.actor
    email = f"{who.id}+{who.login}@users.noreply.{urlsplit(who.site.url).hostname}"
    by = Signature(who.login, email, now())
    sha = git.write_commit(tree, parents, message, by, by)
    if call.bearer.installation is not None:
        call.state.site.verified.add(sha)  # GitHub signs what an App commits without a name
    return RestResponse(201, git_json.git_commit(call.repo, git.read_commit(sha)))


async def show_git_commit(call: RestCall) -> RestResponse:
    sha, git = call.parts["sha"], call.repo.git
    if await asyncio.to_thread(git.object_kind, sha) != "commit":
        raise not_found()
    commit = await asyncio.to_thread(git.read_commit, sha)
    return RestResponse(200, git_json.git_commit(call.repo, commit))


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
    return RestResponse(200, git_json.ref(call.repo, name, sha))


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
    await asyncio.to_thread(call.state.check_ref, call.repo, call.bearer, name, None, sha)
    await set_ref(call, name, sha, before)
    return RestResponse(201, git_json.ref(call.repo, name, sha))


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


async def create_blob(call: RestCall) -> RestResponse:
    require_not_empty(call.repo.git)
    body = call.json()
    content = body.get("content")
    if not isinstance(content, str):
        raise Refusal(422, 'Invalid request.\n\n"content" wasn\'t supplied.')
    data = _decode(content, str(body.get("encoding", "utf-8")))
    sha = await asyncio.to_thread(call.repo.git.write_blob, data)
    return RestResponse(201, {"sha": sha, "url": f"{call.repo.api_url}/git/blobs/{sha}"})


def _decode(content: str, encoding: str) -> bytes:
    if encoding == "utf-8":
        return content.encode()
    try:
        return base64.b64decode(content)
    except (binascii.Error, ValueError):
        raise Refusal(422, "content is not valid Base64") from None


async def list_matching_refs(call: RestCall) -> RestResponse:
    prefix = f"refs/{call.parts['ref']}"
    every = await asyncio.to_thread(call.repo.git.list_refs, "")
    found = {name: sha for name, sha in every.items() if name.startswith(prefix)}
    return RestResponse(200, [git_json.ref(call.repo, n, s) for n, s in found.items()])


async def move_ref(call: RestCall) -> RestResponse:
    """Move a ref; without `force` only forward (422)."""
    git, name, sha = call.repo.git, f"refs/{call.parts['ref']}", call.text("sha", "Reference")
    before = await asyncio.to_thread(git.list_refs, "")
    if name not in before:
        raise Refusal(422, "Reference does not exist")
    await require_object(call, sha)
    await asyncio.to_thread(call.state.check_ref, call.repo, call.bearer, name, before[name], sha)
    compared = await asyncio.to_thread(git_compare.compare, git, before[name], sha)
    if compared.merge_base != before[name] and call.json().get("force") is not True:
        raise Refusal(422, "Update is not a fast forward")
    await set_ref(call, name, sha, before)
    return RestResponse(200, git_json.ref(call.repo, name, sha))


async def compare(call: RestCall) -> RestResponse:
    """Compare `base...head`."""
    base, dots, head = call.parts["basehead"].partition("...")
    resolved = [await asyncio.to_thread(call.repo.git.resolve, rev) for rev in (base, head)]
    if not dots or resolved[0] is None or resolved[1] is None:
        raise not_found()
    return await asyncio.to_thread(_build_comparison, call, resolved[0], resolved[1])


def _build_comparison(call: RestCall, base: str, head: str) -> RestResponse:
    git, url, repo = call.repo.git, call.url, call.repo
    compared = git_compare.compare(git, base, head)
    if compared.merge_base is None:
        raise Refusal(404, "No common ancestor between the two.")
    log = git.log(head, without=base)[::-1]
    changed = git_compare.diff_files(git, compared.merge_base, head)
    status = ("identical", "behind", "ahead", "diverged")[
        2 * (compared.ahead > 0) + (compared.behind > 0)
    ]
    page = f"{repo.page_url}/compare/{base}...{head}"
    first, merge_base = git.read_commits([base, compared.merge_base])
    return RestResponse(
        200,
        {
            "url": f"{url}/api/v3{call.path}",
            "html_url": page,
            "permalink_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "base_commit": commit_json(call, first),
            "merge_base_commit": commit_json(call, merge_base),
            "status": status,
            "ahead_by": compared.ahead,
            "behind_by": compared.behind,
            "total_commits": compared.ahead,
            "commits": [commit_json(call, one) for one in log],
            "files": [git_json.diff_entry(repo, one, head) for one in changed],
        },
    )


OPERATIONS = (
    operation("GET", REPO + "/compare/{basehead...}", compare, READ),
    operation("POST", GIT + "/blobs", create_blob, WRITE),
    operation("POST", GIT + "/commits", create_commit, WRITE),
    operation("GET", GIT + "/matching-refs/{ref...}", list_matching_refs, READ),
    operation("POST", GIT + "/refs", create_ref, WRITE),
    operation("PATCH", GIT + "/refs/{ref...}", move_ref, WRITE),
    operation("POST", GIT + "/trees", create_tree, WRITE),
    operation("GET", GIT + "/commits/{sha}", show_git_commit, READ),
    operation("GET", GIT + "/ref/{ref...}", show_ref, READ),
    operation("DELETE", GIT + "/refs/{ref...}", delete_ref, WRITE),
    operation("GET", REPO + "/commits", list_commits, READ),
)
