"""Texts about edits for the snapshots: verdicts, refusals, pull requests, commits."""

from collections.abc import Mapping, Sequence
from typing import get_args

from bot.comments import candidates, pull_request, settings_file
from bot.comments.run_details import destinations_note
from bot.data.failure import FailureFacts, SwapProblem
from bot.data.github_facts import CoAuthor, Identity
from bot.data.job import Outcome
from bot.data.pull import CommitStyle
from bot.data.run import Login, Mode, SkippedComments
from bot.errors import SwapRefused
from bot.safe_text import make_marker
from pipeline.data.code_places import Context, Findings, ShownFile
from pipeline.data.suite_reports import FurtherScript, Standing, SuiteReport, SuiteRun
from pipeline.data.types import (
    Candidate,
    NoFix,
    NoFixReason,
    Patch,
    RejectedEdit,
    Selection,
    VoteTable,
)
from pipeline.select import Choice
from pipeline.selection.verdict import Judgement, Verdict
from sandbox.frozen import replace
from tests.support.data.publishing import (
    ACCOUNTS,
    BREAKS,
    FAILS,
    FIX,
    PASSES,
    a_run,
    a_selection,
    proven,
)

RUN = replace(
    a_run(), page_url="https://bot.acme.test/runs/r1?key=k", dollars=0.42, mode=Mode.JUDGE,
    pulls=(12, 34, 56),
)  # fmt: skip
CHOSEN = a_selection()
USED = replace(RUN, mode=Mode.USE, candidate=2)


def foreign(sample: int, source: str) -> Candidate:
    return Candidate(sample=sample, patch=Patch(diff=FIX), source=source)


TABLE = replace(
    CHOSEN.evidence.votes,
    candidates=(foreign(0, "#12 by bob"), foreign(1, "#34 by carol")),
    rejected=(
        RejectedEdit(name="#56 by dan", why=candidates.PULL_PROBLEMS["closed"]),
        RejectedEdit(name="#99", why=candidates.PULL_PROBLEMS["missing"]),
    ),
)
STANDINGS = tuple(
    Standing(votes=n, passes=n, support=1, same_as=i, behaves_as=i, execution=n - 1.0, prior=0.0)
    for i, n in enumerate((0, 2))
)
TAKEN = Verdict(
    method="evidence",
    chosen=1,
    order=(1, 0),
    why="It passes both scripts that report the issue.",
    confidence=0.85,
    suite=CHOSEN.evidence.suite,
    standings=STANDINGS,
    notes=("#12 by bob: what it does to submodules is left out.",),
)
ALONE = replace(TAKEN, suite=None, suite_problem="No test passes without any edit.", order=(1,))
NONE = replace(TAKEN, chosen=None, reason="edits break tests", suite=None)


def judged(
    verdict: Verdict, no: NoFix | None = None, *, table: VoteTable = TABLE, written: int = 0
) -> str:
    chosen = Outcome(Choice(Judgement(table, verdict), no, written), ACCOUNTS, "image")
    return candidates.render_pull_verdict(RUN, chosen)


VERDICTS: Mapping[str, str] = {
    "one is taken": judged(TAKEN),
    "by a test of ours, without a suite": judged(ALONE, written=2),
    "by what they have in common": judged(
        replace(ALONE, why="It is most like the others."),
        table=replace(TABLE, tests=(), base=(), runs=((), ())),
    ),
    "none is taken": judged(NONE, NoFix(reason="edits break tests")),
    "none is likely enough": judged(
        TAKEN,
        NoFix(reason="not sure enough", details=("The best is right with 5%, asked is 20%.",)),
    ),
    "why none": "\n".join(
        candidates.abstention_reason(NoFix(reason=reason)) for reason in get_args(NoFixReason)
    ),
    "why one is not looked at": "\n".join(candidates.PULL_PROBLEMS.values()),
}

PROOF = CHOSEN.evidence.reproduction
NOT_USED: Mapping[str, str] = {
    f"use: {name}": candidates.render_no_swap(USED, refused, "capuchin")
    for name, refused in {
        "the run is gone": SwapRefused("run expired"),
        "its edits are gone": SwapRefused("edits expired"),
        "closed": SwapRefused("pull request closed", 12),
        "no such edit": SwapRefused("no such edit"),
        "there already": SwapRefused("already there", 12),
        "fails the test": SwapRefused("test fails", test=replace(PROOF, after=FAILS)),
        "cannot be tested": SwapRefused(
            "test fails", test=replace(PROOF, after=replace(FAILS, exit_code=4))
        ),
        "changed since": SwapRefused("changed after review", 12),
        "a person's": SwapRefused("pushed by others", 12),
        "not to be pushed": SwapRefused(
            "forbidden path", facts=FailureFacts(words="it changes a path that no edit may change")
        ),
        "refused by GitHub": SwapRefused(
            "push rejected",
            12,
            facts=FailureFacts(problem="branch name", words="It must begin with @bots/."),
            edit=CHOSEN,
        ),
    }.items()
} | {
    "use: on its page": "\n".join(
        candidates.describe_use(replace(USED, swap_problem=problem, pull_request=12))
        for problem in get_args(SwapProblem)
    ),
    "use: asked on the pull request": candidates.render_no_swap(
        USED, SwapRefused("test fails", test=replace(PROOF, after=FAILS)), "capuchin", 12
    ),
}

