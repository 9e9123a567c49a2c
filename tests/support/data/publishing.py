"""Values that the tests of publishing start from: a tiny shop whose total() subtracts."""

from datetime import UTC, datetime

from bot.data.run import Login, RepoRef, Run, RunId
from pipeline.data.code_places import Context
from pipeline.data.suite_reports import SuiteReport, SuiteRun
from pipeline.data.types import (
    Account,
    Candidate,
    Evidence,
    Patch,
    Reproduction,
    Selection,
    TestScript,
    Usage,
    VoteTable,
)
from sandbox.frozen import replace
from sandbox.program import Ending, Execution
from tests.support.data.diffs import diff_of

SHOP = b"def total(a, b):\n    return a - b\n"
FIX = diff_of(SHOP.decode(), SHOP.decode().replace("a - b", "a + b"), "shop.py")
TEST_DIFF = """\
diff --git a/tests/test_total.py b/tests/test_total.py
new file mode 100644
--- /dev/null
+++ b/tests/test_total.py
@@ -0,0 +1,5 @@
+from shop import total
+
+
+def test_total_adds() -> None:
+    assert total(1, 2) == 3
"""
PASSES = Execution(exit_code=0, output="1 passed\n", seconds=0.1)
FAILS = Execution(exit_code=2, output="assert -1 == 3\n1 failed\n", seconds=0.1)
BREAKS = Execution(exit_code=1, output="SyntaxError\n", seconds=0.1)
HANGS = Execution(exit_code=None, output="", seconds=100, ending=Ending.TIMEOUT)
ACCOUNTS = (
    Account(
        stage="testing",
        model="recorded-1",
        calls=3,
        usage=Usage(input=1000, output=200, cache_read=500),
        dollars=0.0123,
    ),
)

SUITE = SuiteReport(
    command=("python", "-m", "pytest"),
    before=SuiteRun(execution=PASSES, passed=("a", "b"), failed=("c",)),
    after=SuiteRun(execution=PASSES, passed=("a", "b", "c"), failed=()),
)


def a_run(**fields: object) -> Run:
    run = Run(
        id=RunId("r1"),
        repo=RepoRef(id=1, owner="acme", name="shop", installation=1),
        issue=7,
        asked_by=Login("alice"),
        delivery="d",
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    return replace(run, **fields)


def a_selection(
    *, output: str = FAILS.output, cause: str = "`total()` subtracts.", fix: str = FIX
) -> Selection:
    chosen = Candidate(sample=1, patch=Patch(diff=fix))
    other = Candidate(sample=0, patch=Patch(diff=FIX.replace("a + b", "b + a")))
    table = VoteTable(
        candidates=(other, chosen),
        tests=(TestScript(text="x"), TestScript(text="y")),
        base=(FAILS, FAILS),
        runs=((BREAKS, HANGS), (PASSES, PASSES)),
        script_suffix=".py",
    )
    reproduction = Reproduction(
        path="tests/test_total.py",
        text="",
        diff=TEST_DIFF,
        command=("python", "-m", "pytest", "tests/test_total.py"),
        before=replace(FAILS, output=output),
        after=PASSES,
    )
    evidence = Evidence(
        votes=table,
        finalists=(1,),
        selection_rounds=0,
        reproduction=reproduction,
        suite=SUITE,
        title="Make total() add",
        cause=cause,
        change="It adds now.",
        context=Context(files=()),
        method="evidence",
        why="It passes both scripts that report the issue.",
        order=(1, 0),
    )
    return Selection(candidate=chosen, decided_by="evidence", confidence=0.85, evidence=evidence)


def proven(chosen: Selection, **fields: object) -> Selection:
    """The same selection, with other evidence."""
    return replace(chosen, evidence=replace(chosen.evidence, **fields))


def selection_of_three() -> Selection:
    """The second edit was chosen; the third is the next best, then the first."""
    chosen = a_selection()
    proof = chosen.evidence
    third = Candidate(sample=2, patch=Patch(diff=FIX.replace("a + b", "sum((a, b))")))
    votes = replace(
        proof.votes,
        candidates=(*proof.votes.candidates, third),
        runs=(*proof.votes.runs, (PASSES, FAILS)),
    )
    return proven(chosen, votes=votes, order=(1, 2, 0))
