"""The table of sentences: each names the field of the run that it rests on, and goes with it."""

import re
from collections.abc import Callable
from typing import Any, Final

import pytest
from jinja2 import Environment, FileSystemLoader
from pydantic import BaseModel

from bot.cli.local_run import end_sentence
from bot.cli.report import build_report, render_report
from bot.comments.candidates import render_verdict
from bot.comments.pull_request import pull_body
from bot.comments.replies import run_explanation
from bot.comments.status import render_no_fix
from bot.data import marks
from bot.data.job import Outcome
from bot.data.run import RunStatus, SkippedComments
from bot.server.pages import TEMPLATES
from bot.server.run_edits import build_edit_table
from bot.server.run_report import RunReport
from pipeline.data.code_places import Context, Findings, ShownFile
from pipeline.data.options import Recalibration
from pipeline.data.suite_reports import (
    CutShort,
    FurtherScript,
    Standing,
    SuiteReport,
    SuiteRun,
)
from pipeline.data.types import Candidate, CommitSha, FixedSince, NoFix, RejectedEdit, Selection
from pipeline.select import Choice
from pipeline.selection.verdict import Judgement, Verdict
from sandbox.frozen import replace
from tests.support.data.publishing import ACCOUNTS, FAILS, PASSES, a_run, selection_of_three

_RAN = SuiteRun(execution=PASSES, passed=("a", "b"), failed=("c",), raised={"c": "KeyError"})
_STANDING = Standing(
    votes=2, passes=2, support=2, same_as=0, behaves_as=0, execution=1.0, prior=1.0, broken=()
)


def fill() -> Selection:
    """A selection of which every fact can be told."""
    chosen = selection_of_three()
    proof = chosen.evidence
    first, taken, third = proof.votes.candidates
    again = Candidate(
        sample=3, patch=taken.patch, informed_by=(1,), fault="It loops.", fault_of=2
    )  # fmt: skip
    odd = Candidate(sample=4, patch=first.patch, source="#9")
    votes = replace(
        proof.votes,
        candidates=(first, taken, replace(third, summary="The sign."), again, odd),
        runs=(*proof.votes.runs, proof.votes.runs[1], proof.votes.runs[0]),
        flaky=(1,),
        rejected=(RejectedEdit(name="#34", why="It is closed."),),
    )
    suite = SuiteReport(
        command=("make", "check"),
        before=replace(_RAN, cut=CutShort(ran=2, selected=3)),
        after=replace(_RAN, passed=("a", "b", "d"), raised={"c": "ValueError"}),
        whole=9,
        chosen="those near it",
        failing=("x",),
        flaky=("y",),
        uncontrolled=True,
    )
    further = FurtherScript(text="z", base=FAILS, candidates=(1, 2), runs=(PASSES, FAILS))
    files = tuple(ShownFile(path=f"{n}.py", tokens=9, partial=False, why="") for n in "ab")
    context = Context(
        files=(),
        dropped=("far.py",),
        beside=("CONTRIBUTING.md",),
        numbered_entries="changelog",
        findings=Findings(
            way="scout", files=9, read=7, read_tokens=99, unknown=1, invented=2, shown=files
        ),
    )
    evidence = replace(
        proof,
        votes=votes,
        suite=suite,
        further=(further,),
        context=context,
        standings=tuple(replace(_STANDING, same_as=n) for n in (0, 1, 2, 1, 0)),
        reproduced=("fails", "passes", None, "passes", "fails"),
        order=(1, 2, 0),
        notes=("A note.",),
        cut_short="The limit was reached.",
        unseen=3,
    )
    learnt = Recalibration(shift=0.1, outcomes=9)
    return replace(chosen, evidence=evidence, recalibration=learnt)


FULL: Final = fill()
RUN: Final = replace(a_run(), skipped=SkippedComments(untrusted=2, pictures=1))
NO_FIX: Final = NoFix(
    reason="already fixed",
    details=("It is so.",),
    script="x",
    suspects=("a.py",),
    fixed_since=FixedSince(commit="1" * 40, subject="Mend"),
)

Facts = dict[str, Any]
Row = tuple[str, str, object]


def choose(chosen: Selection, written: int) -> Choice:
    """What `judge` and `select` choose where a run chose `chosen`."""
    proof, same = chosen.evidence, {"order", "further", "standings", "notes", "suite"}
    verdict = Verdict(
        method="evidence",
        chosen=proof.votes.candidates.index(chosen.candidate),
        confidence=chosen.confidence,
        **{name: getattr(proof, name) for name in same},
    )
    return Choice(Judgement(proof.votes, verdict), None, written)


