"""Why no fix is proposed: before anything runs, before any edit, or after the vote.

tests of two samples ─▶ both see nothing to fix ─▶ the wave's other tests ─▶ all agree ─▶ NoFix

Where scripts already pass, the commit that fixed the issue is looked for: without it, the samples
are told, and may find something left; if none shows it by a script, the issue is not reproduced.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.codebase.commit import FETCHED_COMMITS, Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.concurrency import gather_all
from pipeline.data.code_places import Context
from pipeline.data.types import NOT_FIXED, FixedSince, JudgedEdits, NoFix, NoFixReason, Selection
from pipeline.edits.external import MOST_CONTENT, diff_commits
from pipeline.generation.scripts import TestingState
from pipeline.languages.registry import main_language
from pipeline.models.base import ModelUnavailable
from pipeline.replies import NothingToFix
from pipeline.resources import Resources, Workspace
from pipeline.selection.explain import vote_sentences
from pipeline.selection.scoring.confidence import explain_recalibration
from pipeline.selection.verdict import Judgement, list_faults, rank_edits
from pipeline.selection.voting import reproducing_tests, suspect_files
from pipeline.state import Phase
from prompts.text import pluralize
from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.frozen import Frozen, replace
from sandbox.program import NO_ENV, repeat_environment

_REPEATS = 2
"""How often the script runs on both sides of the commit, so that chance does not name it."""

Finding = Literal["fixed", "not fixed", "unknown"]


@dataclass(frozen=True)
class Ancestor:
    commit: str
    subject: str
    """The first line of its message. Untrusted."""


class Lineage:
    """The first parents of a codebase's commit, and how scripts end on them.

    A script runs in the environment of the codebase's own commit, on its checkout with the
    difference to the earlier commit applied.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._codebase = workspace.codebase
        self._workspace = workspace
        self._diffs: dict[int, str | None] = {}
        self._lock = asyncio.Lock()
        self._findings: dict[tuple[str, int, int], Finding] = {}
        self.commits: tuple[Ancestor, ...] = ()

    async def read(self) -> None:
        """Read the commits, newest first; the first is the codebase's own."""
        try:
            log = await git(
                self._codebase.git_dir, "log", "--first-parent", f"--max-count={FETCHED_COMMITS}",
                "-z", "--format=%H %s", "--end-of-options", self._codebase.commit, "--",
            )  # fmt: skip
        except GitFailed:
            return
        lines = log.decode("utf-8", "replace").split("\0")
        pairs = (line.partition(" ") for line in lines if line)
        self.commits = tuple(Ancestor(commit, subject[:200]) for commit, _, subject in pairs)

    async def find_fix(self, script: str) -> int | None:
        """The index of the commit since which `script` says that the issue is fixed.

        Its parent fails the script. None if no commit that is there fails it, or if the script does
        not run on the commits in between.
        """
        last = len(self.commits) - 1
        steps = sorted({min(2**n, last) for n in range(last.bit_length() + 1)}) if last > 0 else []
        ends = await gather_all(self._run(script, at) for at in steps)
        found = dict(zip(steps, ends, strict=True))
        failing = next((at for at in steps if found[at] == "not fixed"), None)
        if failing is None:
            return None
        fixed = max((at for at in steps if at < failing and found[at] == "fixed"), default=0)
        while failing - fixed > 1:
            at = await self._find_telling(script, fixed, failing)
            if at is None:
                return None
            if await self._run(script, at) == "fixed":
                fixed = at
            else:
                failing = at
        return fixed

    async def confirms(self, script: str, fix: int) -> bool:
        """Whether `script` fails on the parent of the commit `fix` and passes on it, every time."""
        runs = [(fix, "fixed"), (fix + 1, "not fixed")]
        ends = await gather_all(
            self._run(script, at, number) for at, _ in runs for number in range(_REPEATS)
        )
        wanted = [end for _, end in runs for _ in range(_REPEATS)]
        return ends == wanted

    async def _find_telling(self, script: str, fixed: int, failing: int) -> int | None:
        """An index between both, near the middle, on which the script has a verdict."""
        middle = (fixed + failing) // 2
        near = sorted(range(fixed + 1, failing), key=lambda at: abs(at - middle))
        # Three commits at each side stand in for one on which the script does not run.
        for at in near[:7]:
            if await self._run(script, at) != "unknown":
                return at
        return None

    async def _run(self, script: str, at: int, number: int = 0) -> Finding:
        key = (script, at, number)
        if key not in self._findings:
            self._findings[key] = await self._execute(script, at, number)
        return self._findings[key]

    async def _execute(self, script: str, at: int, number: int) -> Finding:
        diff = await self._diff_to(at)
        if diff is None:
            return "unknown"
        env = repeat_environment(number) if number else NO_ENV
        try:
            run = await self._workspace.run_script(script, diff, env=env)
        except PatchRejected:
            return "unknown"
        verdicts: dict[int | None, Finding] = {0: "fixed", 2: "not fixed"}
        return verdicts.get(run.exit_code, "unknown")

    async def _diff_to(self, at: int) -> str | None:
        """The difference from the codebase's commit to the one at `at`; None if it is too large."""
        async with self._lock:  # one at a time: git holds all that differs in memory
            if at not in self._diffs:
                old = self.commits[at].commit
                # Of large files that many commits touch, the differences are small.
                edit = await diff_commits(
                    self._codebase.git_dir, self._codebase.commit, old, "", content=MOST_CONTENT
                )
                diff = edit.diff.decode("utf-8", "surrogateescape")
                self._diffs[at] = None if edit.problem else diff
            return self._diffs[at]


