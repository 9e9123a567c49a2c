"""The history: commits and comparisons."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from bot.localhub.errors import Refusal, not_found
from bot.localhub.git import diff
from bot.localhub.git.types import Commit
from bot.localhub.json import gitdata as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import User, stamp

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

READ = "contents:read"

NOREPLY = re.compile(r"(?:\d+\+)?(.+)@users\.noreply\.github\.com")


def find_committer(hub: LocalHub, commit: Commit) -> User | None:
    """The account of the author's e-mail, if it is an account's noreply address."""
    found = NOREPLY.fullmatch(commit.author.email)
    return hub.find_user(found[1]) if found else None


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
        call, [_commit_json(call, one) for one in log if since <= stamp(one.committer.at)]
    )


async def show(call: RestCall) -> RestResponse:
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
            **_commit_json(call, one),
            "stats": {"total": added + removed, "additions": added, "deletions": removed},
            "files": [shapes.diff_entry(call.hub.url, call.repo, c, sha) for c in changed],
        },
    )


async def compare(call: RestCall) -> RestResponse:
    """Compare `base...head`; with the `diff` media type, return the text of the diff."""
    base, dots, head = call.parts["basehead"].partition("...")
    resolved = [await asyncio.to_thread(call.repo.git.resolve, rev) for rev in (base, head)]
    if not dots or resolved[0] is None or resolved[1] is None:
        raise not_found()
    return await asyncio.to_thread(_build_comparison, call, resolved[0], resolved[1])


def _build_comparison(call: RestCall, base: str, head: str) -> RestResponse:
    git, url, repo = call.repo.git, call.hub.url, call.repo
    compared = diff.compare(git, base, head)
    if compared.merge_base is None:
        raise Refusal(404, "No common ancestor between the two.")
    if "diff" in call.headers.get("accept", ""):
        text = diff.diff_text(git, compared.merge_base, head).encode()
        return RestResponse(200, text, {"content-type": "application/vnd.github.diff"})
    log = git.log(head, without=base)[::-1]
    changed = diff.diff_files(git, compared.merge_base, head)
    status = ("identical", "behind", "ahead", "diverged")[
        2 * (compared.ahead > 0) + (compared.behind > 0)
    ]
    page = f"{url}/{repo.full_name}/compare/{base}...{head}"
    first, merge_base = git.read_commits([base, compared.merge_base])
    return RestResponse(
        200,
        {
            "url": f"{url}/api/v3{call.path}",
            "html_url": page,
            "permalink_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "base_commit": _commit_json(call, first),
            "merge_base_commit": _commit_json(call, merge_base),
            "status": status,
            "ahead_by": compared.ahead,
            "behind_by": compared.behind,
            "total_commits": compared.ahead,
            "commits": [_commit_json(call, one) for one in log],
            "files": [shapes.diff_entry(url, repo, one, head) for one in changed],
        },
    )


def _diff_to_parent(call: RestCall, one: Commit) -> list[diff.ChangedFile]:
    git = call.repo.git
    parent = one.parents[0] if one.parents else git.write_tree([])
    return diff.diff_files(git, parent, one.sha)


def _commit_json(call: RestCall, one: Commit) -> dict[str, Any]:
    return shapes.commit(call.hub.url, call.repo, one, find_committer(call.hub, one))


OPERATIONS = (
    operation("GET", REPO + "/commits", list_commits, READ),
    operation("GET", REPO + "/compare/{basehead...}", compare, READ),
)
FALLBACK_OPERATIONS = (operation("GET", REPO + "/commits/{ref...}", show, READ),)
"""Tried after `checks`, whose paths continue after a ref that may contain slashes."""
