"""How edits are written and chosen, what earlier ends change, and when nothing is to be fixed."""

import re
from pathlib import Path

import pytest

from bot import outcomes
from bot.archive import build_bundle
from bot.cli.lab.learn import load_run_outcomes
from bot.data.run import RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer, Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.lab.learning.attempts import read_attempts
from pipeline.lab.learning.records import SolvedIssue
from pipeline.selection.scoring import confidence as recalibration
from tests.e2e import shop
from tests.e2e.harness import BotHarness, StartBot

VERDICTS = (
    RecordedAnswer(call="prm", when=("len(items)",), reply="-", logprobs={"-": -0.1, "+": -2.4}),
    RecordedAnswer(call="prm", reply="+", logprobs={"+": -0.1, "-": -2.4}),
)


async def test_the_operators_search_is_guided_and_shown_in_the_pull_request(
    start_recorded_bot: StartBot,
) -> None:
    judge = RecordedServer(Recording(version=1, note="Written by hand.", answers=VERDICTS))
    async with (
        judge.serve() as url,
        start_recorded_bot(
            shop.answers(*shop.SEARCHING), strategy="search", prm_model=f"openai:prm@{url}/v1"
        ) as bot,
    ):
        repo = bot.add_repo()
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        _, body = bot.only_pull_request(repo)
        told = {request.call: request for request in bot.llm.requests}
    assert "| 1 | `shop/till.py:2` |" in body
    assert "`shop/till.py:5-6`" not in body
    assert "     2\t    return a - b" in told["localisation/0"].last_user_message
    assert all(
        "shop/till.py:2: it subtracts"
        in "\n".join(message.text for message in told[f"editing/{sample}"].messages)
        for sample in (0, 1)
    )


MIXTURE = (
    f"{shop.FILES['.github/capuchin.yml']}"
    "generators: [{machine: explore}, {machine: fixed, model: recorded-claude-haiku-4-5}]\n"
)
REACH = "import socket; socket.create_connection(('169.254.169.254', 80), 3)"
LOOK = f'<bash>\ncat shop/till.py; python -c "{REACH}" || echo no way\n</bash>'
FIX = "<bash>\nsed -i 's/a - b/a + b/' shop/till.py\n</bash>"
EXPLORING = (
    RecordedAnswer(call="exploring/0", turn=0, reply=LOOK),
    RecordedAnswer(call="exploring/0", turn=1, reply="<tests>\ntests/test_till.py\n</tests>"),
    RecordedAnswer(call="exploring/0", turn=2, reply=FIX),
    RecordedAnswer(call="exploring/0", reply="<submit/>"),
)


async def test_an_explorer_and_a_fixed_machine_of_another_model_work_on_one_issue(
    start_recorded_bot: StartBot,
) -> None:
    mixture = [{"machine": "fixed", "model": "anthropic:recorded-claude-haiku-4-5"}]
    async with start_recorded_bot(shop.answers(*EXPLORING), generators=mixture) as bot:
        repo = bot.add_repo(files={**shop.FILES, ".github/capuchin.yml": MIXTURE})
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        _, body = bot.only_pull_request(repo)
        asked = {request.call: request for request in bot.llm.requests}
    assert "made by" in body
    assert "`recorded-claude-sonnet-4-6`" in body
    assert "`recorded-claude-haiku-4-5`" in body
    assert asked["exploring/0"].model == "recorded-claude-sonnet-4-6"
    assert asked["editing/1"].model == asked["testing/1"].model == "recorded-claude-haiku-4-5"
    told = "\n".join(message.text for message in asked["exploring/0"].messages)
    assert "no way" in told
    assert "1 test passed, 0 failed." in told
    assert "+    return a + b" in told


async def test_a_repository_cannot_name_a_model_that_the_operator_does_not_offer(
    start_recorded_bot: StartBot,
) -> None:
    elsewhere = "generators: [{machine: fixed, model: 'openai:x@http://127.0.0.1:9/v1'}]\n"
    config = shop.FILES[".github/capuchin.yml"] + elsewhere
    async with start_recorded_bot(shop.answers()) as bot:
        repo = bot.add_repo(files={**shop.FILES, ".github/capuchin.yml": config})
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.status is RunStatus.FAILED
        assert bot.llm.requests == []