TRIAGE_KEY = "triage"
_FIRST = 2
"""How many tests are written before any edit; the others only if these see nothing to fix."""
_REASONS: dict[NothingToFix, NoFixReason] = {
    "question": "question",
    "wish": "unclear wish",
    "elsewhere": "not this repository",
}


class Triage(Frozen):
    """What the tests that were written before any edit say."""

    result: NoFix | None = None
    unseen: int = 0
    """See `Evidence`."""
    script: str = ""
    """One of these scripts. Untrusted."""

    def explain(self, result: Selection | NoFix, suffix: str) -> Selection | NoFix:
        """`result`, with what these tests say of the issue."""
        if not self.unseen:
            return result
        if isinstance(result, Selection):
            return replace(result, evidence=replace(result.evidence, unseen=self.unseen))
        if result.reason not in ("no reproduction", "no edit"):
            return result
        fact = (
            f"All {self.unseen} scripts that were written from the issue's text alone pass on this "
            "code, and nobody who then read the code could show that something is left."
        )
        return NoFix(
            reason="not reproduced",
            details=(fact,),
            script=self.script,
            script_suffix=suffix,
            edits=result.edits,
        )


WriteTest = Callable[[int], Awaitable[TestingState]]
"""Writes the test of a sample, or loads it."""


async def find_nothing_to_fix(resources: Resources, write_test: WriteTest) -> Triage:
    """Why there is nothing to fix, by the tests of the first samples; without a result if there may
    be.

    Those tests are saved as the samples' own, so that they are paid once. One sample alone decides
    nothing, nor does one whose services do not answer: the sampler tells that, and tries again.

    Raises:
        ModelMisconfigured, SandboxError: call again to resume.
    """
    options, store = resources.options, resources.store
    count = min(options.samples, max(options.first_wave, _FIRST))
    if count < _FIRST or not options.triage:
        return Triage()
    if saved := await store.load(TRIAGE_KEY, Triage):
        return saved
    await resources.begin("context", f"Writing {_FIRST} scripts that reproduce the issue.")
    written = await _write_tests(write_test, range(_FIRST))
    if all(state and _sees_nothing(state) for state in written):
        written += await _write_tests(write_test, range(_FIRST, count))
    states = [state for state in written if state and state.phase is not Phase.OUT_OF_BUDGET]
    if len(states) < len(written):
        return Triage()
    found = Triage()
    if all(map(_sees_nothing, states[:_FIRST])) and not any(map(_reports, states)):
        result = _answer(states) or await _find_fix(states, resources)
        passing = [state.scripts[-1] for state in states if _passes(state)]
        unseen = len(passing) if len(passing) == len(states) and result is None else 0
        found = Triage(result=result, unseen=unseen, script=passing[0] if unseen else "")
    await store.save(TRIAGE_KEY, found)
    return found


async def _write_tests(write_test: WriteTest, samples: range) -> list[TestingState | None]:
    """The tests; None for a sample whose services do not answer."""

    async def write(sample: int) -> TestingState | None:
        try:
            return await write_test(sample)
        except (ModelUnavailable, SandboxUnavailable):
            return None

    return await gather_all(write(sample) for sample in samples)


def _reports(state: TestingState) -> bool:
    return any(run.exit_code == NOT_FIXED for run in state.runs)


def _passes(state: TestingState) -> bool:
    """Whether its last script says that the issue is fixed already, and none says otherwise."""
    return bool(state.runs) and state.runs[-1].passed and not _reports(state)


def _sees_nothing(state: TestingState) -> bool:
    return state.nothing is not None or _passes(state)


def _answer(states: Sequence[TestingState]) -> NoFix | None:
    """The answer that more than half of the samples give."""
    for kind, reason in _REASONS.items():
        answers = [state.why for state in states if state.nothing == kind]
        if 2 * len(answers) > len(states):
            return NoFix(reason=reason, details=tuple(filter(None, answers[:1])))
    return None