def told(facts: Facts) -> str:
    return "\n".join(
        (
            pull_body(facts["run"], facts["selection"], facts["accounts"]),
            run_explanation(
                replace(facts["run"], status=RunStatus.OPENED_PULL_REQUEST), facts["selection"]
            ),
            render_no_fix(facts["run"], facts["no fix"]),
            *(
                render_report(Outcome(facts[end], facts["accounts"]), facts["hosts"])
                for end in ("selection", "no fix")
            ),
            render_verdict(
                Outcome(choose(facts["selection"], facts["written"]), facts["accounts"])
            ),
        )
    )


ALL: Final[Facts] = {
    "run": RUN,
    "selection": FULL,
    "accounts": ACCOUNTS,
    "no fix": NO_FIX,
    "hosts": ("api.example",),
    "written": 2,
}
PROOF: Final = "selection.evidence"
TABLE: Final[tuple[Row, ...]] = (
    (r"What the issue describes does not happen here", f"{PROOF}.unseen", 0),
    (r"\*\*Before:\*\* `assert -1 == 3`", f"{PROOF}.reproduction.before.output", ""),
    (r"of this repository's tests pass before, 2 after", f"{PROOF}.suite", None),
    (r"2 after \(and 1 more that ran only then\)", f"{PROOF}.suite.after.passed", ("a", "b")),
    (r"; none broken", f"{PROOF}.suite.after.passed", ("a",)),
    (r"\(I ran those near it\)", f"{PROOF}.suite.chosen", ""),
    (r"There was no time to run the rest", f"{PROOF}.suite.before.cut", None),
    (r"No control could be run", f"{PROOF}.suite.uncontrolled", False),
    (r"85% likely to be right", "selection.decided_by", "person"),
    (r", for \$0\.01", "accounts", ()),
    (r"Both in the words of the model", f"{PROOF}.described", False),
    (r"\*\*Proven\*\*: `tests/test_total.py` failed", f"{PROOF}.suite", None),
    (r"\*\*Proven\*\*: `tests/test_total.py` failed", f"{PROOF}.suite.unreached", True),
    (r"The same kind of model wrote", f"{PROOF}.reproduction.rung", "the edit's own tests"),
    (r"One reply brought the test", f"{PROOF}.reproduction.rung", "the edit's own tests"),
    (r"The first commit holds only the test", f"{PROOF}.reproduction.after.exit_code", 2),
    (r"1 sample that read others took over one", f"{PROOF}.votes.candidates.3.informed_by", ()),
    (r"I wrote 4 edits and 2 scripts", f"{PROOF}.votes.candidates.3.informed_by", ()),
    (r"I left out 1 flaky script", f"{PROOF}.votes.flaky", ()),
    (r"what became of 9 earlier pull requests", "selection.recalibration", None),
    (r"Agreeing edits were right so often", f"{PROOF}.standings", ()),
    (r"I ran none of the repository's own tests\.", f"{PROOF}.suite", None),
    (r"1 further test needs a network", f"{PROOF}.suite.before.offline", ("t.py::test_fetch",)),
    (r"Shown, not proven.*own tests were not run", f"{PROOF}.suite", None),
    (r"Shown, not proven.*breaks 1 test that passed", f"{PROOF}.suite.after.passed", ("a", "d")),
    (r"A note\.", f"{PROOF}.notes", ()),
    (r"A sample that read edit B found a fault", f"{PROOF}.votes.candidates.3.fault", ""),
    (r"`#34` is left out", f"{PROOF}.votes.rejected", ()),
    (r"The reproduction test belongs to the chosen edit", f"{PROOF}.reproduced", ()),
    (r"⏱ times out", f"{PROOF}.votes.runs", ((PASSES, PASSES),) * 5),
    (r"Further script, which tells edits apart: A passes; B fails", f"{PROOF}.further", ()),
    (r"What its sample left", f"{PROOF}.votes.candidates.2.summary", ""),
    (r"c: KeyError without it, ValueError with it", f"{PROOF}.suite.after.raised", {}),
    (r"`c` fails without the edit \(`KeyError`\)", f"{PROOF}.suite.after.raised", {}),
    (r"1 more fails? without the change, and was not run", f"{PROOF}.suite.failing", ()),
    (r"The limit was reached\.", f"{PROOF}.cut_short", ""),
    (r"did not see 1 file that may be relevant", f"{PROOF}.context.dropped", ()),
    (r"The changelog lacks an entry", f"{PROOF}.context.numbered_entries", ""),
    (r"A time limit let only a part", f"{PROOF}.suite.before.cut", None),
    (r"The scout read every source file", f"{PROOF}.context.findings", None),
    (r"Files: 2 of 9 shown to the model, and 1 besides", f"{PROOF}.context.beside", ()),
    (r"Shown besides: `CONTRIBUTING.md`", f"{PROOF}.context.beside", ()),
    (r"I read 7 files, chose 0 files", f"{PROOF}.context.findings.read", 0),
    (r"Removed from the rankings: 2 nonexistent paths", f"{PROOF}.context.findings.invented", 0),
    (r"Models: recorded answers", "accounts", ()),
    (r"Code was sent to `api\.example`", "hosts", ()),
    (r"Probable location of the cause", "no fix.suspects", ()),
    (r"2 comments by people without permission", "run.skipped.untrusted", 0),
    (r"1 picture", "run.skipped.pictures", 0),
    (r"Fixed since: 1{40}", "no fix.fixed_since", None),
    (r"This looks fixed already", "no fix.reason", "no edit"),
    (r"What I found out", "no fix.details", ()),
    (r"I tried changes in these files", "no fix.suspects", ()),
    (r"A script that fails before that commit", "no fix.script", ""),
    (r"I could not run the repository's own tests with it", f"{PROOF}.suite", None),
    (r"I ran 2 tests \(2 written by me\)", "written", 0),
    (r"My order of preference", f"{PROOF}.order", (1,)),
)
"""A sentence, the field that it rests on, and a value of that with which it goes, or comes."""


