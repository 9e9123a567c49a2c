"""The history: commits, and how two of them differ."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from bot.localhub.errors import Refusal, not_found
from bot.localhub.git import diff
from bot.localhub.git.types import Commit
from bot.localhub.json import gitdata as shapes
from bot.localhub.rest.call import Answer, Call, operation, paginate
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import User, stamp

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

READ = "contents:read"

NOREPLY = re.compile(r"(?:\d+\+)?(.+)@users\.noreply\.github\.com")


def committer(hub: LocalHub, commit: Commit) -> User | None:
    """The account behind the author's e-mail, if it is a noreply address of one."""
    found = NOREPLY.fullmatch(commit.author.email)
    return hub.find_user(found[1]) if found else None


async def list_commits(call: Call) -> Answer:
    rev = call.query.get("sha") or call.repo.default_branch
    git = call.repo.git
    if not await asyncio.to_thread(git.refs):
        raise Refusal(409, "Git Repository is empty.")
    if await asyncio.to_thread(git.resolve, rev) is None:
        raise not_found()
    path = call.query.get("path", "")
    log = await asyncio.to_thread(lambda: git.log(rev, path=path, limit=1000))
    since = call.query.get("since", "")
    return paginate(call, [_commit(call, one) for one in log if since <= stamp(one.committer.at)])


async def show(call: Call) -> Answer:
    """By id, branch or tag; with the `sha` media type the id alone."""
    rev, git = call.parts["ref"], call.repo.git
    sha = await asyncio.to_thread(git.resolve, rev)
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {rev}")
    if "sha" in call.headers.get("accept", ""):
        return Answer(200, sha.encode(), {"content-type": "application/vnd.github.sha"})
    one = await asyncio.to_thread(git.commit, sha)
    changed = await asyncio.to_thread(_since_parent, call, one)
    added = sum(change.additions for change in changed)
    removed = sum(change.deletions for change in changed)
    return Answer(
        200,
        {
            **_commit(call, one),
            "stats": {"total": added + removed, "additions": added, "deletions": removed},
            "files": [shapes.change(call.hub.url, call.repo, c, sha) for c in changed],
        },
    )


async def compare(call: Call) -> Answer:
    """`base...head`; with the `diff` media type the text of the difference."""
    base, dots, head = call.parts["basehead"].partition("...")
    resolved = [await asyncio.to_thread(call.repo.git.resolve, rev) for rev in (base, head)]
    if not dots or resolved[0] is None or resolved[1] is None:
        raise not_found()
    return await asyncio.to_thread(_compare, call, resolved[0], resolved[1])


def _compare(call: Call, base: str, head: str) -> Answer:
    git, url, repo = call.repo.git, call.hub.url, call.repo
    compared = diff.compare(git, base, head)
    if compared.merge_base is None:
        raise Refusal(404, "No common ancestor between the two.")
    if "diff" in call.headers.get("accept", ""):
        text = diff.unified(git, compared.merge_base, head).encode()
        return Answer(200, text, {"content-type": "application/vnd.github.diff"})
    log = git.log(head, without=base)[::-1]
    changed = diff.changes(git, compared.merge_base, head)
    status = ("identical", "behind", "ahead", "diverged")[
        2 * (compared.ahead > 0) + (compared.behind > 0)
    ]
    page = f"{url}/{repo.full_name}/compare/{base}...{head}"
    first, merge_base = git.commits([base, compared.merge_base])
    return Answer(
        200,
        {
            "url": f"{url}/api/v3{call.path}",
            "html_url": page,
            "permalink_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "base_commit": _commit(call, first),
            "merge_base_commit": _commit(call, merge_base),
            "status": status,
            "ahead_by": compared.ahead,
            "behind_by": compared.behind,
            "total_commits": compared.ahead,
            "commits": [_commit(call, one) for one in log],
            "files": [shapes.change(url, repo, one, head) for one in changed],
        },
    )


def _since_parent(call: Call, one: Commit) -> list[diff.Change]:
    git = call.repo.git
    parent = one.parents[0] if one.parents else git.write_tree([])
    return diff.changes(git, parent, one.sha)


def _commit(call: Call, one: Commit) -> dict[str, Any]:
    return shapes.commit(call.hub.url, call.repo, one, committer(call.hub, one))


OPERATIONS = (
    operation("GET", REPO + "/commits", list_commits, READ),
    operation("GET", REPO + "/compare/{basehead...}", compare, READ),
)
LAST = (operation("GET", REPO + "/commits/{ref...}", show, READ),)
"""Tried after `checks`, whose paths go on behind a ref that may hold slashes."""
