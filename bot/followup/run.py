"""Looks at a pull request of ours as it is now, and does what is due: the worker's other work."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from bot.admission.check import configured
from bot.comments import followup
from bot.errors import Ended, TryLater
from bot.failures import judged
from bot.followup.close import over
from bot.followup.context import Care
from bot.followup.feedback import Batch
from bot.followup.ready import made_ready
from bot.followup.revise import (
    BATCH_KEY,
    Superseded,
    followed,
    handed_over,
    mended,
    settled,
    stopped,
    unfinished,
)
from bot.followup.verify import gathered, let_go
from bot.git.mirrors import Checkout, Mirrors
from bot.github.app import GitHubApp
from bot.github.errors import GitHubError, GitHubUnavailable
from bot.github.repository import Repository
from bot.queue.attempt import Work
from bot.repo_config.model import RepoConfig
from bot.runner.runner import Workshop
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.client import patiently
from bot.storage.lease import Lease
from bot.storage.pulls import Records
from bot.triggers.labels import OPT_OUT
from bot.types import Failure, Run, RunStatus, StopReason, changed
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TendPull:
    """Every effect asks for the lease, and finds what an earlier start did."""

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    workshop: Workshop

    async def __call__(self, run: Run, lease: Lease) -> Run:
        """The run as it ended.

        Raises:
            TryLater: what it needs does not answer. LeaseLost: another worker goes on.
        """
        try:
            with judged():
                async with self.github.repository(run.repo) as repo:
                    await self._tended(repo, run, lease)
        except Ended as ended:
            failed = changed(lease.run, failure=ended.failure, detail=ended.detail)
            return await self.give_up(failed, lease)
        return await _ended(lease, changed(lease.run, status=RunStatus.TENDED))

    async def give_up(self, run: Run, lease: Lease) -> Run:
        """Tell those who wait for an answer; nobody else is disturbed. Raises as `GiveUp`.

        Of a run that somebody stopped, too: what was said until then is not followed any more.
        """
        run = changed(run, status=RunStatus.STOPPED if run.stop else RunStatus.FAILED)
        try:
            async with self.github.repository(run.repo) as repo:
                care = await self._care(repo, run, lease)
                batch = await RedisStore.of(lease).load(BATCH_KEY, Batch)
                if care is not None:
                    await let_go(care, ended=True)
                if care is not None and run.stop is not None:
                    if run.stop.why is not StopReason.DISABLED or await _at_work(care, batch):
                        await stopped(care, await _ended(lease, run))
                elif care is not None and batch is not None and run.failure is not None:
                    marker = followup.note_marker("failed", run.id)
                    told = followup.failed(run.failure, run.detail, marker)
                    await care.say_once(marker, told)
                    await settled(care, batch)
        except GitHubUnavailable as error:
            raise TryLater(Failure.GITHUB_UNAVAILABLE, error.retry_after or 30) from error
        except GitHubError:  # the repository is gone
            records = Records(lease.redis, lease.keys)
            await patiently(lambda: records.drop(run.repo, run.issue))
        return await _ended(lease, run)

    async def _tended(self, repo: Repository, run: Run, lease: Lease) -> None:
        care = await self._care(repo, run, lease)
        if care is None:
            return
        await let_go(care)
        if await over(care):
            return
        if not care.record.handed_over and not care.record.ours(care.pull.head_sha):
            care = await handed_over(care)
        tip = await care.fetched()
        if care.config.follow_up:
            try:
                care = await _followed(care, tip)
            except Superseded:
                return
        care = await gathered(care, tip)
        await made_ready(care)

    async def _care(self, repo: Repository, run: Run, lease: Lease) -> Care | None:
        """None when there is nothing to look after, or we are not to."""
        records = Records(lease.redis, lease.keys)
        record = await patiently(lambda: records.get(run.repo, run.issue))
        facts = await repo.facts()
        pull = await repo.pulls.get(run.issue)
        config = await configured(repo)
        if record is None or facts is None or pull is None:
            return None
        kept_away = (self.settings.label + OPT_OUT).casefold()
        worn = kept_away in (name.casefold() for name in pull.labels)
        if pull.state == "open" and worn and run.stop is None:
            return None
        if not isinstance(config, RepoConfig) or not config.enabled:
            return None
        return Care(
            run=run,
            lease=lease,
            repo=repo,
            facts=facts,
            pull=pull,
            issue=await repo.issues.get(record.issue),
            record=record,
            config=config,
            settings=self.settings,
            mirrors=self.mirrors,
            workshop=self.workshop,
        )


async def _at_work(care: Care, batch: Batch | None) -> bool:
    """Whether there is anything to tell the end of, where a label asks for silence."""
    return (batch is not None and not batch.done) or await unfinished(care)


async def _followed(care: Care, tip: Checkout) -> Care:
    if not care.record.handed_over and await unfinished(care):
        care = await mended(care, tip)
    if not care.record.handed_over:
        care = await followed(care)
    return care if care.record.handed_over else await mended(care, tip)


async def _ended(lease: Lease, run: Run) -> Run:
    spent = await RedisStore.of(lease).load(LEDGER_KEY, Ledger)
    return changed(run, dollars=spent.dollars if spent else run.dollars)


def by_mode(of_issues: Work, of_pulls: Work) -> Work:
    """Issues are solved, pull requests of ours looked after."""

    async def work(run: Run, lease: Lease) -> Run:
        return await (of_pulls if run.mode.tends else of_issues)(run, lease)

    return work
