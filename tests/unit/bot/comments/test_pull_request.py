"""The pull request's texts contain everything a reviewer needs, within GitHub's limits."""

import pytest

from bot.comments import pull_request
from bot.comments.status import pull_marker
from bot.comments.vote_table import render_edits, render_vote_table
from bot.data.run import RunId
from pipeline.data.code_places import Context
from pipeline.data.suite_reports import CutShort, Standing
from pipeline.data.types import Candidate, JudgedEdits, RejectedEdit, Selection
from sandbox.frozen import replace
from tests.support.data.diffs import diff_of
from tests.support.data.publishing import ACCOUNTS, FIX, SUITE, a_run, a_selection, proven

SPLIT = "\u200b"


def body_of(chosen: Selection | None = None, **evidence: object) -> str:
    """The body for a selection, or the usual one, with other evidence."""
    return pull_request.pull_body(a_run(), proven(chosen or a_selection(), **evidence), ACCOUNTS)


def body_with_suite(**changed: object) -> str:
    return body_of(suite=replace(SUITE, **changed))


def test_the_body_says_whose_the_test_is() -> None:
    written = a_selection()
    own = replace(written.evidence.reproduction, rung="the edit's own tests")
    foreign = replace(written, candidate=replace(written.candidate, source="ann's branch"))
    votes = replace(written.evidence.votes, candidates=(foreign.candidate,) * 2)
    assert "from ann" in body_of(foreign, reproduction=own, votes=votes)


def test_the_body_says_that_the_outputs_are_of_more_than_the_command_that_it_advises() -> None:
    path = "tests/test_total.py"
    test = replace(
        a_selection().evidence.reproduction,
        rung="extension",
        text="x = 1\ndef test_one():\n    pass\n",
        diff=f"--- a/{path}\n+++ b/{path}\n@@ -1 +1,3 @@\n x = 1\n+def test_one():\n+    pass\n",
    )
    body = body_of(reproduction=test)
    advice = body.partition(f"`python -m pytest -k test_one {path}`")[2].partition("\n")[0]
    assert f"`python -m pytest {path}`" in advice
    whole = replace(test, command=("make", "check"), rung="the edit's own tests")
    body = body_of(reproduction=whole)
    assert "other tests" in body.partition("`make check`")[2].partition("\n")[0]
    assert "all tests in" not in body_of()


def test_samples_that_wrote_the_same_code_are_no_further_edits() -> None:
    alike = (Standing(votes=2, passes=2, support=2, same_as=0, behaves_as=0, execution=0, prior=0),)
    body = body_of(standings=alike * 2)
    assert "edit A (2 samples, 1 edit), 85%" in body
    assert "Agreeing edits" in body
    assert "<summary>Edit A, as a diff; B is the same code</summary>" in body
    assert body.count("```diff") == 1
    votes = a_selection().evidence.votes
    edits = JudgedEdits(votes=votes, order=(1, 0), standings=alike * 2)
    listed = render_edits(edits)
    assert "It passes 0 of 2 scripts. It is the same code as edit A." in listed
    assert listed.count("```diff") == 1


def test_what_a_sample_left_stands_above_its_diff_as_inert_text() -> None:
    left = "The sign.\n```\n</details> @ann <!-- capuchin -->\nRecord: It ran 2 commands."
    votes = a_selection().evidence.votes
    first = replace(votes.candidates[0], summary=left)
    body = body_of(votes=replace(votes, candidates=(first, *votes.candidates[1:])))
    assert body.count("What its sample left") == 1
    quoted = body.partition("What its sample left")[2]
    fenced = quoted.partition("````text\n")[2].partition("\n````")[0]
    assert "It ran 2 commands." in fenced
    assert "</details> @ann" in fenced
    assert quoted.index("It ran 2 commands.") < quoted.index("```diff")


def test_a_diff_is_shown_without_the_names_of_blobs() -> None:
    line = f"index {'a' * 40}..{'1' * 40} 100644\n"
    body = body_of(a_selection(fix=f"{line}{FIX}"))
    assert f"```diff\n{FIX.splitlines()[0]}\n" in body
    assert "index aaaa" not in body


def test_a_person_is_told_what_could_forge_the_results() -> None:
    hook = "--- /dev/null\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+import atexit\n"
    limits = body_of(a_selection(fix=FIX + hook)).partition("## Limits")[2]
    assert "\n- The edit changes `conftest.py`, which runs before any test does.\n" in limits
    assert "\n- The edit adds `atexit` to `conftest.py`, which can forge results.\n" in limits


