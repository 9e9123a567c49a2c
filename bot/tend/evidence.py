"""The evidence as a check run: gathered again whenever the base or the head is another one."""

from __future__ import annotations

from bot.checkout import Checkout
from bot.github.checks import Check, Conclusion
from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.tend import words
from bot.tend.care import Care
from bot.tend.trees import changes, merged
from bot.types import Mode
from bot.workshop import Evidence
from pipeline.codebase import Codebase
from pipeline.types import Issue
from pipeline.verify import Verdict, Verification

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
        await _written(care, "neutral", words.clash_title(), words.clash_summary(tip.branch), "")
        return await care.noted(verified=now_at, shown=False)
    found = await _verified(care, tip, commit)
    await _written(
        care,
        CONCLUSIONS[found.verdict],
        words.check_title(found),
        words.check_summary(found, tip.base, tip.branch),
        words.check_text(found),
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
    return await care.workshop.verify(care.job(before, issue), ask, care.store, say=lambda _: None)


async def _written(care: Care, conclusion: Conclusion, title: str, summary: str, text: str) -> None:
    await care.lease.require()
    try:
        await care.repo.checks.once(
            Check(
                name=words.CHECK_NAME,
                head_sha=care.pull.head_sha,
                external_id=f"{care.run.id} {care.pull.head_sha}",
                conclusion=conclusion,
                title=title,
                summary=summary,
                text=text,
            )
        )
    except (Forbidden, Unprocessable, NotFound):
        # Without the permission for checks the logs are still in the pull request.
        return