SHOWN: Final[tuple[Row, ...]] = (
    (r"Fix shown by a test; the repository's own tests do not prove", f"{PROOF}.suite", None),
    (r"Proven fix: .*, 85% likely to be right\.", "selection.confidence", 0.5),
    (r"\* has no vote", f"{PROOF}.votes.flaky", ()),
    (r"“Breaks” counts tests", f"{PROOF}.standings", ()),
    (r"passes 2 of 2 scripts; the reproduction test passes", f"{PROOF}.reproduced", ()),
)
"""The same of a run's page and of a terminal."""

ALWAYS: Final = "|".join(
    f"^{begin}"
    for begin in (
        r"(What was wrong|What changed|Evidence|Limits|Edits × scripts|Output with the change)$",
        r"Before: it fails|After: it passes|On the original code it fails|With [AB] it prints:",
        r"Edit [ABC], as a diff|Script \d: on the unedited code it fails; |Cost: |\*\*After:\*\*",
        r"The repository's own tests, `make check`:|These fail with and without|I left these out",
        r"Fixes #7|`total\(\)`|It adds|`tests/test_total.py` is new\.|Run it with|Run `r1`",
        r"A passing test shows|Comment on a line or request|Requested by @alice|No run is active\.",
        r"I estimate that it is|It is so|`a\.py`|Make total\(\) add$|No fix$",
        r"\*\*I would choose `A`|Tests share a process with the edit|\d\. `",
    )
)
"""What stands in each of these texts: headings, frames, and what the fields themselves hold."""


def test_each_line_is_a_row_of_the_table_or_stands_always() -> None:
    text = re.sub(r"`{3,}.*?`{3,}", "", told(ALL), flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->|</?(?:details|summary|sub)>", "\n", text)
    lines = [line.strip("-#> ") for line in text.split("\n") if not line.startswith("|")]
    rows = [ALWAYS, *(sentence for sentence, _, _ in TABLE)]
    assert [one for one in lines if one and not any(re.search(row, one) for row in rows)] == []


def take(facts: Any, path: str, value: object) -> Any:
    """The same facts with another value at the path."""
    name, _, rest = path.partition(".")
    if isinstance(facts, BaseModel):
        old = getattr(facts, name)
        return replace(facts, **{name: take(old, rest, value) if rest else value})
    every: dict[str, Any] = facts if name in ALL else {str(at): one for at, one in enumerate(facts)}
    every = {**every, name: take(every[name], rest, value) if rest else value}
    return every if name in ALL else tuple(every.values())


EDITS: Final = Environment(loader=FileSystemLoader(TEMPLATES)).get_template("edits.html")


def shown(facts: Facts) -> str:
    """What a run's page and the end of a command show beside that."""
    outcome = Outcome(facts["selection"], facts["accounts"])
    report = RunReport(edits=build_edit_table(facts["selection"]))
    end = end_sentence(build_report(outcome, CommitSha("0" * 40)), "Proven fix", "a minute")
    return f"{EDITS.render(report=report, words=marks)}\n{end}"


@pytest.mark.parametrize(
    ("say", "sentence", "path", "without"),
    [(say, *row) for say, rows in ((told, TABLE), (shown, SHOWN)) for row in rows],
)
def test_a_sentence_goes_with_its_fact(
    say: Callable[[Facts], str], sentence: str, path: str, without: object
) -> None:
    said = [re.search(sentence, say(facts)) for facts in (ALL, take(ALL, path, without))]
    assert any(said)
    assert not all(said)