def test_a_person_is_told_of_lines_of_old_tests_that_the_edit_changes() -> None:
    """Seen with pylint's issue 8898: an old assertion was rewritten, and none of them "broken"."""

    def limits(new: str) -> str:
        edit = FIX + diff_of("assert total(1, 2) == -1\n", new, "tests/test_old.py")
        return body_of(a_selection(fix=edit)).partition("## Limits")[2]

    assert "1 line of `tests/test_old.py`" in limits("assert total(1, 2) == 3\n")
    kept = "import shop\n\n\ndef test_total():\n    assert total(1, 2) == -1\n"
    assert "test_old" not in limits(kept)


def test_a_log_does_not_show_a_character_for_each_test() -> None:
    lines = [
        "tests/test_a.py ..s.                    [  3%]",
        "........................................ [ 50%]",
        "\x1b[32m.\x1b[0m\x1b[32m.\x1b[0m\x1b[31m  [100%]\x1b[0m",
        "." * 700,
        "....",
        "Es geht.",
        "2 passed",
    ]
    body = body_of(a_selection(output="\n".join(lines)))
    assert "```text\n....\nEs geht.\n2 passed\n```" in body


@pytest.mark.parametrize(
    "form",
    [
        "tests/test_a.py::test_{} PASSED         [ 10%]",
        "test_{} (shop.Case) ... ok",
        "test_{} ok",
        "test_{} (shop.Case)\nIt adds. ... ok",
    ],
)
def test_a_log_does_not_list_many_tests_that_passed(form: str) -> None:
    for count, shown in ((3, 3), (300, 0)):
        lines = [
            *(form.format(number) for number in range(count)),
            "test_x F",
            "it is ok",
            "1 failed",
        ]
        body = body_of(a_selection(output="\n".join(lines)))
        log = body.partition("```text\n")[2].partition("\n```")[0].splitlines()
        assert log[-3:] == ["test_x F", "it is ok", "1 failed"]
        assert len(log) == shown * (1 + form.count("\n")) + 3


def test_a_huge_log_is_shortened_until_the_body_fits() -> None:
    body = body_of(a_selection(output="`" * 200_000))
    assert len(body) <= pull_request.BODY_CHARACTERS
    assert body.endswith(pull_marker(RunId("r1")) + "\n")
    assert "characters left out" in body


def test_a_log_cannot_end_its_own_fence() -> None:
    body = body_of(a_selection(output="```\n</details>\nFixes #1"))
    assert "````text\n```\n</details>\nFixes #1\n````" in body


def test_a_model_can_close_no_other_issue_and_forge_no_marker() -> None:
    cause = "Fixes #1 <!-- capuchin:run=other --> cc @everyone"
    body = body_of(a_selection(cause=cause))
    assert f"Fixes #{SPLIT}1  cc @{SPLIT}everyone" in body
    assert "capuchin:run=other" not in body


def test_an_empty_title_falls_back_to_the_issue() -> None:
    assert pull_request.pull_title(proven(a_selection(), title=" \n"), 7) == "Fix issue 7"


@pytest.mark.parametrize(
    ("whole", "chosen", "said"),
    [
        (1636, "those near it", "I ran 2 of the repository's 1,636 tests with the change."),
        (0, "those near it", "I ran 2 of the repository's tests with the change, not all."),
        (2, "", ""),
    ],
)
def test_the_limits_say_how_many_tests_of_the_repository_ran(
    whole: int, chosen: str, said: str
) -> None:
    limits = body_with_suite(whole=whole, chosen=chosen).partition("## Limits")[2]
    assert ("tests with the change" in limits) is bool(said)
    assert said in limits


def test_an_entry_of_the_changelog_that_could_not_be_written_is_a_limit() -> None:
    chosen = a_selection()
    told = proven(chosen, context=Context(files=(), numbered_entries="changelog"))
    assert "\n- The changelog lacks an entry: those in `changelog`" in body_of(told)
    diff = told.candidate.patch.diff + diff_of("", "It adds up.\n", "changelog/7.bugfix.rst")
    noted = replace(told.candidate, patch=replace(told.candidate.patch, diff=diff))
    votes = told.evidence.votes
    edits = tuple(noted if one == told.candidate else one for one in votes.candidates)
    votes = replace(votes, candidates=edits)
    for other in (proven(replace(told, candidate=noted), votes=votes), chosen):
        assert "lacks an entry" not in body_of(other)


