"""The evidence as a check run: gathered again whenever the base or the head is another one."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from bot.comments import followup
from bot.followup.context import Care
from bot.git.merge import changes, merged
from bot.git.mirrors import Checkout
from bot.github.checks import Beginning, Check, Conclusion
from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.runner.types import Evidence
from bot.types import Frozen, Mode
from pipeline.codebase.commit import Codebase
from pipeline.types import Issue
from pipeline.workflows.verify import Verdict, Verification

BEGUN_KEY: Final = "checking"
CONCLUSIONS: dict[Verdict, Conclusion] = {
    "shown": "success",
    "flaky": "neutral",
    "passes without": "failure",
    "fails with": "failure",
}


async def gathered(care: Care, tip: Checkout) -> Care:
    """A check run on the head of the pull request, unless this base and head have one.

    `tip` is the base branch's head. A branch that is a person's now is taken as it stands.
    """
    now_at = f"{tip.base} {care.pull.head_sha}"
    if care.record.verified == now_at and care.run.mode is not Mode.VERIFY:
        return care
    head = await care.fetched(care.pull.head_sha)
    commit = await _as_merged(care, tip, head)
    if commit is None:
        await _written(
            care, "neutral", followup.clash_title(), followup.clash_summary(tip.branch), ""
        )
        return await care.noted(verified=now_at, shown=False)
    await _begun(care)
    found = await _verified(care, tip, commit)
    await _written(
        care,
        CONCLUSIONS[found.verdict],
        followup.check_title(found),
        followup.check_summary(found, tip.base, tip.branch),
        followup.check_text(found),
    )
    return await care.noted(verified=now_at, shown=found.verdict == "shown")


async def _as_merged(care: Care, tip: Checkout, head: Checkout) -> str | None:
    """The commit whose files are to be tested; None where head and base clash."""
    if not care.record.ours(head.base):
        return head.base
    await care.fetched(care.record.base)
    both = await merged(
        tip.git_dir,
        base=care.record.base,
        ours=head.base,
        theirs=tip.base,
        identity=care.repo.identity,
    )
    return both.commit if both else None


async def _verified(care: Care, tip: Checkout, commit: str) -> Verification:
    before = await Codebase.open(tip.git_dir, tip.base)
    after = await Codebase.open(tip.git_dir, commit)
    issue = Issue(repository=care.facts.full_name, title="", body="")
    ask = Evidence(
        key=f"verified/{tip.base[:12]}-{care.pull.head_sha[:12]}",
        changes=await changes(before, after),
        test=care.record.test_path,
        command=care.record.command,
        times=care.config.evidence_runs,
    )
    job = await care.job(before, issue)
    return await care.workshop.verify(job, ask, care.store, say=lambda _: None)


class Begun(Frozen):
    """A check run that people see in progress. Saved, so that it never stays so."""

    head: str


async def _begun(care: Care) -> None:
    await care.store.save(BEGUN_KEY, Begun(head=care.pull.head_sha))
    await care.lease.require()
    with suppress(Forbidden, Unprocessable, NotFound):
        await care.repo.checks.begin(
            Beginning(
                name=followup.CHECK_NAME,
                head_sha=care.pull.head_sha,
                external_id=_id(care, care.pull.head_sha),
                title=followup.checking_title(),
                summary=followup.checking_summary(care.record.test_path, care.config.evidence_runs),
            )
        )


async def let_go(care: Care, *, ended: bool = False) -> None:
    """Complete what was begun on a head that is none any more; `ended`: on any."""
    begun = await care.store.load(BEGUN_KEY, Begun)
    if begun is None or not (
        ended or care.pull.state != "open" or begun.head != care.pull.head_sha
    ):
        return
    with suppress(Forbidden, Unprocessable, NotFound):
        there = await care.repo.checks.find(followup.CHECK_NAME, begun.head, _id(care, begun.head))
        if there is None or there.status == "completed":
            return
        title, summary = followup.not_checked_title(), followup.not_checked_summary()
        await _written(care, "cancelled", title, summary, "", head=begun.head)


def _id(care: Care, head: str) -> str:
    return f"{care.run.id} {head}"


async def _written(
    care: Care, conclusion: Conclusion, title: str, summary: str, text: str, *, head: str = ""
) -> None:
    """`head` is the pull request's unless given."""
    head = head or care.pull.head_sha
    await care.lease.require()
    try:
        await care.repo.checks.once(
            Check(
                name=followup.CHECK_NAME,
                head_sha=head,
                external_id=_id(care, head),
                conclusion=conclusion,
                title=title,
                summary=summary,
                text=text,
            )
        )
    except (Forbidden, Unprocessable, NotFound):
        # Without the permission for checks the logs are still in the pull request.
        return
