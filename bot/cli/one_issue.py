"""`capuchin worker --issue URL`: works on one labelled issue, then exits.

With a Redis that keeps nothing on disk, such as that of a job on a GitHub runner, this is all that
there will ever be: what it writes promises nothing that a later command would need. With any other,
what people asked for in the repository since the last time is done, too.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

from bot.bootstrap import Bot, open_bot
from bot.cli import FAILED, FIXED, NO_FIX, USAGE
from bot.cli.run_input import WrongUsage, parse_issue_url, parse_repository_url
from bot.data.request import MissedEvent, PullUpdate, RunRequest
from bot.data.run import Login, RepoRef, Run, RunStatus, Stop, StopReason
from bot.errors import GitHubError
from bot.queue.jobs import RunQueue, request_run
from bot.queue.missed_webhooks import find_in_repository, find_labels
from bot.queue.worker import REDIS_SECONDS
from bot.safe_text import printable
from bot.settings import Settings
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage
from bot.storage.workers import Cursors
from bot.webhooks.labels import BotNames
from sandbox.frozen import replace


async def run_command(settings: Settings, url: str) -> int:
    """Work on the issue at `url` until its run ends; print the outcome; return the exit code."""
    try:
        async with Storage.open(
            settings.redis_url, settings.redis_prefix, timeout=REDIS_SECONDS
        ) as storage:
            settings = replace(settings, one_shot=await storage.is_fleeting())
            async with open_bot(settings) as bot:
                run = await _Task(bot, settings, storage).run(url)
    except WrongUsage as error:
        _print(str(error))
        return USAGE
    except UNREACHABLE:
        _print("Redis does not answer. Start it or correct CAPUCHIN_REDIS_URL, then try again.")
        return FAILED
    except GitHubError as error:
        _print(f"GitHub: {error}")
        return FAILED
    if run is None:
        return FIXED
    _print(f"{url}: {run.status.words}. {run.pull_request_url}".rstrip())
    sys.stdout.write(render_outputs(run))
    match run.status:
        case RunStatus.OPENED_PULL_REQUEST | RunStatus.PLANNED | RunStatus.JUDGED:
            return FIXED
        case RunStatus.NO_FIX | RunStatus.NEEDS_CONFIRMATION:
            return NO_FIX
        case _:
            return FAILED


def render_outputs(run: Run) -> str:
    """The outcome, one `name=value` a line, as a step of GitHub Actions gives its outputs."""
    sure = "" if run.confidence is None else f"{run.confidence:.2f}"
    values = {
        "outcome": run.status.words,
        "pull-request": run.pull_request_url,
        "cost": f"{run.dollars:.2f}",
        "probability": sure,
    }
    return "".join(f"{name}={printable(value)}\n" for name, value in values.items())


@dataclass(frozen=True)
class _Task:
    bot: Bot
    settings: Settings
    storage: Storage

    async def run(self, url: str) -> Run | None:
        """Work until nothing is left, or a signal comes; the run of the issue, if it has one."""
        ref, found = await self._find_label(url)
        queue = RunQueue(self.storage)
        run_id = (await request_run(found, queue)).run_id if found else None
        worker = self.bot.build_worker(find_missed=False)
        if not self.settings.one_shot:
            await worker.build_sweep(queue).recover(lambda cursors: self._look(ref, cursors))
        stopped = asyncio.Event()
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, stopped.set)
        working = asyncio.create_task(worker.run())
        try:
            while not (working.done() or await self._is_quiet(queue, ref, worker.name)):
                if stopped.is_set() and not await self._stop(found):
                    break
                await asyncio.wait([working], timeout=0.5)
        finally:
            worker.stop()
            await working
        run = await self.storage.runs.get_readable(run_id) if run_id else None
        if run_id and run is None:
            raise WrongUsage("Redis has lost the run: give it more memory.")
        return run

    async def _find_label(self, url: str) -> tuple[RepoRef, RunRequest | None]:
        """The repository, and the label on the issue that requests a run.

        Raises WrongUsage: there is no such label, and nothing else to look for.
        """
        root, one_shot = self.settings.github_url.rstrip("/"), self.settings.one_shot
        owner, name, number = (parse_issue_url if one_shot else parse_repository_url)(url, root)
        ref = await self.bot.github.find_repository(owner, name)
        if ref is None:
            raise WrongUsage(f"The App is not installed on {owner}/{name}: install it there first.")
        async with self.bot.github.open_repository(ref) as repo:
            issue = await repo.issues.get(number) if number else None
            if issue is not None and issue.pull_request is None:
                async for found in find_labels(repo, ref, issue, BotNames.of(self.settings)):
                    return ref, found
        if one_shot:
            raise WrongUsage(
                f"{url} requests no run: it must be an open issue with the label "
                f"{self.settings.label!r}."
            )
        return ref, None

    async def _look(self, ref: RepoRef, cursors: Cursors) -> AsyncIterator[MissedEvent]:
        """What people did in the repository since the last time; each of the bot's own pull
        requests is looked at, too: checks that ended change no issue."""
        names = BotNames.of(self.settings)
        async with self.bot.github.look_into(ref) as repo:
            async for found in find_in_repository(repo, ref, names, cursors):
                yield found
        yield PullUpdate(repo=ref, target="base", delivery=f"look-{uuid4().hex}")

    async def _is_quiet(self, queue: RunQueue, ref: RepoRef, worker: str) -> bool:
        """Whether nothing is left to do in the repository, such as a follow-up."""
        if await queue.count_requests():
            return False
        left = await self.storage.active_runs.list_left_to(worker)
        return all(run.repo.id != ref.id for run in left)

    async def _stop(self, found: RunRequest | None) -> bool:
        """Have the run stopped, with a word on the issue, where nobody could go on with it."""
        if not self.settings.one_shot or found is None:
            return False
        stop = Stop(by=Login(""), why=StopReason.COMMAND)
        return await self.storage.runs.request_stop(found.repo, found.issue, stop) is not None


def _print(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")
