"""Refs: show, match, create, move, delete. Changes send the webhooks of pushes."""

from __future__ import annotations

import asyncio

from bot.localhub.actions import refs as actions
from bot.localhub.errors import GitCommandFailed, Refusal, not_found
from bot.localhub.git import diff
from bot.localhub.json import gitdata as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation
from bot.localhub.rest.gitdata import GIT, READ, WRITE


async def show(call: RestCall) -> RestResponse:
    """Show a ref by its exact name; a prefix of other names is 404."""
    name = f"refs/{call.parts['ref']}"
    sha = (await asyncio.to_thread(call.repo.git.list_refs, "")).get(name)
    if sha is None:
        raise not_found()
    return RestResponse(200, shapes.ref(call.hub.url, call.repo, name, sha))


async def list_matching(call: RestCall) -> RestResponse:
    prefix = f"refs/{call.parts['ref']}"
    every = await asyncio.to_thread(call.repo.git.list_refs, "")
    found = {name: sha for name, sha in every.items() if name.startswith(prefix)}
    return RestResponse(200, [shapes.ref(call.hub.url, call.repo, n, s) for n, s in found.items()])


async def create(call: RestCall) -> RestResponse:
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
    await _require_object(call, sha)
    await _set_ref(call, name, sha, before)
    shape = shapes.ref(call.hub.url, call.repo, name, sha)
    return RestResponse(201, shape, {"location": shape["url"]})


async def move(call: RestCall) -> RestResponse:
    """Move a ref; without `force` only forward (422)."""
    git, name, sha = call.repo.git, f"refs/{call.parts['ref']}", call.text("sha", "Reference")
    before = await asyncio.to_thread(git.list_refs, "")
    if name not in before:
        raise Refusal(422, "Reference does not exist")
    await _require_object(call, sha)
    forward = await asyncio.to_thread(diff.is_ancestor, git, before[name], sha)
    if not forward and call.json().get("force") is not True:
        raise Refusal(422, "Update is not a fast forward")
    await _set_ref(call, name, sha, before)
    return RestResponse(200, shapes.ref(call.hub.url, call.repo, name, sha))


async def remove(call: RestCall) -> RestResponse:
    git, name = call.repo.git, f"refs/{call.parts['ref']}"
    before = await asyncio.to_thread(git.list_refs, "")
    if name not in before:
        raise Refusal(422, "Reference does not exist")
    if name == f"refs/heads/{call.repo.default_branch}":
        raise Refusal(422, "Cannot delete the default branch")
    await asyncio.to_thread(git.delete_ref, name)
    after = {ref: sha for ref, sha in before.items() if ref != name}
    await actions.announce_ref_changes(call.hub, call.repo, before, after, call.bearer.actor)
    return RestResponse(204)


async def _require_object(call: RestCall, sha: str) -> None:
    if await asyncio.to_thread(call.repo.git.object_kind, sha) is None:
        raise Refusal(422, "Object does not exist")


async def _set_ref(call: RestCall, name: str, sha: str, before: dict[str, str]) -> None:
    try:
        await asyncio.to_thread(call.repo.git.set_ref, name, sha, before.get(name))
    except GitCommandFailed:
        raise Refusal(422, "Reference update failed") from None
    await actions.announce_ref_changes(
        call.hub, call.repo, before, {**before, name: sha}, call.bearer.actor
    )


OPERATIONS = (
    operation("GET", GIT + "/ref/{ref...}", show, READ),
    operation("GET", GIT + "/matching-refs/{ref...}", list_matching, READ),
    operation("POST", GIT + "/refs", create, WRITE),
    operation("PATCH", GIT + "/refs/{ref...}", move, WRITE),
    operation("DELETE", GIT + "/refs/{ref...}", remove, WRITE),
)
