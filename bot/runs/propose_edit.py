"""`/capuchin use A` after a run without a fix: opens that edit as an unproven draft."""

from __future__ import annotations

from bot.comments import candidates as replies
from bot.errors import SwapRefused
from bot.publish.prepare import prepare_publication
from bot.runner.types import Outcome
from bot.runs.context import IssueRun
from bot.runs.open_pull import open_pull
from bot.storage.keys import ISSUE_KEY
from bot.types import Run
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.selection.letters import rank_result
from pipeline.solve import OUTCOME_KEY, SolveResult
from pipeline.types import Issue, NoFix
from pipeline.workflows.outcome import load_end
from pipeline.workflows.propose import propose_unproven


async def propose_edit(ctx: IssueRun, source: Run) -> Run:
    """Open the draft; `source` is the run without a fix. Nothing is executed.

    Raises:
        SwapRefused: the edits have expired, or there is none of that letter.
        PublishRefused, GitHubError, GitFailed, LeaseLost.
    """
    run = ctx.run
    kept = ctx.lease.storage.checkpoints(source.id, ctx.lease.in_flight)
    result = await load_end(kept)
    if not isinstance(result, NoFix) or result.edits is None:
        raise SwapRefused(replies.edits_expired())
    if not 1 <= run.candidate <= len(rank_result(result)):
        raise SwapRefused(replies.no_such_candidate(run.candidate))
    saved = await kept.load(ISSUE_KEY, Issue)
    issue = saved or Issue(repository=run.repo.full_name, title=ctx.issue.title, body="")
    selection = propose_unproven(result, run.candidate - 1, by=run.asked_by, issue=issue)
    # The state that a run with a pull request leaves, so that `use B` can take another edit.
    await ctx.store.save(OUTCOME_KEY, SolveResult(result=selection))
    await ctx.store.save(ISSUE_KEY, issue)
    ledger = await kept.load(LEDGER_KEY, Ledger) or Ledger()
    await ctx.store.save(LEDGER_KEY, ledger)
    fix = Outcome(selection, ledger.accounts, sent_to=ledger.sent_to)
    return await open_pull(ctx, await prepare_publication(fix, issue, ctx))