def test_without_a_pull_request_the_test_is_said_to_lie_beside_the_patch() -> None:
    chosen = a_selection()
    told = "\n".join(pull_request.evidence_sections(chosen, 1000, commits=False))
    assert "`git apply test.diff`" in told
    test = replace(chosen.evidence.reproduction, rung="the edit's own tests")
    own = proven(chosen, reproduction=test)
    assert "patch.diff" not in "".join(pull_request.evidence_sections(own, 1000, commits=False))
    assert "patch.diff" not in body_of()


def others(chosen: Selection) -> list[Candidate]:
    return [chosen.evidence.votes.candidates[c] for c in chosen.evidence.order[1:]]


def test_an_edit_that_explored_is_not_said_to_have_seen_only_what_it_was_shown() -> None:
    chosen = a_selection()
    explored = replace(chosen.candidate, machine="explore")
    votes = replace(chosen.evidence.votes, candidates=(explored, *others(chosen)))
    context = Context(files=(), dropped=("a.py", "b.py"))
    body = body_of(replace(chosen, candidate=explored), context=context, votes=votes)
    assert "did not see" not in body
    assert "could read any file" in body


def test_nothing_is_said_of_the_model_of_an_edit_from_outside() -> None:
    chosen = a_selection()
    theirs = replace(chosen.candidate, source="#7")
    votes = replace(chosen.evidence.votes, candidates=(theirs, *others(chosen)))
    context = Context(files=(), dropped=("a.py",))
    body = body_of(replace(chosen, candidate=theirs), context=context, votes=votes)
    limits = body.partition("## Limits")[2]
    assert "did not see" not in limits
    assert "The same kind of model" not in limits


def test_where_the_time_was_too_short_for_all_tests_no_two_counts_of_them_are_told() -> None:
    """Six figures stood there, none of which was the sum of two others."""
    before = replace(SUITE.before, cut=CutShort(ran=987, skipped=11, selected=1713))
    body = body_with_suite(before=before, whole=1063, near=1, chosen="those near it")
    assert body.count("1,713") == 2
    assert "none broken" in body
    assert "1,063" not in body
    assert "987" not in body


def test_that_a_time_limit_ended_a_run_is_said_in_each_place() -> None:
    after = replace(SUITE.after, cut=CutShort(ran=214, selected=239))
    body = body_with_suite(after=after, chosen="the nearest")
    cut = "A time limit ended the run with the edit: 214 of 239 selected tests ran."
    assert f"none broken (I ran the nearest). {cut}\n" in body
    assert f"I ran 2 that pass without the change: the nearest. {cut}\n" in body
    output = body.partition("<summary>Output with the change</summary>")[2].partition("</details>")
    assert output[0].rstrip().endswith(f"```\n\n{cut}")
    votes = a_selection().evidence.votes
    status = render_edits(JudgedEdits(votes=votes, order=(1, 0), suite=replace(SUITE, after=after)))
    assert f"it breaks 0. {cut}" in status


def test_one_test_is_counted_as_one() -> None:
    before = replace(SUITE.before, passed=("a",))
    body = body_with_suite(before=before, whole=1, chosen="the nearest")
    counts = "1 of this repository's tests passes before, 2 after (and 1 more that ran only then)"
    assert counts in body
    assert "(1 passes in all; I ran the nearest)" in body
    near = body_with_suite(whole=0, chosen="those in the 2 test files nearest to the edit")
    assert "none broken (I ran those in the 2 test files nearest to the edit)" in near
    assert "Of 1 test that passes without the change, I ran 1 with it" in body


def test_names_of_tests_cannot_leave_their_block() -> None:
    hostile = "t.py::a[```\n</details> @everyone #1]"
    for kind in ("flaky", "passed_again"):
        assert f"````text\n{hostile}\n````" in body_with_suite(**{kind: (hostile,)})


def test_why_no_test_was_run_is_reported_inertly() -> None:
    body = body_of(suite=None, suite_problem="No test passes with `x`: @everyone <b>#1")
    assert f"No test passes with `x`: @{SPLIT}everyone &lt;b\\>#{SPLIT}1" in body


