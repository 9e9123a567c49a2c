"""What an editing machine is told."""

from pathlib import Path

from pipeline.data.suite_reports import CutShort, SuiteReport, SuiteRun
from pipeline.generation.editing import describe_near_tests
from sandbox.frozen import replace
from sandbox.program import Execution
from tests.support.data.solver_shop import APPROVE, GOOD_EDIT, ISSUE, open_shop, simple
from tests.support.fakes import ScriptedModel

RUN = Execution(exit_code=0, output="", seconds=1)
DIFF = "--- a/till.py\n+++ b/till.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
WITH_TEST = DIFF + DIFF.replace("till.py", "tests/test_till.py")


def report(before: tuple[str, ...], after: tuple[str, ...], **more: object) -> SuiteReport:
    return SuiteReport(
        command=(),
        before=SuiteRun(execution=RUN, passed=before, failed=("old",)),
        after=replace(SuiteRun(execution=RUN, passed=after, failed=("old", "new_b")), **more),
    )


def test_the_near_tests_are_counted_and_the_new_ones_named() -> None:
    near = describe_near_tests(report(("a", "b"), ("a", "b", "new_a")), WITH_TEST)
    assert near.text == (
        "2 tests of the repository near the edit pass without it; with it none breaks."
    )
    assert (near.passed, near.failed) == (("new_a",), ("new_b",))


def test_broken_and_mended_tests_are_counted() -> None:
    near = describe_near_tests(report(("a", "b"), ("a", "old"), failed=("b",)), DIFF)
    assert near.text == (
        "2 tests of the repository near the edit pass without it; with it 1 of them does not. "
        "1 that fails without it passes with it."
    )


def test_what_was_not_run_is_said() -> None:
    assert describe_near_tests(None, DIFF).text.startswith("No test of the repository near the")
    cut = report(("a",), ("a",), failed=(), cut=CutShort(ran=1, selected=2))
    assert describe_near_tests(cut, WITH_TEST).text == (
        "1 test of the repository near the edit passes without it; with it none breaks. "
        "A time limit ended the run with the edit: 1 of 2 selected tests ran. "
        "No test was run that is there only with the edit."
    )


async def test_the_question_after_an_edit_says_what_the_near_tests_said(tmp_path: Path) -> None:
    shop = await open_shop(tmp_path)
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    await shop.solver(model).solve(ISSUE)
    asked = model.conversations["editing/0"][-1].text
    assert "2 tests of the repository near the edit pass without it; with it none breaks." in asked
