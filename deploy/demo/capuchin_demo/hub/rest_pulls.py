"""Pull requests: list, open, show, edit; their commits and files."""

from __future__ import annotations

import asyncio
from typing import Any

from bot.localhub.actions import issues as issue_actions
from bot.localhub.actions import pulls as actions
from bot.localhub.errors import Refusal, invalid, not_found
from bot.localhub.git import diff
from bot.localhub.git.types import Commit
from bot.localhub.json import gitdata
from bot.localhub.json import pulls as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.commits import find_committer
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Pull

READ = "pull_requests:read"
WRITE = "pull_requests:write"


def find_pull(call: RestCall) -> Pull:
    """The pull request in the path; the number of a plain issue is 404."""
    issue = call.repo.issues.get(call.number("number"))
    if not isinstance(issue, Pull):
        raise not_found()
    return issue


def pull_json(call: RestCall, pull: Pull) -> dict[str, Any]:
    """`pull-request`. Reads git on the first call."""
    return shapes.pull(call.hub.url, pull, call.hub.pull_facts(pull))


async def list_pulls(call: RestCall) -> RestResponse:
    """List pull requests. `head` is `owner:branch`; without the owner it matches nothing."""
    asked, owner = call.query, call.repo.owner.login
    state, head, base = asked.get("state", "open"), asked.get("head"), asked.get("base")
    every = [
        pull
        for pull in call.repo.pulls
        if state in ("all", pull.state)
        and head in (None, "", f"{pull.fork.owner.login if pull.fork else owner}:{pull.head_ref}")
        and base in (None, "", pull.base_ref)
    ]
    if asked.get("direction", "desc") != "asc":
        every.reverse()
    return paginate(call, [shapes.simple_pull(call.hub.url, pull) for pull in every])


async def list_with_commit(call: RestCall) -> RestResponse:
    """List the merged pull requests that brought a commit of the default branch, or else the open
    ones that hold it."""
    git, sha = call.repo.git, await asyncio.to_thread(call.repo.git.resolve, call.parts["ref"])
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {call.parts['ref']}")

    def holds(pull: Pull) -> bool:
        if pull.merged_at:
            return sha in {pull.merge_commit_sha, *(one.sha for one in _log(pull))}
        return pull.state == "open" and sha in {one.sha for one in _log(pull)}

    def _log(pull: Pull) -> list[Commit]:
        return git.log(pull.head_sha, without=pull.base_sha)

    found = await asyncio.to_thread(lambda: [pull for pull in call.repo.pulls if holds(pull)])
    merged = [pull for pull in found if pull.merged_at]
    return paginate(call, [shapes.simple_pull(call.hub.url, pull) for pull in merged or found])


async def create(call: RestCall) -> RestResponse:
    """Open a pull request. `head` may contain the owner; there are no forks, so it must be ours."""
    body = call.json()
    head = call.text("head", "PullRequest")
    owner, colon, branch = head.partition(":")
    if colon and owner.lower() != call.repo.owner.login.lower():
        raise invalid("PullRequest", "head")
    asked = actions.NewPull(
        call.text("title", "PullRequest"),
        body.get("body"),
        branch if colon else head,
        call.text("base", "PullRequest"),
        draft=body.get("draft") is True,
        maintainer_can_modify=body.get("maintainer_can_modify", True) is True,
    )
    pull = await actions.open_pull(call.hub, call.repo, asked, call.bearer.actor)
    shape = pull_json(call, pull)
    return RestResponse(201, shape, {"location": shape["url"]})


async def show(call: RestCall) -> RestResponse:
    """Show a pull request; with the `diff` media type, the text of its diff."""
    pull = find_pull(call)
    await asyncio.to_thread(call.hub.pull_facts, pull)
    if "diff" in call.headers.get("accept", ""):
        text = await asyncio.to_thread(_diff_text, pull)
        return RestResponse(200, text.encode(), {"content-type": "application/vnd.github.diff"})
    return RestResponse(200, pull_json(call, pull))


async def change(call: RestCall) -> RestResponse:
    hub, pull, body, by = call.hub, find_pull(call), call.json(), call.bearer.actor
    state = body.get("state")
    if state not in (None, "open", "closed"):
        raise invalid("PullRequest", "state")
    issue_actions.edit(hub, pull, by, body.get("title"), body.get("body"))
    if state is not None:
        issue_actions.set_state(hub, pull, by, state, "completed")
    return RestResponse(200, pull_json(call, pull))


async def list_commits(call: RestCall) -> RestResponse:
    """The commits, oldest first."""
    pull = find_pull(call)
    log = await asyncio.to_thread(pull.repo.git.log, pull.head_sha, without=pull.base_sha)
    return paginate(
        call,
        [
            gitdata.commit(call.hub.url, pull.repo, c, find_committer(call.hub, c))
            for c in log[::-1]
        ],
    )


async def list_files(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    changed = await asyncio.to_thread(_diff_files, pull)
    shape = (gitdata.diff_entry(call.hub.url, pull.repo, one, pull.head_sha) for one in changed)
    return paginate(call, list(shape))


async def request_reviewers(call: RestCall) -> RestResponse:
    pull = find_pull(call)
    asked = call.json().get("reviewers", [])
    users = [call.hub.find_user(str(login)) for login in asked]
    known = [user for user in users if user is not None]
    if len(known) != len(users):
        raise invalid("PullRequest", "reviewers")
    actions.request_reviewers(call.hub, pull, known, call.bearer.actor)
    return RestResponse(201, shapes.simple_pull(call.hub.url, pull))


def _diff_files(pull: Pull) -> list[diff.ChangedFile]:
    git = pull.repo.git
    compared = diff.compare(git, pull.base_sha, pull.head_sha)
    return diff.diff_files(git, compared.merge_base or pull.base_sha, pull.head_sha)


def _diff_text(pull: Pull) -> str:
    git = pull.repo.git
    compared = diff.compare(git, pull.base_sha, pull.head_sha)
    return diff.diff_text(git, compared.merge_base or pull.base_sha, pull.head_sha)


PULL = REPO + "/pulls/{number}"

OPERATIONS = (
    operation("GET", REPO + "/pulls", list_pulls, READ),
    operation("POST", REPO + "/pulls", create, WRITE),
    operation("GET", REPO + "/commits/{ref...}/pulls", list_with_commit, READ),
    operation("GET", PULL, show, READ),
    operation("PATCH", PULL, change, WRITE),
    operation("GET", PULL + "/commits", list_commits, READ),
    operation("GET", PULL + "/files", list_files, READ),
    operation("POST", PULL + "/requested_reviewers", request_reviewers, WRITE),
)
