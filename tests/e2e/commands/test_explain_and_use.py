"""The edits of a pull request: as `explain` lists them `use` counts them, whatever came after."""

from __future__ import annotations

from bot.types import RunStatus
from pipeline.types import Candidate, NoFix, Patch, Selection
from tests.e2e.held_harness import Crew
from tests.support.data.publishing import FAILS, FIX, PASSES, a_selection


def three() -> Selection:
    """The second edit was chosen; the third is the next best, then the first."""
    chosen = a_selection()
    proof = chosen.evidence
    third = Candidate(sample=2, patch=Patch(diff=FIX.replace("a + b", "sum((a, b))")))
    votes = proof.votes.model_copy(
        update={
            "candidates": (*proof.votes.candidates, third),
            "runs": (*proof.votes.runs, (PASSES, FAILS)),
        }
    )
    evidence = proof.model_copy(update={"votes": votes, "order": (1, 2, 0)})
    return chosen.model_copy(update={"evidence": evidence})


async def explained(crew: Crew) -> str:
    (issue,) = (i for i in crew.hub.repos["acme/shop"].issues.values() if i.number == 1)
    await crew.say(issue, "/capuchin explain")
    await crew.settle()
    return crew.said(issue)[-1]


async def test_what_explain_lists_is_what_use_counts(crew: Crew) -> None:
    crew.runner.answer = three()
    repo = crew.shop()
    issue = await crew.issue(repo)
    await crew.label(issue)
    await crew.settle()
    (pull,) = repo.pulls
    crew.runner.answer = NoFix(reason="not sure enough")
    await crew.say(issue, "/capuchin retry anyway")
    await crew.settle()
    assert (await crew.run_of(issue)).status is RunStatus.NO_FIX
    here = " (in the pull request)"
    listed = [
        "1. edit 2, which passes 2 of 2 tests",
        "2. edit 3, which passes 1 of 2 tests",
        "3. edit 1, which passes 0 of 2 tests",
    ]
    said = await explained(crew)
    assert "There was no fix: my best edit is too likely to be wrong." in said
    assert f"for #{pull.number}, best first" in said
    assert "\n".join([listed[0] + here, *listed[1:]]) in said
    await crew.say(issue, "/capuchin use 2")
    await crew.settle()
    assert "return sum((a, b))" in (repo.read_file(pull.head_sha, "shop.py") or "")
    assert "\n".join([listed[0], listed[1] + here, listed[2]]) in await explained(crew)
    await crew.say(issue, "/capuchin use 3")
    await crew.settle()
    assert "return b + a" in (repo.read_file(pull.head_sha, "shop.py") or "")
