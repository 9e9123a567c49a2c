"""Projects in other languages than Python: from the label to the pull request."""

import pytest

from bot.data.run import RunStatus
from capuchin_demo.recorded.recording import RecordedAnswer
from tests.e2e import shop
from tests.e2e.harness import StartBot
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)

FILES = {
    "Makefile": (
        "all:\n\tcp till.sh built.sh\n\ntest: all\n"
        "\t@. ./built.sh && test \"$$(count a b)\" = 2 && echo 'ok 1 - count'\n"
    ),
    "till.sh": "total() {\n  echo $(($1 - $2))\n}\ncount() {\n  echo $#\n}\n",
    ".github/capuchin.yml": shop.ONE_SAMPLE,
}
SCRIPT: str = TEXTS["SCRIPT"]
WORDS: str = TEXTS["WORDS"]


STATED = {
    "Makefile": "test:\n\t@echo not ok 1 - another project\n",
    "engine/Makefile": (
        'test:\n\t@. ./built.sh && test "$$(count a b)" = "$(WANTED)" && echo "ok 1 - count"\n'
    ),
    "engine/till.sh": FILES["till.sh"],
    ".github/capuchin.yml": shop.ONE_SAMPLE
    + "root: engine/\nbuild: cp engine/till.sh engine/$OUTPUT\n"
    + 'env: {WANTED: "2", OUTPUT: built.sh}\n',
}
"""Its project, its build and its variables are the maintainers' own."""


@pytest.mark.parametrize(("files", "root"), [(FILES, ""), (STATED, "engine/")])
async def test_a_makefile_project_goes_from_label_to_pull_request(
    start_recorded_bot: StartBot, files: dict[str, str], root: str
) -> None:
    path = f"{root}till.sh"
    recording = shop.answers(
        RecordedAnswer(call="ranking", reply=f"<ranking>\n{path}\n</ranking>"),
        RecordedAnswer(
            call="testing", turn=0, reply=SCRIPT.replace("./built.sh", f"./{root}built.sh")
        ),
        RecordedAnswer(
            call="editing/0",
            turn=0,
            reply=shop.edit("  echo $(($1 + $2))", path=path, before="  echo $(($1 - $2))"),
        ),
        RecordedAnswer(call="reproduction", reply=WORDS),
    )
    async with start_recorded_bot(recording) as bot:
        repo = bot.add_repo(files=files)
        issue = await bot.open_issue(repo)
        run = await bot.solve(issue)
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        branch, body = bot.only_pull_request(repo)
        assert "$1 + $2" in (repo.read_file(branch, path) or "")
        # What the build writes is nobody's edit; the script is the test.
        assert repo.read_file(branch, f"{root}built.sh") is None
        assert "reproduce_total_subtracts.sh" in body


async def test_the_probability_in_a_language_without_data_learns_from_outcomes(
    start_recorded_bot: StartBot,
) -> None:
    recording = shop.answers(
        RecordedAnswer(call="ranking", reply="<ranking>\ntill.sh\n</ranking>"),
        RecordedAnswer(call="testing", turn=0, reply=SCRIPT),
        RecordedAnswer(
            call="editing/0",
            turn=0,
            reply=shop.edit("  echo $(($1 + $2))", path="till.sh", before="  echo $(($1 - $2))"),
        ),
        RecordedAnswer(call="reproduction", reply=WORDS),
    )
    async with start_recorded_bot(recording) as bot:
        repo = bot.add_repo(files=FILES)
        first = await bot.solve(await bot.open_issue(repo))
        assert first.confidence is not None
        assert first.confidence <= 0.75
        assert "not calibrated for this language" in (repo.pulls[-1].body or "")
        await bot.hub.close_issue(repo.pulls[-1], "alice")
        await bot.settle()

        again = await bot.solve(await bot.open_issue(repo))
        body = repo.pulls[-1].body or ""
        assert again.pull_request != first.pull_request
        assert again.confidence == first.confidence, "kept uncorrected"
        assert "calibrated on 1 pull request of this language here" in body
        assert f"without that, I would say {first.confidence:.0%}" in body