CONFIG = shop.FILES[".github/capuchin.yml"]


async def test_below_the_threshold_no_pull_request_is_opened_but_what_was_learnt_is_reported(
    recorded_bot: BotHarness,
) -> None:
    repo = recorded_bot.add_repo(
        files={**shop.FILES, ".github/capuchin.yml": f"{CONFIG}confidence: 1\n"}
    )
    issue = await recorded_bot.open_issue(repo)
    run = await recorded_bot.solve(issue)
    assert (run.status, run.no_fix) == (RunStatus.NO_FIX, "not sure enough")
    (comment,) = issue.comments
    assert re.search(r"probability of \d+%", comment.body)
    assert "\n- `shop/till.py`" in comment.body
    assert "sys.exit(0 if total(1, 2) == 3 else 2)" in comment.body
    assert "1 of 1 script" in comment.body
    assert (repo.list_branches(), repo.pulls) == (["main"], [])


async def test_a_reward_model_that_is_dead_costs_no_pull_request(
    start_recorded_bot: StartBot,
) -> None:
    same = shop.edit("    return b + a")
    recording = shop.answers(
        shop.RecordedAnswer(call="editing/0", turn=0, reply=same),
        shop.RecordedAnswer(call="selecting", turn=0, reply=shop.SCRIPT),
        shop.RecordedAnswer(call="selecting", reply="<choice>1</choice>"),
    )
    nowhere = "openai:orm@http://127.0.0.1:9/v1"
    async with start_recorded_bot(recording, orm_model=nowhere) as bot:
        repo = bot.add_repo()
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST
        _, body = bot.only_pull_request(repo)
    assert "openai:orm at 127.0.0.1" in body
    assert "| breaks |\n" in body


@pytest.mark.parametrize("trusted", ["I read every caller.", "I guessed the sign."])
async def test_a_verifier_that_reads_what_samples_left_moves_the_choice(
    start_recorded_bot: StartBot, trusted: str
) -> None:
    left = {"I read every caller.": "return b + a", "I guessed the sign.": "return a + b"}
    said = [f"<summary>\n{one}\n</summary>\n\n{shop.edit(f'    {left[one]}')}" for one in left]
    edits = [RecordedAnswer(call=f"editing/{n}", turn=0, reply=text) for n, text in enumerate(said)]
    undecided = RecordedAnswer(call="selecting", reply="Hm.")
    sure = (
        RecordedAnswer(call="orm", when=(f"{trusted}\nRecord: ",), reply="+",
                       logprobs={"+": -0.1, "-": -2.4}),
        RecordedAnswer(call="orm", reply="-", logprobs={"-": -0.1, "+": -2.4}),
    )  # fmt: skip
    verifier = RecordedServer(Recording(version=1, note="Written by hand.", answers=sure))
    async with (
        verifier.serve() as url,
        start_recorded_bot(
            shop.answers(*edits, undecided), orm_model=f"openai:prm@{url}/v1"
        ) as bot,
    ):
        repo = bot.add_repo()
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST
        _, body = bot.only_pull_request(repo)
    assert left[trusted] in (repo.read_file(repo.pulls[0].head_sha, TILL) or "")
    assert "reward model" in body
    assert len(verifier.requests) == 2


TILL = "shop/till.py"
FIXED = shop.FILES[TILL].replace("a - b", "a + b")
PASSES = ("It says that the issue is fixed already",)


async def test_an_issue_that_is_fixed_already_is_told_the_commit_and_asked_back(
    start_recorded_bot: StartBot,
) -> None:
    claim = RecordedAnswer(call="testing", when=PASSES, reply="It works.\n\n<fixed/>")
    async with start_recorded_bot(shop.answers(claim)) as bot:
        repo = bot.add_repo()
        fix = await bot.hub.commit(repo, "main", {TILL: FIXED}, "Add in total() (#7)", "alice")
        for number in range(3):
            note: dict[str, str | None] = {"NOTES.md": f"{number}\n"}
            await bot.hub.commit(repo, "main", note, f"Write a note {number}", "alice")
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert (run.status, run.no_fix) == (RunStatus.NO_FIX, "already fixed")
        (told,) = bot.comments_of(issue)
        assert f"Fixed since: {fix}" in told
        assert "2 of 2 scripts" in told
        assert "Add in total()" in told
        assert repo.pulls == []
        assert {request.call.split("/")[0] for request in bot.llm.requests} == {"testing"}


