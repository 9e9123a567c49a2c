"""Shows the evidence as a check run, and verifies it again when the base or the head changes."""

from contextlib import suppress
from typing import Final

from bot.comments import followup
from bot.data.job import EVIDENCE_RUNS, VerificationRequest
from bot.data.run import Mode
from bot.errors import Forbidden, NotFound, Unprocessable
from bot.followup.feedback import PullRun
from bot.git.commits import read_changes
from bot.git.mirrors import Checkout
from bot.github.checks import Check, Conclusion
from pipeline.codebase.commit import Codebase
from pipeline.data.types import CommitSha, Issue
from pipeline.workflows.verify import Verification, VerificationVerdict
from sandbox.frozen import Frozen

STARTED_CHECK_KEY: Final = "checking"
CONCLUSIONS: dict[VerificationVerdict, Conclusion] = {
    "shown": "success",
    "flaky": "neutral",
    "passes without": "failure",
    "fails with": "failure",
    "not run": "failure",
}


async def verify_evidence(ctx: PullRun, tip: Checkout) -> PullRun:
    """Verify the evidence in a check run on the head, unless this base and head have one.

    `tip` is the base branch's head. A branch that a person has taken over is tested without it.
    """
    now_at = f"{tip.base} {ctx.pull.head_sha}"
    if ctx.record.verified == now_at and ctx.run.mode is not Mode.VERIFY:
        return ctx
    if not ctx.record.command:
        await _write_check(ctx, "neutral", *followup.NO_TEST, "")
        return await ctx.update_record(verified=now_at, evidence_confirmed=False)
    head = ctx.pull.head_sha
    is_ours = ctx.record.is_ours(head)
    commit = await ctx.merge_with(tip) if is_ours else (await ctx.fetch(head)).base
    if commit is None:
        await _write_check(ctx, "neutral", *followup.describe_conflict(tip.branch), "")
        return await ctx.update_record(verified=now_at, evidence_confirmed=False)
    await _start_check(ctx)
    found = await _verify(ctx, tip, commit)
    conclusion = CONCLUSIONS[found.verdict]
    await _write_check(
        ctx,
        conclusion if ctx.record.proven or conclusion != "success" else "neutral",
        followup.check_title(found),
        followup.check_summary(found, tip.base, tip.branch),
        followup.check_text(found),
    )
    return await ctx.update_record(verified=now_at, evidence_confirmed=found.verdict == "shown")


async def _verify(ctx: PullRun, tip: Checkout, commit: CommitSha) -> Verification:
    before = await Codebase.open(tip.git_dir, tip.base)
    after = await Codebase.open(tip.git_dir, commit)
    issue = Issue(repository=ctx.facts.full_name, title="", body="")
    request = VerificationRequest(
        key=f"verified/{tip.base[:12]}-{ctx.pull.head_sha[:12]}",
        changes=await read_changes(before, after),
        test=ctx.record.test_path,
        test_files=ctx.record.evidence_files,
        command=ctx.record.command,
    )
    job = await ctx.build_job(before, issue)
    return await ctx.runner.verify(job, request, ctx.store, on_progress=lambda _: None)


class StartedCheck(Frozen):
    """A check run that is in progress. Saved, so that a later run can complete it."""

    head: CommitSha


async def _start_check(ctx: PullRun) -> None:
    await ctx.store.save(STARTED_CHECK_KEY, StartedCheck(head=ctx.pull.head_sha))
    await ctx.lease.require()
    title, summary = followup.describe_checking(ctx.record.test_path, EVIDENCE_RUNS)
    with suppress(Forbidden, Unprocessable, NotFound):
        await ctx.repo.checks.begin(
            Check(
                name=followup.CHECK_NAME,
                head_sha=ctx.pull.head_sha,
                external_id=_external_id(ctx, ctx.pull.head_sha),
                title=title,
                summary=summary,
            )
        )


async def complete_stale_check(ctx: PullRun, *, run_ended: bool = False) -> None:
    """Cancel the check run of a head that is outdated; with `run_ended`, of any head."""
    begun = await ctx.store.load(STARTED_CHECK_KEY, StartedCheck)
    if begun is None or not (
        run_ended or ctx.pull.state != "open" or begun.head != ctx.pull.head_sha
    ):
        return
    with suppress(Forbidden, Unprocessable, NotFound):
        there = await ctx.repo.checks.find(
            followup.CHECK_NAME, begun.head, _external_id(ctx, begun.head)
        )
        if there is None or there.status == "completed":
            return
        await _write_check(ctx, "cancelled", *followup.INCOMPLETE, "", head=begun.head)


def _external_id(ctx: PullRun, head: CommitSha) -> str:
    return f"{ctx.run.id} {head}"


async def _write_check(
    ctx: PullRun,
    conclusion: Conclusion,
    title: str,
    summary: str,
    text: str,
    *,
    head: CommitSha | None = None,
) -> None:
    """`head`: the pull request's, unless given."""
    head = head or ctx.pull.head_sha
    await ctx.lease.require()
    # Without the permission for checks, the logs are still in the pull request.
    with suppress(Forbidden, Unprocessable, NotFound):
        await ctx.repo.checks.complete(
            Check(
                name=followup.CHECK_NAME,
                head_sha=head,
                external_id=_external_id(ctx, head),
                conclusion=conclusion,
                title=title,
                summary=summary,
                text=text,
            )
        )
