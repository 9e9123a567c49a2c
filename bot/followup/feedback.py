"""Reads reviewers' feedback and answers it."""

import asyncio
import dataclasses
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from bot.admission.trust import is_trusted
from bot.comments import followup
from bot.comments.evidence_details import suspicious_sentences
from bot.comments.followup import Note
from bot.data.github_facts import IssueFacts, LineCommentFacts, PullRequestFacts, ReviewFacts
from bot.data.pull import PullRecord
from bot.data.run import Login
from bot.errors import Forbidden, NotFound, Unprocessable
from bot.followup.checks import FAILED, HeadChecks, load_checks, read_failures
from bot.git.commits import merge_commits
from bot.git.mirrors import Checkout
from bot.github.actions import ACTIONS_APP
from bot.github.repository import Repository
from bot.runs.context import RunContext
from bot.safe_text import make_marker
from bot.settings import DEFAULT_NAME
from bot.storage.checkpoints import RedisStore
from bot.storage.pulls import MAX_ANSWERED
from bot.visible_text import visible_text
from bot.webhooks.command_text import is_talk, parse_command
from bot.webhooks.labels import BotNames
from pipeline.data.types import CommitSha
from pipeline.workflows.revise import Revision
from sandbox.frozen import Frozen, replace


@dataclass(frozen=True)
class PullRun(RunContext):
    """A run on one of our open pull requests."""

    pull: PullRequestFacts
    issue: IssueFacts | None
    """The issue that the pull request fixes; None when it is gone."""
    record: PullRecord
    adopted: RedisStore | None

    @property
    def work(self) -> RedisStore:
        return self.adopted or self.store

    @property
    def base_branch(self) -> str:
        return self.pull.base_branch

    async def update_record(self, **fields: Any) -> "PullRun":
        """Save some fields of the record; the other fields stay as they are in Redis.

        Raises:
            LeaseLost: nothing was written.
        """
        await self.lease.require()
        old, seconds = self.record, self.settings.timings.follow_up_seconds
        kept = await self.lease.storage.pulls.change(old.repo, old.pull, fields, due_in=seconds)
        return dataclasses.replace(self, record=kept or replace(old, **fields))

    async def merge_with(self, tip: Checkout) -> CommitSha | None:
        """The merge of our head into `tip`, the base branch's; None if they conflict."""
        await self.fetch(self.pull.head_sha)
        await self.fetch(self.record.base)
        return await merge_commits(
            tip.git_dir,
            base=self.record.base,
            ours=self.pull.head_sha,
            theirs=tip.base,
            identity=self.repo.identity,
        )

    async def drop_record(self) -> None:
        await self.lease.require()
        await self.lease.storage.pulls.drop(self.record.repo, self.record.pull)

    async def comment_once(self, text: str, marker: str, *further: str) -> None:
        """Comment with all markers, unless a comment there holds the first `marker` already."""
        await self.lease.require()
        body = "\n".join((f"{text}\n", marker, *further, ""))
        await self.repo.issues.comment_once(self.pull.number, marker, body)


WRITERS = ("write",)
"""Whose feedback is followed, independent of who may start a run."""
MAX_CHARACTERS = 8_000
CI_ID: Final = "ci-"
"""How the id of a remark begins that only says that checks fail."""
MOST_CI_ANSWERS: Final = 2
"""On one pull request: what two commits have not mended, a third will not."""


class Remark(Frozen):
    """The feedback of one comment or review, as people see it. Untrusted."""

    id: str
    by: Login
    text: str
    path: str = ""
    line: int | None = None
    comment: int | None = None
    thread: int | None = None
    """The comment that starts the thread for the answer; None: answer in the conversation."""

    def to_prompt(self) -> str:
        where = f" on {self.path}" if self.path else ""
        where += f", line {self.line}" if self.path and self.line else ""
        return f"{self.by}{where}: {self.text[:MAX_CHARACTERS]}"


BATCH_KEY = "feedback"


class FeedbackBatch(Frozen):
    """The feedback that one run follows. Saved: after a crash the next worker follows the same."""

    head: CommitSha
    """Full SHA of the commit that the feedback is about."""
    remarks: tuple[Remark, ...]
    logs: tuple[str, ...] = ()
    untrusted: int = 0
    """How many comments were left out because their authors may not push."""
    done: bool = False