async def _find_fix(states: Sequence[TestingState], resources: Resources) -> NoFix | None:
    """The commit since which the scripts of most samples pass; None if they do not agree on one."""
    scripts = [state.scripts[-1] for state in states if _passes(state)]
    if len(scripts) < _FIRST or 2 * len(scripts) <= len(states):
        return None
    lineage = Lineage(resources)
    await lineage.read()
    for script in dict.fromkeys(scripts):
        fix = await lineage.find_fix(script)
        if fix is None:
            continue
        showing = {other: await lineage.confirms(other, fix) for other in dict.fromkeys(scripts)}
        shown = sum(showing[other] for other in scripts)
        if showing[script] and shown >= _FIRST and 2 * shown > len(states):
            found = _tell_fix(lineage.commits, fix, script, shown, len(states))
            language = main_language(resources.codebase)
            return replace(found, script_suffix=language.script_suffix)
    return None


def _tell_fix(
    commits: Sequence[Ancestor], fix: int, script: str, shown: int, samples: int
) -> NoFix:
    at = commits[fix]
    ago = "the commit that I started from" if not fix else f"{pluralize(fix, 'commit')} ago"
    return NoFix(
        reason="already fixed",
        details=(
            f"{shown} of {samples} scripts, written independently from the issue's text, fail on "
            "its parent and pass on it, each time that they were run.",
            f"It is {at.commit}, {ago}: {at.subject}",
        ),
        script=script,
        fixed_since=FixedSince(commit=at.commit, subject=at.subject),
    )


_PROSE = re.compile(
    r"(.*/)?(\.[^/]+|LICEN[CS]E[^/]*|COPYING|README|AUTHORS|CHANGE(S|LOG)"
    r"|[^/]+\.(md|rst|txt|adoc|json|ya?ml|toml|ini|cfg|csv|xml|html?|css|svg|png|jpe?g|gif|pdf))",
    re.IGNORECASE,
)


def find_unsolvable(codebase: Codebase, configured: Sequence[str] = ()) -> NoFix | None:
    """Why preparing an environment is already useless; None if it may be useful."""
    if not codebase.files:
        return NoFix(reason="empty repository")
    if not configured and all(map(_PROSE.fullmatch, codebase.files)):
        return NoFix(
            reason="no source files",
            details=("This repository holds only texts and data: I find no code to run.",),
        )
    return None


def abstain_below(judged: Judgement, least: float, context: Context | None = None) -> NoFix:
    """Why nothing is proposed: no edit may be, or the confidence of the best is below `least`."""
    verdict = judged.verdict
    if verdict.chosen is None:
        return abstain(judged, verdict.reason or "no edit", context=context)
    sure = (
        f"My best edit is {verdict.confidence:.0%} likely to be right; below {least:.0%} I "
        f"propose none. {verdict.why}"
    )
    if verdict.recalibration:
        sure += f" {explain_recalibration(verdict.confidence, verdict.recalibration)}"
    return abstain(judged, "not sure enough", sure, context=context)


def abstain(
    judged: Judgement,
    reason: NoFixReason,
    *first: str,
    context: Context | None = None,
    votes: bool = True,
) -> NoFix:
    """Why nothing is proposed, with everything learnt: the edits, the votes, a script, the files.

    `votes`: whether to describe the votes after the sentences `first`.
    """
    table = judged.table
    steady = [t for t in reproducing_tests(table) if t not in table.flaky]
    # The script that most edits pass is the least likely to test something nobody intended.
    passed = {t: sum(runs[t].passed for runs in table.runs) for t in steady}
    best = max(steady, key=lambda t: passed[t], default=None)
    facts = vote_sentences(table, judged.verdict.standings) if table.candidates and votes else ()
    faults = list_faults(table, judged.verdict.order)
    rejected = tuple(one.sentence for one in table.rejected)
    return NoFix(
        reason=reason,
        details=(*first, *judged.verdict.notes, *faults, *facts, *rejected),
        script="" if best is None else table.tests[best].text,
        script_suffix=table.script_suffix,
        suspects=suspect_files(table)[:10],
        edits=_collect_edits(judged, context),
    )


def _collect_edits(judged: Judgement, context: Context | None) -> JudgedEdits | None:
    table, verdict = judged.table, judged.verdict
    if not table.candidates:
        return None
    return JudgedEdits(
        votes=table,
        order=rank_edits(table, verdict.order),
        standings=verdict.standings,
        confidence=verdict.confidence or None,
        method=verdict.method,
        suite=verdict.suite,
        suite_problem=verdict.suite_problem,
        context=context,
    )