READ = replace(a_run(), skipped=SkippedComments(untrusted=2, late=1, edited=True))
FOUND = Context(
    files=(),
    dropped=("shop/cart.py", "shop/shelf.py"),
    unneeded=("shop/shelf.py",),
    findings=Findings(
        way="scout", files=12, read=11, read_tokens=4000, unknown=1, listed=9, invented=1,
        shown=(
            ShownFile(path="shop/till.py", tokens=200, why="It adds | subtracts.", partial=False),
        ),
    ),
    not_read=("1 file is too large.",),
)  # fmt: skip
SUITE = SuiteReport(
    command=("python", "-m", "pytest"),
    before=SuiteRun(execution=PASSES, passed=("a", "b"), failed=()),
    after=SuiteRun(execution=FAILS, passed=("a",), failed=("b",)),
    flaky=("tests/test_time.py::test_now",),
    whole=9000,
    chosen="those that use the changed code",
)


def proved(**fields: object) -> Selection:
    return proven(CHOSEN, **fields)


LIVE = replace(ACCOUNTS[0], model="qwen")
UNREACHABLE = "".join(f"curl: (6) Could not resolve host: h{n}.example.org\n" for n in range(12))
FREE = "qwen runs on the operator's own server: free."

FURTHER = tuple(
    FurtherScript(text=text, base=FAILS, candidates=(1, 0), runs=runs)
    for text, runs in (
        (
            "from shop import total\n\nraise SystemExit(0 if total(1, -1) == 0 else 2)\n",
            (PASSES, FAILS),
        ),
        ("import shop\n", (PASSES, BREAKS)),
    )
)
PULLS: Mapping[str, str] = {
    "pull request": pull_request.pull_body(READ, CHOSEN, ACCOUNTS),
    "without a suite": pull_request.pull_body(
        a_run(), proved(suite=None, suite_problem="No test passes."), ACCOUNTS
    ),
    "a part of a suite, and all that can be told": pull_request.pull_body(
        a_run(),
        proved(
            suite=SUITE,
            context=FOUND,
            notes=("The reward model was left out: it cannot be reached.",),
            further=FURTHER,
            cut_short="Money ended after 4 of 10 edits.",
            standings=STANDINGS,
            votes=replace(CHOSEN.evidence.votes, flaky=(1,)),
        ),
        [replace(a, price_note=FREE, model="qwen") for a in ACCOUNTS],
    ),
    "without a network, and from elsewhere": pull_request.pull_body(
        a_run(),
        a_selection(output=UNREACHABLE),
        ACCOUNTS,
        destinations=destinations_note(["api.example.org"], (), by_app=True),
    ),
    "without a network, and of one's own": pull_request.pull_body(
        a_run(),
        a_selection(output="gaierror: [Errno -3] Temporary failure in name resolution"),
        (LIVE,),
        destinations=destinations_note([], [LIVE], by_app=True),
    ),
    "a settings file": f"{settings_file.PULL_TITLE}\n\n"
    + settings_file.pull_body(Login("alice"), make_marker("settings", "comment-1")),
    "into a template": pull_request.pull_body(
        a_run(), CHOSEN, ACCOUNTS, "## Why\n\n## What\n\n## Tests\n\n- [x] I have read it\n"
    ),
}


def message(manners: CommitStyle, kind: str, title: str, body: str = "") -> str:
    identity = Identity(1, Login("capuchin[bot]"), "1+capuchin[bot]@users.noreply.github.com")
    alice = CoAuthor(Login("alice"), "7+alice@users.noreply.github.com")
    return manners.format_message(manners.format_title(kind, title), body, identity, alice)


def messages(manners: CommitStyle) -> Sequence[str]:
    return [
        message(manners, "test", pull_request.reproduction_title(7)),
        message(
            manners, "fix", pull_request.pull_title(CHOSEN, 7), pull_request.commit_body(CHOSEN)
        ),
        message(manners, "revert", pull_request.revert_title(Login("alice"))),
        message(manners, "fix", "Address review comments", "I said why."),
    ]


COMMITS: Mapping[str, str] = {
    "as they are": "\n".join(messages(CommitStyle())),
    "conventional and signed off": "\n".join(
        messages(CommitStyle(conventional=True, signed_off=True))
    ),
}