class FeedbackReader:
    """Reads the new feedback; asks GitHub about each author once.

    Raises:
        GitHubError: from every method.
    """

    def __init__(self, ctx: PullRun) -> None:
        self._ctx = ctx
        self._known: dict[str, bool] = {}
        names = BotNames.of(ctx.settings).with_slug(ctx.repo.identity.slug)
        self._names = names.called
        self._untrusted = 0

    async def read(self) -> FeedbackBatch:
        """All new feedback: reviews, comments on lines, then commands; logs only with those."""
        ctx = self._ctx
        remark = await self._read_reviews() + await self._read_line_comments()
        remark += await self._read_commands()
        logs: tuple[str, ...] = ()
        if remark or ctx.config.answer_ci:
            checks = await load_checks(ctx.repo, ctx.pull.head_sha, ctx.config.ignored_checks)
            remark = remark or await self._read_ci(checks)
            logs = await read_failures(ctx.repo, checks) if remark else ()
        return FeedbackBatch(
            head=ctx.pull.head_sha, remarks=tuple(remark[:40]), logs=logs, untrusted=self._untrusted
        )

    async def _read_ci(self, checks: HeadChecks) -> list[Remark]:
        """That the checks fail, as if the person who asked for the fix had said it.

        Not before all have ended, nor where the same fail without our commits. What may be flaky is
        run again first.
        """
        ctx, head = self._ctx, self._ctx.pull.head_sha
        answered = [one for one in ctx.record.answered_ids if one.startswith(CI_ID)]
        remark = Remark(id=f"{CI_ID}{head}", by=ctx.record.asked_by, text="")
        if len(answered) >= MOST_CI_ANSWERS or remark.id in answered or not checks.have_ended():
            return []
        before = set((await load_checks(ctx.repo, ctx.record.base)).failing_names())
        names = [name for name in checks.failing_names() if name not in before]
        if not names:
            return []
        if await self._run_again(checks):
            return []
        listed = ", ".join(names)[:MAX_CHARACTERS]
        return [replace(remark, text=f"These checks fail on this branch: {listed}. Mend that.")]

    async def _run_again(self, checks: HeadChecks) -> bool:
        """Have failed jobs of GitHub Actions run again, once for each head: they may be flaky."""
        ctx, known = self._ctx, self._ctx.record.answered_ids
        asked = f"again-{ctx.pull.head_sha}"
        jobs = [one for one in checks.runs if one.app == ACTIONS_APP and one.conclusion in FAILED]
        found = (re.search(r"/actions/runs/(\d{1,18})/", one.html_url or "") for one in jobs)
        numbers = {int(one[1]) for one in found if one}
        if asked in known or not numbers:
            return False
        try:
            for number in sorted(numbers):
                await ctx.lease.require()
                await ctx.repo.actions.rerun_failed_jobs(number)
        except (Forbidden, NotFound, Unprocessable):  # too old, or the permission is not accepted
            return False
        await ctx.update_record(answered_ids=(*known, asked)[-MAX_ANSWERED:])
        return True

    async def _read_reviews(self) -> list[Remark]:
        found: list[Remark] = []
        async for review in self._ctx.repo.pulls.list_reviews(self._ctx.pull.number):
            remark = Remark(id=f"review-{review.id}", by=review.author, text=review.body or "")
            command = parse_command(remark.text, *self._names)
            asks = review.state.upper() == "CHANGES_REQUESTED"
            if command is not None and not is_talk(command):
                asks = command.begins_line and command.verb == "fix"
            if asks and (shown := await self._show(remark, review)):
                found.append(shown)
        return found

    async def _read_line_comments(self) -> list[Remark]:
        found: list[Remark] = []
        async for comment in self._ctx.repo.pulls.list_line_comments(self._ctx.pull.number):
            remark = Remark(
                id=f"line-{comment.id}",
                by=comment.author,
                text=comment.body or "",
                path=comment.path,
                line=comment.line,
                comment=comment.id,
                thread=comment.thread,
            )
            if shown := await self._show(remark, comment):
                found.append(shown)
        return found[::-1]

    async def _read_commands(self) -> list[Remark]:
        """Commands to us; other comments in the conversation are between people."""
        found: list[Remark] = []
        names = self._names
        pull, called = self._ctx.pull, [name.casefold() for name in (DEFAULT_NAME, *names)]
        comments = self._ctx.repo.issues.list_comments(pull.number, count=pull.comments)
        async for comment in comments:
            raw = comment.body or ""
            if not any(name in raw.casefold() for name in called):
                continue  # most talk is no command, and asking who may command costs a call
            remark = Remark(id=f"comment-{comment.id}", by=comment.author, text=raw)
            shown = await self._show(remark, None)
            command = parse_command(shown.text, *names) if shown else None
            if shown and command and command.begins_line and command.verb == "fix":
                found.append(shown)
        return found

    async def _show(
        self, remark: Remark, of: ReviewFacts | LineCommentFacts | None
    ) -> Remark | None:
        """The remark as people see it, if it is new and by somebody who may push.

        Anybody can write a text that takes a second to render, so trust comes first.
        """
        bot = of is not None and of.author_type == "Bot"
        is_old = remark.id in self._ctx.record.answered_ids
        if bot or is_old or not remark.text or not await self._may_push(remark):
            return None
        text = await asyncio.to_thread(visible_text, remark.text)
        return replace(remark, text=text) if text else None

    async def _may_push(self, remark: Remark) -> bool:
        ctx = self._ctx
        if ctx.repo.issues.is_own(remark.by):
            return False
        name = remark.by.casefold()
        if name not in self._known:
            self._known[name] = await is_trusted(ctx.repo, remark.by, WRITERS)
        self._untrusted += not self._known[name]
        return self._known[name]


