"""`capuchin worker --issue URL`: works on one labelled issue, then exits."""

from __future__ import annotations

import asyncio
import sys

from bot.bootstrap import Bot, open_bot
from bot.cli import FAILED, FIXED, NO_FIX, USAGE
from bot.cli.run_input import WrongUsage, parse_issue_url
from bot.data.request import RunRequest
from bot.data.run import Run, RunStatus
from bot.errors import GitHubError
from bot.queue.jobs import RunQueue, request_run
from bot.queue.missed_webhooks import find_labels
from bot.queue.worker import REDIS_SECONDS
from bot.safe_text import printable
from bot.settings import Settings
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage
from bot.webhooks.labels import BotNames


async def run_command(settings: Settings, url: str) -> int:
    """Work on the issue at `url` until its run ends, and return the exit code."""
    try:
        async with open_bot(settings) as bot:
            found = await _find_label(bot, settings, url)
            run = await _work(bot, settings, found)
    except WrongUsage as error:
        _print(str(error))
        return USAGE
    except UNREACHABLE:
        _print("Redis does not answer. Start it or correct CAPUCHIN_REDIS_URL, then try again.")
        return FAILED
    except GitHubError as error:
        _print(f"GitHub: {error}")
        return FAILED
    _print(f"{url}: {run.status.words}. {run.pull_request_url}".rstrip())
    match run.status:
        case RunStatus.OPENED_PULL_REQUEST | RunStatus.PLANNED | RunStatus.JUDGED:
            return FIXED
        case RunStatus.NO_FIX:
            return NO_FIX
        case _:
            return FAILED


async def _find_label(bot: Bot, settings: Settings, url: str) -> RunRequest:
    """The label on the issue that requests a run. Raises WrongUsage: it has no such label."""
    owner, name, number = parse_issue_url(url, settings.github_url.rstrip("/"))
    ref = await bot.github.find_repository(owner, name)
    if ref is None:
        raise WrongUsage(f"The App is not installed on {owner}/{name}: install it there first.")
    async with bot.github.open_repository(ref) as repo:
        issue = await repo.issues.get(number)
        if issue is None or issue.pull_request is not None:
            raise WrongUsage(f"{url} does not exist or is not an issue.")
        async for found in find_labels(repo, ref, issue, BotNames.of(settings)):
            return found
    raise WrongUsage(
        f"{url} requests no run: reopen it if it is closed, and add the label {settings.label!r}."
    )


async def _work(bot: Bot, settings: Settings, found: RunRequest) -> Run:
    """Work until the run ends or a signal stops the worker; return the run."""
    async with Storage.open(
        settings.redis_url, settings.redis_prefix, timeout=REDIS_SECONDS
    ) as storage:
        run_id = (await request_run(found, RunQueue(storage))).run_id
        worker = bot.build_worker(find_missed=False)
        working = asyncio.create_task(worker.run_until_signalled())
        try:
            while True:
                run = await storage.runs.get_readable(run_id)
                if run is None:
                    raise WrongUsage("Redis has lost the run: give it more memory.")
                if working.done() or (run.status.final and await _is_quiet(storage, run)):
                    return run
                await asyncio.wait([working], timeout=0.5)
        finally:
            worker.stop()
            await working


async def _is_quiet(storage: Storage, ended: Run) -> bool:
    """Whether the repository has no other run, such as a follow-up of the pull request."""
    active = [await storage.runs.get_readable(each) for each in await storage.runs.list_active()]
    return all(run is None or run.repo != ended.repo for run in active)


def _print(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")
