"""A worker that dies after any effect, or loses an answer, leaves one pull request and one swap."""

import pytest

from bot.comments.status import status_marker
from bot.data.run import Login, Mode, Run, RunStatus
from capuchin_demo.hub.state import Issue, Repo
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult
from tests.e2e.harness import BotHarness
from tests.support.data.publishing import a_selection
from tests.support.hub import ref_of

pytestmark = pytest.mark.spine

BRANCH = "capuchin/issue-1-total-subtracts"
EFFECTS = [
    "POST reactions",
    "POST comments",
    *["POST trees", "POST commits"] * 2,
    "POST git-receive-pack",
    "POST pulls",
    "POST requested_reviewers",
    "PATCH {comment}",
    "POST reactions",
    "DELETE {reaction}",
    "DELETE capuchin",
]
"""All that a run does to GitHub, in order; progress aside."""


def assert_published_once(repo: Repo, issue: Issue, run: Run) -> None:
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    assert repo.list_branches() == [BRANCH, "main"]
    assert repo.list_commits(BRANCH) == [
        "Make total() add",
        "Add a failing test for #1",
        "Initial commit",
    ]
    assert [(pull.head_ref, pull.draft) for pull in repo.pulls] == [(BRANCH, True)]
    assert "\n\nFixes #1\n\n" in (repo.pulls[0].body or "")
    assert len(issue.comments) == 1
    assert f"I opened #{repo.pulls[0].number}" in issue.comments[0].body
    assert status_marker(run.id) in issue.comments[0].body
    assert [reaction.content for reaction in issue.reactions] == ["rocket"]
    assert issue.labels == []


async def test_a_run_has_these_effects_and_no_others_and_done_again_it_changes_nothing(
    manual_bot: BotHarness,
) -> None:
    repo, issue, lease = await manual_bot.begin_run()
    run = await manual_bot.parts.solve.handle(lease.run, lease)
    assert_published_once(repo, issue, run)
    assert [effect.split()[0] for effect in manual_bot.effects] == [e.split()[0] for e in EFFECTS]
    assert repo.pulls[0].requested_reviewers[0].login == "alice"
    assert_published_once(repo, issue, await manual_bot.parts.solve.handle(lease.run, lease))


@pytest.mark.parametrize("effect", range(1, len(EFFECTS) + 1))
async def test_a_worker_that_dies_after_an_effect_is_replaced_without_a_trace(
    manual_bot: BotHarness, effect: int
) -> None:
    repo, issue, lease = await manual_bot.begin_run(dies_after=effect)
    run = await manual_bot.work_on(lease)
    assert_published_once(repo, issue, run)


@pytest.mark.parametrize("after_effect", [True, False], ids=["after", "before"])
@pytest.mark.parametrize(
    "path",
    [
        "/repos/*/issues/1/reactions",
        "/repos/*/issues/1/comments",
        "/acme/shop.git/git-receive-pack",
        "/repos/*/pulls",
        "/repos/*/requested_reviewers",
    ],
)
async def test_a_lost_answer_makes_nothing_twice(
    manual_bot: BotHarness, path: str, after_effect: bool
) -> None:
    repo, issue, lease = await manual_bot.begin_run()
    manual_bot.hub.faults.fail_next("POST", path, status=502, after_effect=after_effect)
    run = await manual_bot.work_on_patiently(lease)
    assert_published_once(repo, issue, run)
    assert manual_bot.hub.faults.pending == []


async def opened(manual_bot: BotHarness) -> tuple[Repo, Issue, str]:
    """A pull request of a run that is kept, and the run's id."""
    repo, issue, lease = await manual_bot.begin_run()
    run = await manual_bot.work_on(lease)
    assert run.status is RunStatus.OPENED_PULL_REQUEST
    store = manual_bot.storage.checkpoints(run.id)
    await store.save(OUTCOME_KEY, SolveResult(result=a_selection()))
    return repo, issue, run.id


async def use(manual_bot: BotHarness, repo: Repo, issue: Issue, source: str, delivery: str) -> str:
    asked = await manual_bot.runs.create(
        ref_of(repo), issue.number, asked_by=Login("alice"), delivery=delivery, mode=Mode.USE,
        candidate=2, published_run=source,
    )  # fmt: skip
    return asked.run_id


SWAP_EFFECTS = 10


@pytest.mark.parametrize("effect", range(1, SWAP_EFFECTS + 1))
async def test_a_worker_that_dies_leaves_one_swap(manual_bot: BotHarness, effect: int) -> None:
    repo, issue, source = await opened(manual_bot)
    (pull,) = repo.pulls
    before = pull.head_sha
    lease = await manual_bot.take(await use(manual_bot, repo, issue, source, "use"))
    lease = await manual_bot.die_after(effect, lease)
    run = await manual_bot.work_on(lease)
    assert (run.status, run.pull_request) == (RunStatus.SWAPPED, pull.number)
    assert repo.read_file(pull.head_sha, "shop.py") == "def total(a, b):\n    return b + a\n"
    assert repo.read_file(pull.head_sha, "tests/test_total.py") is not None
    two = [commit.message.split("\n")[0] for commit in repo.git.log(pull.head_sha, without=before)]
    assert ("edit B" in two[0], "@alice" in two[1]) == (True, True)
    assert (len(repo.pulls), len(repo.list_branches())) == (1, 2)
    records = manual_bot.storage.pulls
    record = await records.get(ref_of(repo), pull.number)
    assert record is not None
    assert (record.head, record.pending_head) == (pull.head_sha, "")
    assert len([c for c in issue.comments if "now holds edit B" in c.body]) == 1


async def test_no_effect_is_left_out_above(manual_bot: BotHarness) -> None:
    repo, issue, source = await opened(manual_bot)
    before = len(manual_bot.effects)
    await manual_bot.work_on(
        await manual_bot.take(await use(manual_bot, repo, issue, source, "use"))
    )
    assert len(manual_bot.effects) - before == SWAP_EFFECTS