MAX_THREADS: Final = 30
"""Most threads that get a reaction and a reply of their own; one comment answers the others."""


async def acknowledge(ctx: PullRun, batch: FeedbackBatch) -> None:
    """React to each comment on a line; the reaction to commands is the dispatcher's."""
    on_lines = [remark for remark in batch.remarks if remark.comment is not None]
    for remark in on_lines[:MAX_THREADS]:
        if remark.comment is not None:
            await ctx.lease.require()
            await acknowledge_comment(ctx.repo, remark.comment)


async def acknowledge_comment(repo: Repository, comment: int) -> None:
    """React to a comment on a line, unless it is gone or locked."""
    with suppress(Forbidden, NotFound):
        await repo.pulls.reactions(comment, repo.issues.is_own).add("eyes")


async def answer_reviews(
    ctx: PullRun, batch: FeedbackBatch, revised: Revision, sha: CommitSha | None
) -> None:
    """Reply to comments on lines in their threads, and to all other remarks in one comment."""
    here = sha[:7] if sha and not ctx.record.handed_over else ""
    lost = bool(sha) and not here
    noted = suspicious_sentences(revised.patch.diff) if here and revised.patch else []
    beside = "\n\n".join(filter(None, (*noted, followup.outsiders_note(batch.untrusted))))
    numbered = [(place, remark) for place, remark in enumerate(batch.remarks)]
    threads = [(place, remark) for place, remark in numbered if remark.thread is not None]
    threads = threads[:MAX_THREADS]
    others = [each for each in numbered if each not in threads]

    def text(about: list[tuple[int, Remark]], more: str) -> str:
        if lost or not revised.answer:
            note = Note.OUT_OF_MONEY if revised.spent_ceiling == "run" else Note.TRIED
            why = f": {revised.ended}" if revised.ended else ""
            body = note.format(name=ctx.settings.app_name, why=why)
        else:
            remark = [(remark.by, revised.reply_to(place)) for place, remark in about]
            body = followup.review_answer(remark, here)
        return f"{body}\n\n{more}" if more else body

    def mark(remark: Remark) -> str:
        return make_marker("answer", f"to={remark.id}")

    for nth, one in enumerate(threads):
        remark = one[1]
        assert remark.thread is not None
        more = beside if nth == 0 and not others else ""
        await ctx.lease.require()
        body = f"{text([one], more)}\n\n{mark(remark)}\n"
        is_own = ctx.repo.issues.is_own
        await ctx.repo.pulls.reply_once(ctx.pull.number, remark.thread, mark(remark), body, is_own)
    if others:
        await ctx.comment_once(text(others, beside), *(mark(remark) for _, remark in others))
