"""Git objects and refs: what the demo does not need."""

from __future__ import annotations

import asyncio
import base64
import binascii

from capuchin_demo.hub import git_compare, git_repository, rest_git
from capuchin_demo.hub.git_repository import Commit
from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation
from capuchin_demo.hub.rest_git import (
    GIT,
    READ,
    WRITE,
    commit_json,
    require_not_empty,
    require_object,
    resolve_tree,
    set_ref,
)
from capuchin_demo.hub.rest_repositories import REPO
from tests.support.github import git_json
from tests.support.github.hub_state import hub_of
from tests.support.github.rules import find_violation


async def show_commit(call: RestCall) -> RestResponse:
    """Show a commit by id, branch or tag; with the `sha` media type only its id."""
    rev, git = call.parts["ref"], call.repo.git
    sha = await asyncio.to_thread(git.resolve, rev)
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {rev}")
    if "sha" in call.headers.get("accept", ""):
        return RestResponse(200, sha.encode(), {"content-type": "application/vnd.github.sha"})
    one = await asyncio.to_thread(git.read_commit, sha)
    changed = await asyncio.to_thread(_diff_to_parent, call, one)
    added = sum(change.additions for change in changed)
    removed = sum(change.deletions for change in changed)
    return RestResponse(
        200,
        {
            **commit_json(call, one),
            "stats": {"total": added + removed, "additions": added, "deletions": removed},
            "files": [git_json.diff_entry(call.repo, c, sha) for c in changed],
        },
    )


def _diff_to_parent(call: RestCall, one: Commit) -> list[git_repository.ChangedFile]:
    git = call.repo.git
    parent = one.parents[0] if one.parents else git_repository.write_object(git.path, "tree", b"")
    return git_compare.diff_files(git, parent, one.sha)


async def create_blob(call: RestCall) -> RestResponse:
    require_not_empty(call.repo.git)
    body = call.json()
    content = body.get("content")
    if not isinstance(content, str):
        raise Refusal(422, 'Invalid request.\n\n"content" wasn\'t supplied.')
    data = _decode(content, str(body.get("encoding", "utf-8")))
    sha = await asyncio.to_thread(call.repo.git.write_blob, data)
    shape = git_json.blob(call.repo, sha, b"")
    return RestResponse(201, {"sha": sha, "url": shape["url"]})


async def show_blob(call: RestCall) -> RestResponse:
    sha, git = call.parts["sha"], call.repo.git
    if await asyncio.to_thread(git.object_kind, sha) != "blob":
        raise not_found()
    data = await asyncio.to_thread(git.read_object, "blob", sha)
    if "raw" in call.headers.get("accept", ""):
        return RestResponse(200, data, {"content-type": "application/vnd.github.raw+json"})
    return RestResponse(200, git_json.blob(call.repo, sha, data))


async def show_tree(call: RestCall) -> RestResponse:
    """Show a tree by its id, or of a branch or commit."""
    git = call.repo.git
    try:
        sha = await asyncio.to_thread(resolve_tree, git, call.parts["sha"])
    except Refusal:
        raise not_found() from None
    recursive = bool(call.query.get("recursive"))
    lines = await asyncio.to_thread(lambda: git.list_entries(sha, recursive=recursive))
    return RestResponse(200, git_json.tree(call.repo, sha, lines))


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
    await _refuse_violation(call, name, before.get(name), sha)
    compared = await asyncio.to_thread(git_compare.compare, git, before[name], sha)
    if compared.merge_base != before[name] and call.json().get("force") is not True:
        raise Refusal(422, "Update is not a fast forward")
    await set_ref(call, name, sha, before)
    return RestResponse(200, git_json.ref(call.repo, name, sha))


async def compare(call: RestCall) -> RestResponse:
    """Compare `base...head`; with the `diff` media type, return the text of the diff."""
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
    if "diff" in call.headers.get("accept", ""):
        text = git_compare.diff_text(git, compared.merge_base, head).encode()
        return RestResponse(200, text, {"content-type": "application/vnd.github.diff"})
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


async def create_ref(call: RestCall) -> RestResponse:
    name, sha = call.text("ref", "Reference"), call.text("sha", "Reference")
    await _refuse_violation(call, name, None, sha)
    return await rest_git.create_ref(call)


async def create_commit(call: RestCall) -> RestResponse:
    """GitHub signs what an App commits without naming an author or a committer."""
    hub, made = hub_of(call), await rest_git.create_commit(call)
    sha: str = made.body["sha"]
    if call.bearer.installation is not None and not {"author", "committer"} & call.json().keys():
        hub.verified.add(sha)
    commit = await asyncio.to_thread(call.repo.git.read_commit, sha)
    return RestResponse(201, call.shapes.git_commit(call.repo, commit))


async def _refuse_violation(call: RestCall, name: str, old: str | None, new: str) -> None:
    hub, repo, token = hub_of(call), call.repo, call.bearer
    broken = await asyncio.to_thread(find_violation, hub, repo, token, name, old, new)
    if broken is not None:
        raise broken.to_refusal()


OPERATIONS = (
    operation("GET", REPO + "/compare/{basehead...}", compare, READ),
    operation("POST", GIT + "/blobs", create_blob, WRITE),
    operation("GET", GIT + "/blobs/{sha}", show_blob, READ),
    operation("GET", GIT + "/trees/{sha...}", show_tree, READ),
    operation("POST", GIT + "/commits", create_commit, WRITE),
    operation("GET", GIT + "/matching-refs/{ref...}", list_matching_refs, READ),
    operation("POST", GIT + "/refs", create_ref, WRITE),
    operation("PATCH", GIT + "/refs/{ref...}", move_ref, WRITE),
)
LAST_OPERATIONS = (operation("GET", REPO + "/commits/{ref...}", show_commit, READ),)
"""Its refs match what the others' paths have after a ref."""