async def test_a_script_is_shown_in_its_own_language(start_recorded_bot: StartBot) -> None:
    recording = shop.answers(
        RecordedAnswer(call="ranking", reply="<ranking>\ntill.sh\n</ranking>"),
        RecordedAnswer(call="testing", turn=0, reply=SCRIPT),
        RecordedAnswer(
            call="editing/0",
            reply=shop.edit("  echo $(($1 * $2))", path="till.sh", before="  echo $(($1 - $2))"),
        ),
    )
    async with start_recorded_bot(recording) as bot:
        issue = await bot.open_issue(bot.add_repo(files=FILES))
        run = await bot.solve(issue)
        assert run.status is RunStatus.NO_FIX, run
        assert "```sh\n. ./built.sh\n" in issue.comments[0].body


GO_FILES = {
    "go.mod": "module till\n\ngo 1.20\n",
    "till.go": "package till\n\nfunc Total(a, b int) int {\n\treturn a - b\n}\n",
    "till_test.go": (
        'package till\n\nimport "testing"\n\n'
        "func TestNothing(t *testing.T) {\n\tif Total(0, 0) != 0 {\n\t\tt.Fatal()\n\t}\n}\n"
    ),
    ".github/capuchin.yml": shop.ONE_SAMPLE,
}
GO_TEST: str = TEXTS["GO_TEST"]
GO_SCRIPT = f'<script>\n// issue_test.go\npackage till\n\nimport "testing"\n\n{GO_TEST}</script>\n'
GO_EDIT = shop.edit("\treturn a + b", path="till.go", before="\treturn a - b") + shop.edit(
    f"{GO_TEST}\nfunc TestNothing(t *testing.T) {{",
    path="till_test.go",
    before="func TestNothing(t *testing.T) {",
)


async def test_an_edit_of_go_is_proven_by_the_test_that_it_adds_to_its_package(
    start_recorded_bot: StartBot,
) -> None:
    recording = shop.answers(
        RecordedAnswer(call="ranking", reply="<ranking>\ntill.go\n</ranking>"),
        RecordedAnswer(call="testing", turn=0, reply=GO_SCRIPT),
        RecordedAnswer(call="editing/0", turn=0, reply=GO_EDIT.replace("</edit>\n<edit>\n", "")),
        RecordedAnswer(call="reproduction", reply=WORDS),
    )
    async with start_recorded_bot(recording) as bot:
        repo = bot.add_repo(files=GO_FILES)
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        branch, body = bot.only_pull_request(repo)
        assert "TestTotal" in (repo.read_file(branch, "till_test.go") or "")
        assert "Unproven" not in body
        assert '"Action"' not in body
        asked = "\n".join(m.text for request in bot.llm.requests for m in request.messages)
        assert "fail by its own check" in asked
        assert "exit with code 2" not in asked
        assert "with Python" not in asked


OWN = {
    **FILES,
    "Makefile": "all:\n\tcp till.sh built.sh\n\ntest: all\n\t@sh tests/run.sh\n",
    "tests/run.sh": '. ./built.sh\n[ "$(count a b)" = 2 ] && echo "ok 1 - count"\n',
}
OWN_TEST = '[ "$(total 1 2)" = 3 ] || exit 1\n'


async def test_where_only_the_whole_suite_can_run_it_proves_an_edit_and_is_near_it(
    start_recorded_bot: StartBot,
) -> None:
    added = shop.edit(
        f'{OWN_TEST}[ "$(count a b)" = 2 ] && echo "ok 1 - count"',
        path="tests/run.sh",
        before='[ "$(count a b)" = 2 ] && echo "ok 1 - count"',
    )
    mended = shop.edit("  echo $(($1 + $2))", path="till.sh", before="  echo $(($1 - $2))")
    recording = shop.answers(
        RecordedAnswer(call="ranking", reply="<ranking>\ntill.sh\n</ranking>"),
        RecordedAnswer(call="testing", turn=0, reply=SCRIPT),
        RecordedAnswer(
            call="editing/0", turn=0, reply=(mended + added).replace("</edit>\n<edit>\n", "")
        ),
        RecordedAnswer(call="reproduction", reply=WORDS),
    )
    async with start_recorded_bot(recording) as bot:
        repo = bot.add_repo(files=OWN)
        run = await bot.solve(await bot.open_issue(repo))
        assert run.status is RunStatus.OPENED_PULL_REQUEST, run
        branch, body = bot.only_pull_request(repo)
        assert OWN_TEST in (repo.read_file(branch, "tests/run.sh") or "")
        assert "Unproven" not in body
        assert "reproduce_" not in body
        asked = "\n".join(m.text for request in bot.llm.requests for m in request.messages)
        assert "exit with code 2" in asked
        assert "near the edit gave a result" not in asked
