"""Announces changed branches with webhooks, and updates their pull requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bot.localhub import webhook_payloads
from bot.localhub.actions import issues
from bot.localhub.state import Pull, Repo, User, now

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

HEADS = "refs/heads/"


async def announce_ref_changes(
    hub: LocalHub, repo: Repo, before: dict[str, str], after: dict[str, str], by: User
) -> None:
    """`before` and `after` map all refs by full name, as `GitRepo.list_refs("")` returns them."""
    for ref in sorted(before.keys() | after.keys()):
        old, new = (
            before.get(ref, webhook_payloads.NO_COMMIT),
            after.get(ref, webhook_payloads.NO_COMMIT),
        )
        if old == new or not ref.startswith((HEADS, "refs/tags/")):
            continue
        repo.pushed_at = now()
        payload = await asyncio.to_thread(
            webhook_payloads.push_payload, hub, repo, ref, old, new, by
        )
        webhook_payloads.emit(hub, "push", repo, by, payload)
        if ref.startswith(HEADS):
            await _update_pulls(hub, repo, ref.removeprefix(HEADS), new, by)


async def _update_pulls(hub: LocalHub, repo: Repo, branch: str, new: str, by: User) -> None:
    for pull in [pull for pull in repo.pulls if pull.state == "open"]:
        if pull.base_ref == branch and new != webhook_payloads.NO_COMMIT:
            pull.base_sha = new
        if pull.head_ref != branch or pull.fork is not None:
            continue
        if new == webhook_payloads.NO_COMMIT:
            issues.close(hub, pull, by)
        else:
            await _synchronize(hub, pull, new, by)


async def _synchronize(hub: LocalHub, pull: Pull, new: str, by: User) -> None:
    old, pull.head_sha = pull.head_sha, new
    await asyncio.to_thread(pull.repo.git.set_ref, f"refs/pull/{pull.number}/head", new)
    await asyncio.to_thread(hub.pull_facts, pull)
    pull.add_to_timeline(by, f"pushed {new[:7]}")
    webhook_payloads.send_issue_event(hub, pull, "synchronize", by, before=old, after=new)