def test_a_foreign_edit_is_named_as_code_and_what_does_not_apply_stands_below() -> None:
    votes = a_selection().evidence.votes
    foreign = replace(votes.candidates[0], source="#12 <img> | @all `x`")
    table = replace(
        votes,
        candidates=(foreign, votes.candidates[1]),
        flaky=(1,),
        rejected=(RejectedEdit(name="#34", why="error: patch failed"),),
    )
    shown = render_vote_table(table, votes.candidates[1])
    assert "| `` #12 <img> ¦ @all `x` `` | 💥 | ⏱ | 0 |" in shown
    assert "script 2 (flaky)" in shown
    assert shown.endswith("\n- `#34` is left out: `error: patch failed`")


def test_how_each_edit_stands_is_beside_its_tests() -> None:
    votes = a_selection().evidence.votes
    one = Standing(votes=0, passes=0, support=2, same_as=0, behaves_as=0, execution=-1, prior=0.5)
    two = replace(one, broken=("t",), reward=0.25, execution=1.0)
    shown = render_vote_table(votes, votes.candidates[1], (one, two)).splitlines()
    assert shown[0].endswith("| passes | same code as | breaks | reward |")
    assert shown[2].endswith("| 0 |  |  |  |")
    assert shown[3].endswith("| 2 | B | 1 | 0.25 |")
    assert shown[4].endswith("| 0 | A | not compared |  |")
    near = (replace(one, near=1), two)
    shown = render_vote_table(votes, votes.candidates[1], near).splitlines()
    assert shown[4].endswith("| 0 | A | 1 (of the tests near it) |  |")
    alone = (replace(one, same_as=0), replace(one, same_as=1))
    shown = render_vote_table(votes, votes.candidates[1], alone).splitlines()
    assert shown[0].endswith("| passes |")


def test_an_edit_that_fails_the_test_of_another_is_not_said_to_be_wrong() -> None:
    votes = a_selection().evidence.votes
    shown = render_vote_table(votes, votes.candidates[1], reproduced=("fails", "passes"))
    assert "| **A (chosen)** | ✅ | ✅ | 2 | ✅ |\n| B | 💥 | ⏱ | 0 | ❌ |\n\n" in shown
    assert shown.endswith("❌ there does not show that another edit is wrong.")
    shown = render_vote_table(votes, votes.candidates[1], reproduced=("passes", "fails"))
    assert "another edit" not in shown
    shown = render_vote_table(votes, votes.candidates[1], reproduced=(None, "passes"))
    assert "| B | 💥 | ⏱ | 0 | not run |\n\n" in shown


def test_a_table_that_is_too_large_is_summed_up() -> None:
    votes = a_selection().evidence.votes
    tests = votes.tests * 150
    runs = tuple(row * 150 for row in votes.runs)
    wide = replace(votes, tests=tests, base=votes.base * 150, runs=runs)
    assert render_vote_table(wide, votes.candidates[1]).splitlines() == [
        "| | passes |",
        "|---|:-:|",
        "| unedited code | 0 |",
        "| **A (chosen)** | 300 |",
        "| B | 0 |",
    ]


ESC = "\x1b[31m"


def _failing_run(failures: int) -> str:
    """What pytest prints, in colours, when `failures` tests fail."""
    parts = [
        f"{ESC}_____ test_{n} _____\x1b[0m\n    total()\n"
        f"{ESC}E   AttributeError: no opts {n}\x1b[0m\n"
        for n in range(failures)
    ]
    summary = f"==== short test summary info ====\nFAILED t.py\n{failures} failed\n"
    return f"...\n{''.join(parts)}{summary}"


def test_folded_output_is_the_first_failure_and_the_summary_without_colours() -> None:
    body = body_of(a_selection(output=_failing_run(5)))
    fenced = next(part for part in body.split("```") if "_____ test_0" in part)
    assert "\x1b" not in body
    assert "no opts 1" not in body
    assert "[... 4 more failures left out ...]" in fenced
    assert fenced.rstrip().endswith("FAILED t.py\n5 failed")


def test_the_output_of_the_repositorys_tests_is_the_first_failure_and_the_summary() -> None:
    run = replace(SUITE.after.execution, output=_failing_run(5))
    body = body_with_suite(after=replace(SUITE.after, execution=run))
    shown = body.partition("<summary>Output with the change</summary>")[2]
    assert "no opts 0" in shown
    assert "no opts 1" not in shown
    assert "[... 4 more failures left out ...]" in shown