async def test_the_merged_pull_request_that_fixed_it_is_named(start_recorded_bot: StartBot) -> None:
    claim = RecordedAnswer(call="testing", when=PASSES, reply="It works.\n\n<fixed/>")
    async with start_recorded_bot(shop.answers(claim)) as bot:
        repo = bot.add_repo()
        await bot.hub.commit(repo, "adding", {TILL: FIXED}, "Add in total()", "alice")
        pull = await bot.hub.open_pull(repo, "adding", "Add in total()", "alice")
        merge = await bot.hub.merge(pull, "bob")
        issue = await bot.open_issue(repo)
        await bot.solve(issue)
        (told,) = bot.comments_of(issue)
        assert f"Fixed since: {merge}, merged with #{pull.number}" in told


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("question", "I changed nothing: this reads as a question"),
        ("elsewhere", "I changed nothing: its cause seems to lie outside this repository."),
    ],
)
async def test_what_no_script_can_show_gets_an_honest_answer(
    start_recorded_bot: StartBot, kind: str, sentence: str
) -> None:
    said = f"<no_issue>\n{kind}\nSee the @docs of total().\n</no_issue>"
    answers = shop.answers(RecordedAnswer(call="testing", reply=said))
    async with start_recorded_bot(answers) as bot:
        repo, issue = await bot.add_repo_with_issue(label=True)
        run = await bot.solve(issue)
        assert run.status is RunStatus.NO_FIX
        (told,) = bot.comments_of(issue)
        assert sentence in told
        assert "docs of total()" in told
        assert repo.pulls == []


async def test_after_a_closed_pull_request_the_next_states_less_and_says_why(
    start_recorded_bot: StartBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (recalibration, outcomes):
        monkeypatch.setattr(module, "MIN_OUTCOMES", 1)
    async with start_recorded_bot(shop.answers(shop.RIGHT_AT_ONCE)) as bot:
        repo = bot.add_repo(config=shop.ONE_SAMPLE)
        assert (await bot.solve(await bot.open_issue(repo))).confidence is not None
        (first,) = repo.pulls
        told = first.body or ""
        before = _stated(told)
        await bot.hub.close_issue(first, "alice")
        await bot.settle()

        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST
        told = repo.pulls[-1].body or ""
        assert _stated(told) < before
        assert f"{before}%" in told
        assert run.confidence == pytest.approx(before / 100, abs=0.006), "kept uncorrected"


async def test_collect_labels_the_proposed_edit_by_what_people_decided(
    start_recorded_bot: StartBot, tmp_path: Path
) -> None:
    async with start_recorded_bot(shop.answers(shop.RIGHT_AT_ONCE)) as bot:
        repo = bot.add_repo(config=f"{shop.ONE_SAMPLE}draft: false\n")
        run = await bot.solve(await bot.open_issue(repo))
        await bot.hub.merge(repo.pulls[0], "alice")
        await bot.settle()
        bundle = await build_bundle(bot.storage, run)
        assert bundle is not None
        name = f"{repo.owner}__{repo.name}-{run.issue}"
        (tmp_path / f"{name}.tar.zst").write_bytes(bundle)
        found = await load_run_outcomes(repo.full_name, bot.settings)
        assert found == {run.id: "merged"}
        solved = SolvedIssue(
            id=name, repository=repo.full_name, title="", body="", reference="", source="pulls"
        )
        attempts = [one async for one in read_attempts(tmp_path, {name: solved}, found)]
        told = [(one.outcome, one.resolved) for one in attempts]
        assert told.count(("merged", True)) >= 1
        assert {(None, None), ("merged", True)} >= set(told)
        closed = [one async for one in read_attempts(tmp_path, {name: solved}, {run.id: "closed"})]
        assert ("closed", False) in [(one.outcome, one.resolved) for one in closed]


def _stated(body: str) -> int:
    found = re.search(r"correct with a probability of (\d+)%", body)
    assert found, body
    return int(found[1])
